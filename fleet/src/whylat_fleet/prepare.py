"""From a dataset to the tables that the questions share: which hosts and connections count, and why others do not.

It leaves out hosts with a clock that may be wrong by half a bin or more: most of their rows may lie in a neighbouring
bin. It also leaves out connections that were read less often than once a bin. Absent is not healthy: it names hosts
that were not watched for the whole window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from whylat_fleet import topology
from whylat_fleet.algebra import Grid, start, weigh
from whylat_fleet.dataset import (
    ATTEMPTS,
    HOUR_NS,
    SECOND_NS,
    Dataset,
    LeftOut,
    Selection,
    Window,
    hosts_without,
    unreadable,
    written_as,
)
from whylat_fleet.engine import Engine, Row
from whylat_fleet.errors import FleetError, UnwatchedError, UsageError
from whylat_fleet.questions import text
from whylat_fleet.schema import BIN_NS, CORRELATED, TABLES

TOTALS = "fleet_totals"
HOSTS = {"host": "VARCHAR", "host_no": "BIGINT", "tor_no": "BIGINT", "delayed_ack": "INTEGER"}
"""Columns of `hosts`, of those that count: their rack, -1 where it is unknown; 1 where delayed ACKs were measured."""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Coverage:
    """Hosts, times and tables that a report covers, and those that it does not."""

    window: Window
    hosts: int = 0
    left_out_files: list[LeftOut] = field(default_factory=list)
    superseded_files: int = 0
    left_out_hosts: dict[str, str] = field(default_factory=dict)
    partly_watched: dict[str, float] = field(default_factory=dict)
    """Share of the window, of hosts that were watched for less than all of it."""
    absent: list[str] = field(default_factory=list)
    """Hosts of the topology file that nothing watched."""
    unplaced: list[str] = field(default_factory=list)
    """Hosts that the topology file does not have."""
    without_delayed_ack: set[str] = field(default_factory=set)
    """Hosts at detail `stats` at any time: their delayed ACKs are left out as not measured."""
    lost_records: int = 0
    slow_polled: int = 0
    """Connections left out as their readings were further apart than a bin is long."""
    slow_polled_of: list[tuple[str, str, int]] = field(default_factory=list)
    """The same by host and application, the most first; the application is empty where no rule names it."""
    one_clock: bool = False
    """No host's clock is synchronised, and all hosts are of one machine."""
    clocks_differ: bool = False
    """No host's clock is synchronised, and the hosts are of several machines: nothing is compared in time."""
    simulated: int = 0
    """Hosts with rows from `simulate`."""
    undescribed: dict[str, int] = field(default_factory=dict)
    """By host: connections with a problem that are left out, because the file that describes them is left out."""
    connections: int = 0
    """Connections that agents have seen in the window, also those that closed soon."""
    with_problem: int = 0
    """Connections with a problem."""
    counted: int = 0
    """Of those, the ones with a vector that is not constant."""


@dataclass(slots=True)
class PreparedWindow:
    """Holds an engine with the tables `hosts`, `cells`, `quiet`, `spread`, `weights` and `conns`."""

    engine: Engine
    grid: Grid
    coverage: Coverage
    topology: topology.Topology
    host_names: list[str]
    tor_names: list[str]


