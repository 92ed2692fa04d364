"""One culprit in detail: its connections, when they suffered, and what their sockets did around a problem.

In: a prepared window with `fleet_details`, and the members' tables of all kinds. Out: the connections that count, those
that go with the others most first, and the readings of the worst bin of some with the bins before and after, as agents
store them.
"""

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from whylat_fleet.algebra import Score, coefficients, problem_scores, scores
from whylat_fleet.blame import label
from whylat_fleet.errors import FleetError, UsageError
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.questions import text
from whylat_fleet.resources import KIND_SIZE, KINDS, Resources
from whylat_fleet.schema import PROBLEMS

MEMBERS = "members_drilled"


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection as the agents reported it; None: not known. Of one that no file describes, only its host is."""

    conn: int
    host: str
    local_address: str | None = None
    local_port: int | None = None
    peer_address: str | None = None
    peer_port: int | None = None
    app: str | None = None
    process: str | None = None
    pid: int | None = None
    congestion: str | None = None
    sndbuf_bytes: int | None = None
    rcvbuf_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A connection of a culprit."""

    connection: Connection
    coefficient: float | None
    """Mean of its correlation coefficients with the others; None where there is no other."""
    problem_us: tuple[int | None, ...]
    """Time with each problem in the window; None where its host did not measure it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a socket: a row of `fleet_details`. None is not measured."""

    time_ns: int
    length_us: int
    stage: str | None
    writes: int | None
    written_bytes: int | None
    send_queue_bytes: int
    unacked_segs: int
    cwnd_segs: int
    snd_wnd_bytes: int | None
    srtt_us: int | None
    retrans: int
    timeouts: int | None


@dataclass(slots=True)
class Moment:
    """A bin in which a connection suffered, and the readings around it."""

    conn: int
    begin_ns: int
    problem_us: tuple[int | None, ...]
    readings: list[Reading] = field(default_factory=list)
    """Empty: none are stored."""


@dataclass(slots=True)
class Drill:
    """Holds the detail of one culprit."""

    kind: str
    name: str
    score: Score | None = None
    """None where fewer than two connections count."""
    alone: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Each problem alone: connections that have it, and their coefficient."""
    total: int = 0
    """Connections that count."""
    members: list[Member] = field(default_factory=list)
    """The first of them."""
    struck: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By bin: how many of its connections had each problem."""
    moments: list[Moment] = field(default_factory=list)
    shared: list[tuple[str, str]] = field(default_factory=list)
    """Of a single connection: the resources that it has a part in."""


def parse(words: list[str]) -> tuple[str, str]:
    """Returns kind and name of a culprit from its name in a report: `host h00254`, `host h00135 (as the peer)`."""
    kind, _, name = " ".join(words).partition(" ")
    if kind == "host" and name.endswith(" (as the peer)"):
        kind, name = "peer", name.removesuffix(" (as the peer)")
    if kind not in (*KINDS, "conn") or not name:
        kinds = ", ".join((*KINDS, "conn"))
        raise UsageError(
            f"{' '.join(words)!r} is no culprit: a culprit begins with {kinds}", "drill DATASET host h00254"
        )
    return kind, name


def quote_culprit(kind: str, name: str) -> str:
    """Returns a culprit as a shell's word: `parse` reads it back."""
    kind, _, name = label(kind, name).partition(" ")
    # a leading dash would make it an option
    return shlex.quote(f"{kind} {name}") if name.startswith("-") and kind != "conn" else f"{kind} {shlex.quote(name)}"


def drill(prepared: PreparedWindow, resources: Resources, kind: str, name: str, shown: int, moments: int) -> Drill:
    """Examines a resource, or one connection: `shown` connections, and one moment of each of the first `moments` (of a
    single connection, as many moments). Raises `FleetError` when this window does not have it."""
    if kind == "conn":
        return _connection(prepared, resources, name, moments)
    if name not in resources.names.get(kind, []):
        if kind == "application" and name in _applications(prepared):
            return Drill(kind, name)
        raise _unknown(prepared, resources, kind, name)
    number = KINDS.index(kind) * KIND_SIZE + resources.names[kind].index(name)
    return examine(prepared, resources, [number], shown, moments)[0]


