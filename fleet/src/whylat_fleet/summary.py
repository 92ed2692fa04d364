"""How a fleet fares: SNAP's Table 4, figures 2, 4, 5 and 9 and section 5.3, of one window.

In: a prepared window with `fleet_totals`. Out: counts and shares, each with what it is of. What was not measured is
None.
"""

from dataclasses import dataclass, field
from typing import Final

from whylat_fleet.algebra import scores
from whylat_fleet.blame import LEAST_MEMBERS
from whylat_fleet.dataset import SECOND_NS
from whylat_fleet.engine import Engine
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.questions import text

LIMITS: Final = {
    "sender_app": "no_flag_us",
    "send_buffer": "send_buffer_us",
    "congestion": "congestion_us",
    "receiver_window": "receiver_window_us",
    "delayed_ack": "delayed_ack_us",
}
"""Lines of Table 4 and the columns of `fleet_connections` that they are of."""
SHARES: Final = (0.0, 0.25, 0.5, 0.75, 0.999)
"""Shares of life in Table 4, of connections."""
SIZE_EDGES: Final = (1, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""Classes of connections a host, from each number up to the next."""
RATE_EDGES: Final = (1, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
"""Classes of rates, bytes/s; SNAP calls those below 10**6 low (section 5.2)."""
STEPS: Final = 60
"""Points over time, at most."""
BEFORE_MERGE_NS: Final = 120 * SECOND_NS
"""Agents write the totals of an hour in the first interval of the next; a file is of a minute."""
HISTOGRAM: Final = 0.05
"""Width of the classes of coefficients in figure 2."""


@dataclass(frozen=True, slots=True)
class LimitedShare:
    """A line of Table 4."""

    problem: str
    measured: int
    """Connections for which it was measured."""
    connections: tuple[int, ...]
    """Connections with it for more than each of `SHARES` of their life."""
    sensitive_connections: tuple[int, ...]
    """Of these, those of applications that are sensitive to delay."""
    applications: tuple[int, int]
    """Applications with it for more than 5 % and 50 % of the time of all their connections together."""
    sensitive_applications: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SendBuffers:
    """Hosts with `least` connections or more, and less than the next class's."""

    least: int
    hosts: int
    connections: int
    limited: int
    """Connections that were ever limited by their send buffer."""
    share: float
    """Of the time of all their connections."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Losses in a step of time. None: no host was watched, or timeouts cannot be read there."""

    begin_ns: int
    hosts: int
    fast_per_s: float | None
    timeouts_per_s: float | None
    retransmitted: float | None
    """Share of the segments sent."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Intervals of connections that got `least` bytes/s through or more, and less than the next class's."""

    least: int
    intervals: int
    with_loss: int
    more_timeouts: int
    """Of those with loss, those with more timeouts than fast retransmissions."""
    fast: int
    timeouts: int


@dataclass(frozen=True, slots=True)
class Agents:
    """Holds costs and gaps of the agents."""

    hosts: int
    cpu_median: float
    """Share of one core, median of the hosts."""
    cpu_most: float
    cpu_most_host: str
    bpf_median: float | None
    rss_most_bytes: int
    polls: int
    rows: int
    lost: int
    dropped_files: int
    dropping_hosts: int


@dataclass(slots=True)
class Summary:
    """All of it."""

    connections: int = 0
    """Connections with totals."""
    without_totals: int = 0
    """Connections that were first seen so late that their agent has not yet written totals."""
    applications: int = 0
    limited: list[LimitedShare] = field(default_factory=list)
    send_buffers: list[SendBuffers] = field(default_factory=list)
    step_s: int = 0
    losses: list[Loss] = field(default_factory=list)
    rates: list[Rate] = field(default_factory=list)
    coefficients: list[float] = field(default_factory=list)
    """SNAP's average correlation coefficient of each host with enough connections that count, ascending."""
    host_sizes: list[tuple[int, int]] = field(default_factory=list)
    """Connections of a host at the end of the window, and how many hosts have so many; ascending."""
    writes: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By the class of the median write: connections, and writes."""
    versions: list[tuple[str, str, str, int]] = field(default_factory=list)
    """Agent, kernel, detail, hosts."""
    agents: Agents | None = None


def summarise(prepared: PreparedWindow) -> Summary:
    """Asks all questions."""
    engine, window = prepared.engine, prepared.coverage.window
    span = {"begin_ns": window.begin_ns, "end_ns": window.end_ns}
    engine.create("latest", text("latest", until_ns=window.end_ns + BEFORE_MERGE_NS, **span))
    engine.create("lives", text("lives", end_ns=window.end_ns))
    engine.create("host_sizes", text("host_sizes"))
    found = Summary()
    total, watched = engine.rows("SELECT COUNT(*), SUM(CASE WHEN l.watched_us > 0 THEN 1 ELSE 0 END) FROM lives AS l")[
        0
    ]
    found.connections, found.without_totals = int(watched or 0), int(total - (watched or 0))
    for problem, column in LIMITS.items():
        line, found.applications = _limited(engine, problem, column)
        found.limited.append(line)
    found.send_buffers = _send_buffers(engine)
    found.step_s = _step_s(engine, window.seconds)
    found.losses = _losses(prepared, found.step_s)
    found.rates = _rates(engine, span)
    engine.create("members_hosts", text("members_host", first=0))
    found.coefficients = sorted(
        score.acc for score in scores(engine, prepared.grid, "members_hosts") if score.members >= LEAST_MEMBERS
    )
    sizes = engine.rows("SELECT s.connections, COUNT(*) FROM host_sizes AS s GROUP BY s.connections")
    found.host_sizes = sorted((int(size), int(hosts)) for size, hosts in sizes)
    found.writes = {int(row[0]): (int(row[1]), int(row[2])) for row in engine.rows(text("writes", **span))}
    found.versions = sorted(engine.rows(text("versions", **span)), key=lambda row: (-row[3], row[:3]))
    found.agents = _agents(engine, span)
    return found


def _step_s(engine: Engine, seconds: int) -> int:
    """Returns the length of steps: no shorter than an interval, so that each has all that happened in it."""
    longest_us = int(engine.rows("SELECT MAX(c.length_us) FROM coverage AS c")[0][0])
    return max(-(-seconds // STEPS), round(longest_us / 1e6), 1)


def _classes(value: str, edges: tuple[int, ...]) -> str:
    """SQL for the number of the last edge that is not above `value`; 0 below the first."""
    cases = " ".join(f"WHEN {value} >= {edge} THEN {number}" for number, edge in reversed(list(enumerate(edges, 1))))
    return f"CASE {cases} ELSE 0 END"


def _limited(engine: Engine, problem: str, column: str) -> tuple[LimitedShare, int]:
    width = len(SHARES)
    measured, *counts = (int(value or 0) for value in engine.rows(text("limited", column=column))[0])
    number, *apps = (int(value or 0) for value in engine.rows(text("limited_applications", column=column))[0])
    line = LimitedShare(
        problem, measured, tuple(counts[:width]), tuple(counts[width:]), (apps[0], apps[1]), (apps[2], apps[3])
    )
    return line, number


def _send_buffers(engine: Engine) -> list[SendBuffers]:
    edges = (0, *SIZE_EDGES)
    return [
        SendBuffers(edges[int(row[0])], int(row[1]), int(row[2]), int(row[3]), row[4] / row[5])
        for row in sorted(engine.rows(text("send_buffers", size_class=_classes("s.connections", SIZE_EDGES))))
    ]


def _losses(prepared: PreparedWindow, step_s: int) -> list[Loss]:
    engine, window = prepared.engine, prepared.coverage.window
    values = {"begin_ns": window.begin_ns, "end_ns": window.end_ns, "step_ns": step_s * SECOND_NS}
    lost = {int(row[0]): row[1:] for row in engine.rows(text("losses", **values))}
    watched = {int(row[0]): int(row[1]) for row in engine.rows(text("watched_steps", **values))}
    answer = []
    for step in range(-(-window.seconds // step_s)):
        hosts = watched.get(step, 0)
        segs, retrans, fast, timeouts = lost.get(step, (0, 0, 0, 0)) if hosts else (None, None, None, None)
        # the last step may be shorter
        length_s = min(step_s, window.seconds - step * step_s)
        answer.append(
            Loss(
                window.begin_ns + step * step_s * SECOND_NS,
                hosts,
                None if fast is None else fast / length_s,
                None if timeouts is None else timeouts / length_s,
                retrans / segs if segs else None,
            )
        )
    return answer


def _rates(engine: Engine, span: dict[str, int]) -> list[Rate]:
    edges = (0, *RATE_EDGES)
    rate = "CAST(i.acked_bytes AS DOUBLE) * 1e6 / i.length_us"
    rows = engine.rows(text("rates", rate_class=_classes(rate, RATE_EDGES), **span))
    return [Rate(edges[int(row[0])], *(int(value) for value in row[1:])) for row in sorted(rows)]


def _agents(engine: Engine, span: dict[str, int]) -> Agents | None:
    rows = [row for row in sorted(engine.rows(text("agents", **span))) if row[1] > 0]
    if not rows:
        return None
    shares = [(cpu / watched, host) for host, watched, cpu, *_ in rows]
    bpf = [row[3] / row[1] for row in rows if row[3] is not None]
    most, host = max(shares)
    return Agents(
        hosts=len(rows),
        cpu_median=median([share for share, _ in shares]),
        cpu_most=most,
        cpu_most_host=host,
        bpf_median=median(bpf) if bpf else None,
        rss_most_bytes=max(int(row[4]) for row in rows),
        polls=sum(int(row[5]) for row in rows),
        rows=sum(int(row[7]) for row in rows),
        lost=sum(int(row[6]) for row in rows),
        dropped_files=sum(int(row[8]) for row in rows),
        dropping_hosts=sum(row[8] > 0 for row in rows),
    )


def median(values: list[float]) -> float:
    """The lesser of the two in the middle where there are two."""
    return sorted(values)[(len(values) - 1) // 2]


def quantiles(sizes: list[tuple[int, int]], shares: tuple[float, ...]) -> list[int]:
    """Of values and how often each is there, ascending: the least value that each share of all does not exceed."""
    total = sum(count for _, count in sizes)
    answer = []
    for share in shares:
        seen = 0
        for value, count in sizes:
            seen += count
            if seen >= share * total:
                answer.append(value)
                break
    return answer
