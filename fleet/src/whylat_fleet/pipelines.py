"""Finds pipelines: a process waits for a delayed ACK on one connection before it gives another something to send.

SNAP (section 6.2) found a proxy by two connections of one host. Their problems kept coming together: delayed ACKs on
the one, nothing to send on the other. In: `cells`, `quiet`, `fleet_connections`. Out: processes, with the pairs of
connections.

For each bin in which delayed ACKs to a connection begin, the idle time of each other connection of the same
process then, or in the next bin, is compared with that in the bin before. If the two had nothing to do with each other,
both would be as long in the mean: a paired t-test, one-sided, over all beginnings. Only bins in which the held
connection has no problem of its own count, as that would explain why it sends nothing. Differences within four to six
seconds do not mistake two connections that are both idle at night for a pipeline, as a coefficient over the whole
window would.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

from whylat_fleet.engine import Engine
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.questions import text
from whylat_fleet.schema import PROBLEMS

LEAST_ONSETS = 10
"""Beginnings below which no pair is judged: as the least set of connections."""
FALSE_PIPELINES = 0.05
"""Pairs by chance that are put up with in a whole fleet (Bonferroni)."""
LAGS = (0, 1)
"""Bins: the wait for a delayed ACK (40 to 200 ms) ends in its own bin or the next."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Holds two connections: delayed ACKs on `conn` hold up `held`."""

    conn: int
    held: int
    conn_name: str
    held_name: str
    lag_s: float
    onsets: int
    """Beginnings of delayed ACKs while `held` could be watched."""
    idle_s: float
    """By how much longer `held` then had nothing to send, in the mean."""
    probability: float
    """Pairs of this strength that are expected by chance in the whole fleet."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A process, and the pairs of its connections, the surest first."""

    host: str
    process: str
    pid: int
    pairs: list[Pair]


_Found = dict[tuple[int, int], tuple[float, int, int, int, int, float]]
"""Of a pair: chance, lag, host, process id, onsets and mean idle time, s."""


def pipelines(prepared: PreparedWindow) -> list[Pipeline]:
    """All pipelines of the window, the surest first."""
    engine, window = prepared.engine, prepared.coverage.window
    bins = prepared.grid.bins
    if not int(engine.rows("SELECT COUNT(*) FROM quiet AS q")[0][0]):
        return []
    engine.create("owners", text("owners", end_ns=window.end_ns))
    engine.create("quiet_owned", text("quiet_owned"))
    engine.create("onsets", text("onsets", bins=bins, first=PROBLEMS.index("delayed_ack") * bins))
    engine.put("lags", {"lag": "INTEGER"}, [(lag,) for lag in LAGS])
    rows = engine.rows(text("pipelines", least=LEAST_ONSETS))
    for table in ("owners", "quiet_owned", "onsets"):
        engine.drop(table)
    found: _Found = {}
    for conn, held, lag, host_no, pid, count, more_us, squares in rows:
        probability = _chance(count, more_us, squares) * len(rows)
        known = found.get((conn, held))
        if probability <= FALSE_PIPELINES and (known is None or probability < known[0]):
            found[conn, held] = (probability, lag, host_no, pid, count, more_us / 1e6 / count)
    return _by_process(prepared, found)


def _by_process(prepared: PreparedWindow, found: _Found) -> list[Pipeline]:
    wanted = {conn for pair in found for conn in pair}
    process, names = _described(prepared.engine, wanted, prepared.coverage.window.end_ns)
    pairs: dict[tuple[int, int], list[Pair]] = defaultdict(list)
    for (conn, held), (probability, lag, host_no, pid, count, idle_s) in sorted(
        found.items(), key=lambda item: item[1]
    ):
        lag_s = lag * prepared.grid.bin_us / 1e6
        pair = Pair(conn, held, names.get(conn, ""), names.get(held, ""), lag_s, count, idle_s, probability)
        pairs[host_no, pid].append(pair)
    return [
        Pipeline(prepared.host_names[host_no], process.get(together[0].conn, ""), pid, together)
        for (host_no, pid), together in pairs.items()
    ]


def _described(engine: Engine, wanted: set[int], end_ns: int) -> tuple[dict[int, str], dict[int, str]]:
    """Processes and names (local port and peer) of connections."""
    engine.put("wanted", {"conn": "BIGINT"}, [(conn,) for conn in sorted(wanted)])
    rows = engine.rows(text("described", end_ns=end_ns))
    return {row[0]: row[1] for row in rows}, {row[0]: f":{row[2]} to {row[3]}:{row[4]}" for row in rows}


def _chance(count: int, total: int, squares: int) -> float:
    """Chance of such a mean or a greater one, of `count` differences that lie about 0 symmetrically."""
    mean = total / count
    variance = (squares - count * mean * mean) / (count - 1)
    if mean <= 0:
        return 1.0
    # all the same: as sure as the test can be
    return student_tail(mean / math.sqrt(variance / count), count - 1) if variance > 0 else LEAST_TAIL


LEAST_TAIL = 1e-15
"""Below this the tail of a distribution is lost in the rounding of 1 minus it."""


def student_tail(t: float, freedom: int) -> float:
    """P(T > t) of Student's distribution with whole degrees of freedom, t >= 0 (Abramowitz and Stegun 26.7.3 and 4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term = total = 1.0 if freedom % 2 == 0 else cosine
    for number in range(freedom % 2 + 2, freedom, 2):
        term *= (number - 1) / number * cosine * cosine
        total += term
    if freedom % 2 == 0:
        inside = math.sin(angle) * total
    else:
        inside = 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))
    return max((1.0 - inside) / 2, LEAST_TAIL)