def examine(
    prepared: PreparedWindow, resources: Resources, numbers: list[int], shown: int, moments: int
) -> list[Drill]:
    """Examines several resources at once, for the cost of one. Without `moments`, only their connections."""
    engine, grid = prepared.engine, prepared.grid
    found = {number: Drill(*resources.name(number)) for number in numbers}
    _members(prepared, numbers)
    for number, count in engine.rows(f"SELECT m.resource, COUNT(*) FROM {MEMBERS} AS m GROUP BY m.resource"):
        found[number].total = int(count)
    for score in scores(engine, grid, MEMBERS):
        found[score.resource].score = score
    if moments:
        for number, bin_, *counts in engine.rows(text("struck", bins=grid.bins, members=MEMBERS)):
            found[number].struck[int(bin_)] = tuple(int(count) for count in counts)
        for number, alone in problem_scores(engine, grid, MEMBERS).items():
            found[number].alone = alone
    coefficients(engine, grid, MEMBERS)
    _choose(prepared, found, shown, moments)
    return [found[number] for number in numbers]


def _members(prepared: PreparedWindow, numbers: list[int]) -> None:
    parts = [
        f"SELECT m.conn AS conn, m.w AS w, m.resource AS resource FROM members_{KINDS[number // KIND_SIZE]} AS m "
        f"WHERE m.resource = {number}"
        for number in dict.fromkeys(numbers)
    ]
    prepared.engine.create(MEMBERS, " UNION ALL ".join(parts))


def _choose(prepared: PreparedWindow, found: dict[int, Drill], shown: int, moments: int) -> None:
    """Chooses the connections of each set with the highest coefficients, the ones with the longest problems first."""
    chosen: dict[int, list[Any]] = {number: [] for number in found}
    for row in prepared.engine.rows(text("member_problems", bins=prepared.grid.bins, members=MEMBERS)):
        chosen[row[0]].append(row[1:])
    for number, rows in chosen.items():
        rows.sort(key=lambda row: (-round(row[2], 9), -sum(row[3:]), row[0]))
        chosen[number] = rows[: max(shown, moments)]
    known = _known(prepared, {row[0]: row[1] for rows in chosen.values() for row in rows})
    examined = sorted({row[0] for rows in chosen.values() for row in rows[:moments]})
    by_conn = {moment.conn: moment for moment in _moments(prepared, known, examined, 1)}
    for number, rows in chosen.items():
        has_others = found[number].score is not None
        found[number].members = [
            Member(known[row[0]], row[2] if has_others else None, _measured(prepared, known[row[0]], row[3:]))
            for row in rows[:shown]
        ]
        found[number].moments = [by_conn[row[0]] for row in rows[:moments]]


def _applications(prepared: PreparedWindow) -> set[str]:
    """Returns all applications of the window, also those without a connection that counts."""
    sql = "SELECT DISTINCT f.app FROM fleet_connections AS f JOIN hosts AS h ON f.host = h.host WHERE f.time_ns < {}"
    return {str(app) for (app,) in prepared.engine.rows(sql.format(prepared.coverage.window.end_ns)) if app}


def _measured(prepared: PreparedWindow, connection: Connection, us: Sequence[Any]) -> tuple[int | None, ...]:
    """Returns the times with problems; None for a problem that the host did not measure."""
    blind = connection.host in prepared.coverage.without_delayed_ack
    return tuple(
        None if blind and problem == "delayed_ack" else int(value) for problem, value in zip(PROBLEMS, us, strict=True)
    )


def _unknown(prepared: PreparedWindow, resources: Resources, kind: str, name: str) -> FleetError:
    names = resources.names.get(kind, [])
    message = f"there is no {label(kind, name)} in this window"
    if kind == "link" and (end := _end(prepared, name)):
        unwatched = "" if end[1] in prepared.host_names else ", which was not watched"
        return FleetError(message, f"that link is judged as {quote_culprit(*end)}{unwatched}")
    cut = ""
    near = difflib.get_close_matches(name, names, 3)
    if kind == "link" and (begun := [link for link in names if link.startswith(f"{name}>")]):
        near, cut = begun[:3], "; quote_culprit, as a shell writes to a file after a bare >"
    if near:
        return FleetError(message, f"did you mean {' or '.join(quote_culprit(kind, one) for one in near)}{cut}?")
    if not names:
        needs = "agents take them from their mapping (docs/fleet/agent.md)"
        return FleetError(
            f"no {kind} is known in this window",
            needs if kind == "application" else "switches and links need a topology.json",
        )
    return FleetError(message, f"as {quote_culprit(kind, names[0])}; `correlate` names the culprits")


