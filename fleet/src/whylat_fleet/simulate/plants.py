"""Culprits that are planted: each kind that SNAP's paper describes. The effect of each is its truth."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from whylat_fleet.errors import UsageError
from whylat_fleet.schema import PROBLEMS
from whylat_fleet.simulate.layout import HOSTS_PER_TOR, Center, Ints, aggregation_name, host_name, tor_name
from whylat_fleet.simulate.problems import Cells, episodes

SEND_BUFFER, FAST_RETRANSMIT, TIMEOUT, DELAYED_ACK, RECEIVER_WINDOW = range(len(PROBLEMS))


class TooSmallError(Exception):
    """A data centre that is too small for a culprit; says what it does not have."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Holds the planted resource, and the resources that hold the same connections and cannot be distinguished."""

    plant: str
    kind: str
    name: str
    problem: str
    same: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """For `truth.json`."""
        return asdict(self)


@dataclass(slots=True)
class PlantTruth:
    """Truth and what it does."""

    truth: Truth
    cells: list[Cells]
    idle: list[tuple[Ints, Ints]]
    """Sockets and bins in which the application had given nothing to send, of pipelines."""


def _require(center: Center, hosts: int, plant: str, why: str) -> None:
    if center.hosts < hosts:
        raise TooSmallError(f"{plant} needs {why}: {hosts} hosts or more")


def _cells(sockets: Ints, bins: Ints, problem: int, us: Ints) -> Cells:
    return Cells(sockets, bins, np.full(len(sockets), problem), us.astype(np.int64))


def _together(center: Center, sockets: Ints, times: Ints, chance: float, problem: int, us: tuple[int, int]) -> Cells:
    """Returns cells: each of `sockets` has the problem at each of `times` with this chance."""
    hit = center.random.random((len(sockets), len(times))) < chance
    index, time = np.nonzero(hit)
    return _cells(sockets[index], times[time], problem, center.random.integers(*us, len(index)))


