"""Hosts, switches, applications and the connections between them.

A leaf-spine network: `HOSTS_PER_TOR` hosts under a top-of-rack switch, each of those on every aggregation switch; which
one a pair of racks uses is a route of the topology file. A connection is two sockets, one on each host.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from whylat_fleet.topology import Host, Topology

HOSTS_PER_TOR = 40
"""SNAP section 4.1 has 37 hosts or more under one switch."""
APPS_PER_HOST = 3
SNAP_HOSTS, SNAP_APPS = 8000, 700
SENSITIVE_SHARE = 136 / 154
"""Of SNAP's applications with delayed ACKs, those sensitive to delay (Table 4)."""
SAME_RACK_SHARE = 0.3
"""Assumed share of connections that stay in their rack."""
LEAST_WORLD = 2 * HOSTS_PER_TOR
"""Hosts that a smaller fleet is a part of: what its own hosts talk to is there, and nothing watches it."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(slots=True)
class Center:
    """A data centre. Socket `2f` is the client's end of flow `f`, `2f + 1` the server's."""

    random: np.random.Generator
    hosts: int
    """Hosts that are watched: the first of them."""
    apps: int
    aggregations: int
    host: Ints
    """Of each socket, its host's number."""
    app: Ints
    """Of each socket, its application's number."""
    world: int = 0
    """All hosts."""
    conn_id: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    proxies: list[tuple[int, int]] = field(default_factory=list)
    """Host and application of processes that pass data on."""

    @property
    def sockets(self) -> int:
        """How many there are."""
        return len(self.host)

    @property
    def peer(self) -> Ints:
        """Returns the host at the other end of each socket."""
        return self.host.reshape(-1, 2)[:, ::-1].reshape(-1)

    @property
    def tors(self) -> int:
        """Top-of-rack switches."""
        return -(-self.hosts // HOSTS_PER_TOR)

    def add(self, client: Ints, server: Ints, client_app: Ints, server_app: Ints) -> Ints:
        """Adds flows; returns the clients' sockets (the servers' are the next numbers)."""
        first = self.sockets
        self.host = np.concatenate([self.host, np.stack([client, server], 1).reshape(-1)])
        self.app = np.concatenate([self.app, np.stack([client_app, server_app], 1).reshape(-1)])
        return np.arange(first, self.sockets, 2)

    def aggregation(self, source: Ints, target: Ints) -> Ints:
        """Number of the aggregation switch between two racks."""
        return (source * 7 + target * 3) % self.aggregations

    def topology(self) -> Topology:
        """Returns the topology that the operator would write."""
        spines = tuple(aggregation_name(number) for number in range(self.aggregations))
        tors = [tor_name(number) for number in range(self.tors)]
        pairs = [(a, b) for a in range(self.tors) for b in range(self.tors) if a != b]
        return Topology(
            hosts={
                host_name(number): Host(tors[number // HOSTS_PER_TOR], (address(number),))
                for number in range(self.hosts)
            },
            uplinks={**dict.fromkeys(tors, spines), **dict.fromkeys(spines, ())},
            routes={(tors[a], tors[b]): (spines[(a * 7 + b * 3) % self.aggregations],) for a, b in pairs},
        )


def host_name(number: int) -> str:
    """Name of a host."""
    return f"h{number:05}"


def tor_name(number: int) -> str:
    """Name of a top-of-rack switch."""
    return f"tor-{number:03}"


def aggregation_name(number: int) -> str:
    """Name of an aggregation switch."""
    return f"agg-{number:02}"


def address(number: int) -> str:
    """Address of a host."""
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def build(hosts: int, connections: int, largest: int, seed: int) -> Center:
    """A data centre with agents on `hosts`; a host has `connections` sockets in the median, at most `largest`."""
    random = np.random.default_rng(seed)
    apps = max(12, hosts * SNAP_APPS // SNAP_HOSTS)
    # log-normal: the greatest of so many hosts lies at the greatest of so many normal numbers
    world = max(hosts, LEAST_WORLD)
    sigma = np.log(largest / 150) / np.sqrt(2 * np.log(SNAP_HOSTS))
    wanted = np.minimum(connections * np.exp(sigma * random.standard_normal(world)), largest)
    share = wanted / wanted.sum()
    flows = int(wanted.sum() / 2)
    # few applications run on many hosts, most on few (Zipf)
    popularity = 1 / np.arange(1, apps + 1)
    runs = random.choice(apps, (world, APPS_PER_HOST), p=popularity / popularity.sum())
    client = random.choice(world, flows, p=share)
    anywhere = random.choice(world, flows, p=share)
    rack = client // HOSTS_PER_TOR * HOSTS_PER_TOR
    near = rack + random.integers(0, np.minimum(HOSTS_PER_TOR, world - rack))
    server = np.where(random.random(flows) < SAME_RACK_SHARE, near, anywhere)
    server = np.where(server == client, (client + 1) % world, server)
    center = Center(
        random, hosts, apps, max(2, min(8, hosts // 400)), np.zeros(0, np.int64), np.zeros(0, np.int64), world
    )
    of = random.integers(0, APPS_PER_HOST, (2, flows))
    center.add(client, server, runs[client, of[0]], runs[server, of[1]])
    return center