def _end(prepared: PreparedWindow, link: str) -> tuple[str, str] | None:
    """Returns the end of connections that a host's own link means; None where it is no host's."""
    source, _, target = link.partition(">")
    hosts = prepared.topology.hosts
    if target in hosts and hosts[target].tor == source:
        return "peer", target
    return ("host", source) if source in hosts and hosts[source].tor == target else None


def _known(prepared: PreparedWindow, host_of: dict[int, int]) -> dict[int, Connection]:
    """Describes connections by the numbers of their hosts and by what files say of them."""
    named = {conn: Connection(conn, prepared.host_names[host]) for conn, host in host_of.items()}
    return named | _described(prepared, sorted(host_of))


def _described(prepared: PreparedWindow, conns: list[int]) -> dict[int, Connection]:
    engine = prepared.engine
    engine.put("chosen", {"conn": "BIGINT"}, [(conn,) for conn in conns])
    rows = engine.rows(text("chosen_connections", end_ns=prepared.coverage.window.end_ns)) if conns else []
    return {row[0]: Connection(*row) for row in rows}


def _moments(prepared: PreparedWindow, known: dict[int, Connection], conns: list[int], each: int) -> list[Moment]:
    """The worst bins of some connections, `each` of every one, with their readings."""
    if not conns:
        return []
    engine = prepared.engine
    engine.put("chosen", {"conn": "BIGINT"}, [(conn,) for conn in conns])
    cells: dict[int, list[Any]] = {conn: [] for conn in conns}
    for row in engine.rows(text("chosen_cells", bins=prepared.grid.bins)):
        cells[row[0]].append(row)
    bin_ns = prepared.grid.bin_us * 1000
    found = []
    for conn in conns:
        for row in sorted(cells[conn], key=lambda row: (-sum(row[3:]), row[1]))[:each]:
            begin = prepared.coverage.window.begin_ns + int(row[1]) * bin_ns
            found.append(Moment(conn, begin, _measured(prepared, known[conn], row[3:])))
    columns = dict.fromkeys(("conn", "begin_ns", "from_ns", "until_ns"), "BIGINT")
    spans = [(one.conn, one.begin_ns, one.begin_ns - bin_ns, one.begin_ns + 2 * bin_ns) for one in found]
    engine.put("moments", columns, spans)
    by_moment = {(one.conn, one.begin_ns): one for one in found}
    for row in sorted(engine.rows(text("readings")), key=lambda row: row[:3]) if found else []:
        by_moment[row[0], row[1]].readings.append(Reading(*row[2:]))
    return found


def _connection(prepared: PreparedWindow, resources: Resources, name: str, moments: int) -> Drill:
    try:
        conn = int(name)
    except ValueError:
        raise UsageError(
            f"conn {name}: not a number", "drill DATASET conn ID, with an ID that a report names"
        ) from None
    engine = prepared.engine
    described = _described(prepared, [conn])
    cells = engine.rows(text("chosen_cells", bins=prepared.grid.bins))
    known = described or _known(prepared, {int(row[0]): int(row[2]) for row in cells})
    if conn not in known:
        raise FleetError(
            f"there is no connection {conn} in this window", "take the ID from a report, or another --from"
        )
    found = Drill("conn", name)
    us = [sum(int(row[place]) for row in cells) for place in range(3, 8)]
    found.members = [Member(known[conn], None, _measured(prepared, known[conn], us))]
    found.struck = {int(row[1]): tuple(int(value > 0) for value in row[3:]) for row in cells}
    found.moments = _moments(prepared, known, [conn], moments)
    for kind in KINDS:
        rows = engine.rows(f"SELECT m.resource FROM members_{kind} AS m WHERE m.conn = {conn}")
        found.shared += [resources.name(int(row[0])) for row in rows]
    # each that counts has a part in its host
    found.total = int(bool(found.shared))
    return found