def receive_window(center: Center, bins: int) -> PlantTruth:
    """SNAP 4.1: ten hosts send to a server that announces a window of a few bytes: no connection is fast."""
    _require(center, 11, "receive-window", "ten hosts that send to another")
    server, *clients = (int(host) for host in center.random.choice(center.hosts, 11, replace=False))
    app = int(center.random.integers(center.apps))
    client = np.repeat(np.array(clients), 3)
    sockets = center.add(client, np.full(30, server), np.full(30, app), np.full(30, app))
    owner, bin_ = episodes(center.random, center.random.uniform(0.6, 0.95, 30), 30, bins)
    cells = _cells(sockets[owner], bin_, RECEIVER_WINDOW, center.random.integers(1_700_000, 2_000_001, len(bin_)))
    name = host_name(server)
    rack = tor_name(server // HOSTS_PER_TOR)
    return PlantTruth(Truth("receive-window", "host", name, "receiver_window", (f"link {rack}>{name}",)), [cells], [])


def incast(center: Center, bins: int) -> PlantTruth:
    """SNAP 4.1: an aggregator asks 35 workers under the same switch at once, 20 times; their answers are lost."""
    _require(center, 40, "incast", "35 hosts and another under one switch")
    rack = int(center.random.integers(center.world // HOSTS_PER_TOR)) if center.hosts == center.world else 0
    under = center.random.permutation(HOSTS_PER_TOR)[:36] + rack * HOSTS_PER_TOR
    app = int(center.random.integers(center.apps))
    workers = len(under) - 1
    sockets = center.add(under[1:], np.full(workers, under[0]), np.full(workers, app), np.full(workers, app))
    times = np.sort(center.random.choice(bins, 20, replace=False))
    cells = _together(center, sockets, times, 0.5, TIMEOUT, (200_000, 1_500_000))
    name = host_name(int(under[0]))
    return PlantTruth(Truth("incast", "link", f"{tor_name(rack)}>{name}", "timeout", (f"host {name}",)), [cells], [])


def bad_port(center: Center, bins: int) -> PlantTruth:
    """SNAP 6.3: a port of a switch loses packets in bursts, of whatever is sent through it."""
    _require(center, 80, "bad-port", "two racks")
    source, target = center.host // HOSTS_PER_TOR, center.peer // HOSTS_PER_TOR
    spine = center.aggregation(source, target)
    through = np.bincount((source * center.aggregations + spine)[source != target])
    busy = np.flatnonzero(through >= max(40, np.median(through[through > 0]))) if through.any() else np.zeros(0)
    if not len(busy):
        raise TooSmallError("no link between switches carries the 40 connections that bad-port needs")
    port = int(center.random.choice(busy))
    rack, above = port // center.aggregations, port % center.aggregations
    sockets = np.flatnonzero((source == rack) & (target != rack) & (spine == above))
    # not all send much
    sockets = sockets[center.random.random(len(sockets)) < 0.5]
    times = np.sort(center.random.choice(bins, 60, replace=False))
    cells = [
        _together(center, sockets, times, 0.4, FAST_RETRANSMIT, (300_000, 700_000)),
        _together(center, sockets, times, 0.2, TIMEOUT, (200_000, 1_200_000)),
    ]
    truth = Truth("bad-port", "link", f"{tor_name(rack)}>{aggregation_name(above)}", "fast_retransmit")
    return PlantTruth(truth, cells, [])


def backups(center: Center, bins: int) -> PlantTruth:
    """SNAP 5.2: an application copies from many hosts at the same time of the day and loses packets everywhere."""
    _require(center, 60, "backups", "30 hosts and 20 others")
    app = center.apps
    center.apps += 1
    count = max(30, center.hosts // 40)
    stores = center.random.choice(center.hosts, 20)
    client = center.random.choice(np.setdiff1d(np.arange(center.hosts), stores), count, replace=False)
    server = stores[np.arange(count) % 20]
    sockets = center.add(client, server, np.full(count, app), np.full(count, app))
    begin = int(center.random.integers(0, bins - 300))
    times = begin + np.flatnonzero(center.random.random(300) < 0.6)
    cells = _together(center, sockets, times, 0.5, FAST_RETRANSMIT, (300_000, 1_500_000))
    return PlantTruth(Truth("backups", "application", f"app-{app:03}", "fast_retransmit"), [cells], [])


def delayed_acks(center: Center, bins: int) -> PlantTruth:
    """SNAP 6.2: an application's pattern of writes delays its ACKs, on all of its hosts, whenever it writes."""
    seen = center.host < center.hosts
    count = np.bincount(center.app[seen], minlength=center.apps)
    is_part = center.hosts < center.world
    least, part = (10, 2) if is_part else (60, 20)
    fit = np.flatnonzero((count >= least) & (count <= int(seen.sum()) // part))
    if not len(fit):
        most = f"{least} connections, and at most {100 // part} % of all"
        raise TooSmallError(f"no application has {most}, as delayed-acks needs")
    app = int(center.random.choice(fit))
    sockets = np.flatnonzero(center.app == app)
    owner, bin_ = episodes(center.random, center.random.uniform(0.3, 0.8, len(sockets)), 5, bins)
    cells = _cells(sockets[owner], bin_, DELAYED_ACK, center.random.integers(200_000, 1_600_000, len(bin_)))
    return PlantTruth(Truth("delayed-acks", "application", f"app-{app:03}", "delayed_ack"), [cells], [])


def send_buffer(center: Center, bins: int) -> PlantTruth:
    """SNAP 5.3: on a host with many connections their send buffers are small; all are full when it is busy."""
    _require(center, 2, "send-buffer", "another host to compare with")
    host = int(center.random.integers(center.hosts))
    count = 400
    others = np.setdiff1d(np.arange(center.world), [host])
    apps = center.random.integers(0, center.apps, (2, count))
    sockets = center.add(np.full(count, host), center.random.choice(others, count), apps[0], apps[1])
    _, times = episodes(center.random, np.array([0.25]), 8, bins)
    cells = _together(center, sockets, times, 0.5, SEND_BUFFER, (300_000, 2_000_000))
    return PlantTruth(Truth("send-buffer", "host", host_name(host), "send_buffer"), [cells], [])


def pipeline(center: Center, bins: int) -> PlantTruth:
    """SNAP 6.2: a proxy waits for the client's delayed ACK before it asks its server for more."""
    app = center.apps
    center.apps += 1
    host, *others = (int(other) for other in center.random.choice(center.world, 9, replace=False))
    if host >= center.hosts:
        host = next((other for other in others if other < center.hosts), 0)
        others = [other for other in np.arange(center.world).tolist() if other != host][-8:]
    center.proxies.append((host, app))
    pairs = 4
    others_app = np.full(pairs, int(center.random.integers(app)))
    # the proxy's ends: it answers its clients and asks its servers
    answers = center.add(np.array(others[:pairs]), np.full(pairs, host), others_app, np.full(pairs, app)) + 1
    asks = center.add(np.full(pairs, host), np.array(others[pairs:]), np.full(pairs, app), others_app)
    owner, bin_ = episodes(center.random, np.full(pairs, 0.04), 1.5, bins)
    cells = _cells(answers[owner], bin_, DELAYED_ACK, center.random.integers(800_000, 2_000_000, len(bin_)))
    late = np.minimum(bin_ + (center.random.random(len(bin_)) < 0.3), bins - 1)
    name = f"{host_name(host)} {process_name(app)}"
    return PlantTruth(Truth("pipeline", "process", name, "delayed_ack"), [cells], [(asks[owner], late)])


def process_name(app: int) -> str:
    """Command name of the process of an application."""
    return f"proc-{app:03}"


PLANTS: dict[str, Callable[[Center, int], PlantTruth]] = {
    "receive-window": receive_window,
    "incast": incast,
    "bad-port": bad_port,
    "backups": backups,
    "delayed-acks": delayed_acks,
    "send-buffer": send_buffer,
    "pipeline": pipeline,
}


def parse(plants: list[str]) -> list[str]:
    """Names of what to plant, from `all`, `none` or `NAME[:COUNT]`. Raises `UsageError`."""
    chosen: list[str] = []
    for item in plants:
        name, _, count = item.partition(":")
        if name == "all":
            chosen += PLANTS
        elif name in PLANTS and (count or "1").isdigit():
            chosen += [name] * int(count or 1)
        elif name != "none":
            raise UsageError(f"--plant {item}: no such culprit", f"one of all, none, {', '.join(PLANTS)}; NAME:COUNT")
    return chosen