def grid_of(window: Window, bin_s: int) -> Grid:
    """Bins of `bin_s` seconds. Raises `UsageError` when that is no multiple of two."""
    if bin_s < 2 or bin_s % 2 or window.seconds % bin_s:
        raise UsageError(f"--bin {bin_s}: bins are multiples of two seconds that divide the window", "--bin 2")
    return Grid(bin_s * 1_000_000, window.seconds // bin_s)


def prepare(
    engine: Engine,
    dataset: Dataset,
    window: Window,
    bin_s: int = 2,
    trust_clocks: bool = False,
    place: Path | None = None,
) -> PreparedWindow:
    """Selects, opens, and makes the tables."""
    return ask(lambda prepared: prepared, engine, dataset, window, bin_s, trust_clocks, place)


def ask(
    question: Callable[[PreparedWindow], Answer],
    engine: Engine,
    dataset: Dataset,
    window: Window,
    bin_s: int = 2,
    trust_clocks: bool = False,
    place: Path | None = None,
    tables: Sequence[str] = CORRELATED,
    totals: bool = False,
) -> Answer:
    """Prepares, and asks `question`. It begins again when a file has vanished in between, as agents merge hours, and
    without a file that turns out to hold rows that cannot be read. So `question` may read `tables` too, and may run
    several times.

    `totals` also opens `fleet_totals`: `fleet_connections` with the hour after the window. Agents write the totals of
    connections so far at the start of an hour.
    """
    broken: dict[str, str] = {}
    for _ in range(ATTEMPTS):
        selection = _open(engine, dataset, tables, window, broken, totals)
        try:
            return question(_prepare(engine, dataset.root, window, selection, bin_s, trust_clocks, place))
        except FleetError:
            raise
        except Exception:
            # an engine's error: is it a file's fault?
            paths = [path for files in selection.files.values() for path in files]
            if all(Path(path).exists() for path in paths):
                found = {path: reason for path, reason in unreadable(paths).items() if reason}
                if not found:
                    raise
                broken |= found
    raise FleetError(f"{dataset.root}: files vanish while they are read", "try again when hours are merged")


def _open(
    engine: Engine, dataset: Dataset, tables: Sequence[str], window: Window, broken: dict[str, str], totals: bool
) -> Selection:
    """Opens the window's files, without `broken`. Picks the list again when one has vanished in between."""
    for _ in range(ATTEMPTS):
        selection = dataset.select(tables, window)
        if totals:
            after = dataset.select(["fleet_connections"], Window(window.end_ns, window.end_ns + HOUR_NS))
            selection.files[TOTALS] = selection.files["fleet_connections"] + after.files["fleet_connections"]
            selection.left_out += after.left_out
        selection.left_out += [LeftOut(path, reason) for path, reason in broken.items()]
        for table, files in selection.files.items():
            selection.files[table] = [path for path in files if path not in broken]
        try:
            for table, files in selection.files.items():
                engine.open(table, files, TABLES["fleet_connections" if table == TOTALS else table])
            return selection
        except Exception:
            if all(Path(path).exists() for files in selection.files.values() for path in files):
                raise
    raise FleetError(f"{dataset.root}: files vanish faster than they can be listed", "try again when hours are merged")


def _prepare(
    engine: Engine,
    root: Path,
    window: Window,
    selection: Selection,
    bin_s: int,
    trust_clocks: bool,
    place: Path | None,
) -> PreparedWindow:
    grid_of(window, bin_s)
    lacking = hosts_without("fleet_connections", selection.left_out, window)
    window = _watched(engine, window, bin_s)
    grid = grid_of(window, bin_s)
    coverage = Coverage(window, left_out_files=selection.left_out, superseded_files=selection.superseded)
    where = place or root / "topology.json"
    known = topology.read(where) if place or where.exists() else topology.Topology()
    slow, hosts = _hosts(engine, grid, coverage, known, trust_clocks)
    tors = sorted({host.tor for host in known.hosts.values()})
    number = {tor: index for index, tor in enumerate(tors)}
    rows = [
        (
            name,
            no,
            number[known.hosts[name].tor] if name in known.hosts else -1,
            int(name not in coverage.without_delayed_ack),
        )
        for no, name in enumerate(hosts)
    ]
    engine.put("hosts", HOSTS, rows)
    _cells(engine, grid, window, slow, coverage)
    _without_undescribed(engine, window, hosts, lacking, coverage)
    weigh(engine, grid)
    coverage.with_problem = int(engine.rows("SELECT COUNT(*) FROM spread AS s")[0][0])
    coverage.counted = int(engine.rows("SELECT COUNT(*) FROM weights AS w")[0][0])
    span = {"begin_ns": window.begin_ns, "end_ns": window.end_ns}
    coverage.connections = int(engine.rows(text("connections_seen", **span))[0][0])
    engine.create("conns", text("conns", end_ns=window.end_ns))
    return PreparedWindow(engine, grid, coverage, known, hosts, tors)


def _watched(engine: Engine, window: Window, bin_s: int) -> Window:
    """The part of a window in which any host was watched, in whole bins. Of the rest nothing is known: taken for bins
    without a problem, it would make all connections alike."""
    engine.create("coverage", text("coverage", begin_ns=window.begin_ns, end_ns=window.end_ns))
    rows = engine.rows(text("watched_span"))
    if not rows:
        return window
    bin_ns = bin_s * SECOND_NS
    before = (int(rows[0][0]) - window.begin_ns) // bin_ns
    until = -(-(int(rows[0][1]) - window.begin_ns) // bin_ns)
    return Window(window.begin_ns + before * bin_ns, min(window.end_ns, window.begin_ns + until * bin_ns))


def _hosts(
    engine: Engine, grid: Grid, coverage: Coverage, known: topology.Topology, trust_clocks: bool
) -> tuple[list[str], list[str]]:
    """Hosts with readings further apart than a bin, and hosts that count."""
    window = coverage.window
    rows = engine.rows(text("watched", begin_ns=window.begin_ns, end_ns=window.end_ns))
    slow: list[str] = []
    chosen: list[str] = []
    wrong = {} if trust_clocks else _wrong_clocks(rows, grid)
    if len(wrong) == len(rows) and rows:
        boots = {row[-2:] for row in rows}
        # namespaces of one machine have one boot; one host needs no other's clock
        coverage.one_clock = len(rows) == 1 or (len(boots) == 1 and len(set(next(iter(boots)))) == 1)
        coverage.clocks_differ = not coverage.one_clock
        wrong = {}
    coverage.left_out_hosts = wrong
    for host, watched_us, gap_us, _, _, stats, lost, _, _, simulated, *_ in sorted(rows):
        coverage.simulated += bool(simulated)
        if host in wrong:
            continue
        chosen.append(host)
        if gap_us > grid.bin_us:
            slow.append(host)
        share = watched_us / 1e6 / window.seconds
        # an interval may begin in one hour and end in the next
        if share < 1 - 60 / window.seconds:
            coverage.partly_watched[host] = share
        if stats:
            # what was measured in a part of the window is no vector of all of it
            coverage.without_delayed_ack.add(host)
        coverage.lost_records += lost
    coverage.hosts = len(chosen)
    seen = {row[0] for row in rows}
    coverage.absent = sorted(set(known.hosts) - seen)
    coverage.unplaced = sorted(set(chosen) - set(known.hosts)) if known.hosts else []
    if not chosen:
        raise UnwatchedError("no host was watched in this window", "give another --from")
    return slow, chosen


def _wrong_clocks(rows: Sequence[Row], grid: Grid) -> dict[str, str]:
    """Returns the hosts with clocks that may be half a bin wrong, with the reason."""
    wrong = {}
    for host, _, _, error_us, unsynchronised, *_ in sorted(rows):
        if unsynchronised:
            wrong[host] = "its clock is not synchronised"
        elif 2 * error_us >= grid.bin_us:
            wrong[host] = f"its clock may be {error_us / 1e6:.3g} s wrong, in bins of {grid.bin_us / 1e6:g} s"
    return wrong


def _cells(engine: Engine, grid: Grid, window: Window, slow: list[str], coverage: Coverage) -> None:
    merge = grid.bin_us * 1000 // BIN_NS
    fine = "cells" if merge == 1 else "cells_fine"
    span = {"begin_ns": window.begin_ns, "end_ns": window.end_ns}
    start(engine)
    engine.create("bins", text("bins", bin_ns=BIN_NS, **span))
    engine.create(fine, text("cells", bins=grid.bins * merge))
    engine.create("quiet", text("quiet", merge=merge))
    engine.drop("bins")
    if merge > 1:
        engine.create("cells", text("cells_coarse", merge=merge))
        engine.drop("cells_fine")
    if slow:
        engine.put("slow_hosts", {"host": "VARCHAR"}, [(host,) for host in slow])
        engine.create("slow_polled", text("slow_polled", bin_us=grid.bin_us, **span))
        coverage.slow_polled = int(engine.rows("SELECT COUNT(*) FROM slow_polled AS s")[0][0])
        found = engine.rows(text("slow_polled_of", end_ns=window.end_ns))
        coverage.slow_polled_of = sorted(
            ((str(host), str(app), int(count)) for host, app, count in found), key=lambda one: (-one[2], one)
        )
        _leave_out(engine, "slow_polled")


def _without_undescribed(
    engine: Engine, window: Window, hosts: list[str], lacking: set[str], coverage: Coverage
) -> None:
    """Leaves out the problems of connections that only left-out files describe. Their application, rack and peers are
    unknown, so that their host alone would be blamed."""
    numbers = [(no,) for no, name in enumerate(hosts) if written_as(name) in lacking]
    if not numbers:
        return
    engine.put("lacking_hosts", {"host_no": "BIGINT"}, numbers)
    engine.create("undescribed", text("undescribed", end_ns=window.end_ns))
    counts = engine.rows("SELECT u.host_no, COUNT(*) FROM undescribed AS u GROUP BY u.host_no")
    coverage.undescribed = {hosts[no]: int(count) for no, count in sorted(counts)}
    if counts:
        _leave_out(engine, "undescribed")


def _leave_out(engine: Engine, table: str) -> None:
    """Takes the connections of a table out of `cells`."""
    engine.create("cells_left_in", f"SELECT c.* FROM cells AS c WHERE c.conn NOT IN (SELECT s.conn FROM {table} AS s)")
    engine.create("cells", "SELECT c.* FROM cells_left_in AS c")
    engine.drop("cells_left_in")
