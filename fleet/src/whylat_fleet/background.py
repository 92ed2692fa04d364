"""Background problems of a live fleet, as parameters for `simulate --background`.

In: a prepared window. Out: how many connections have each problem for which share of their time, how long it lasts and
how much of a bin it fills. Connections of culprits are left out: what is to be simulated is what comes without one.
"""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from whylat_fleet.blame import blame
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.questions import text
from whylat_fleet.resources import build
from whylat_fleet.schema import PROBLEMS

SHARES = (0.0, 0.25, 0.5, 0.75, 0.999)
"""Those of SNAP's Table 4."""
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def background(prepared: PreparedWindow) -> dict[str, Any]:
    """Returns the parameters. A problem that did not occur in the window has none."""
    engine, window, bins = prepared.engine, prepared.coverage.window, prepared.grid.bins
    verdict = blame(prepared, build(prepared))
    engine.create("lives", text("lives_within", begin_ns=window.begin_ns, end_ns=window.end_ns))
    engine.put("shares", {"share": "DOUBLE"}, [(share,) for share in SHARES])
    total = int(engine.rows("SELECT COUNT(*) FROM lives AS l")[0][0])
    with_problem = {(int(row[0]), float(row[1])): int(row[2]) for row in engine.rows(text("problem_shares", bins=bins))}
    runs = {int(row[0]): float(row[2]) / float(row[1]) for row in engine.rows(text("episodes", bins=bins))}
    amounts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for problem, ms, cells in engine.rows(text("amounts", bins=bins)):
        amounts[int(problem)].append((int(ms), int(cells)))
    return {
        "source": _source(prepared, total, len(verdict.culprits)),
        "connections_per_host": _sizes(prepared),
        "shares": list(SHARES),
        "problems": {
            problem: {
                "connections": [round(with_problem.get((number, share), 0) / max(total, 1), 7) for share in SHARES],
                "run_bins": round(max(runs.get(number, 1.0), 1.0), 3),
                "in_bin_us": _quantiles(amounts.get(number, [])),
            }
            for number, problem in enumerate(PROBLEMS)
        },
    }


def _source(prepared: PreparedWindow, total: int, culprits: int) -> str:
    coverage = prepared.coverage
    begin = datetime.fromtimestamp(coverage.window.begin_ns // 10**9, UTC)
    return (
        f"{total} connections of {coverage.hosts} hosts, {begin:%Y-%m-%d %H:%M} UTC, "
        f"{coverage.window.seconds // 3600} h, without those of {culprits} culprits"
    )


def _sizes(prepared: PreparedWindow) -> dict[str, int]:
    """Connections of a host at the end of an interval, at most: in the median and the greatest."""
    window = prepared.coverage.window
    counts = sorted(
        int(row[7]) for row in prepared.engine.rows(text("watched", begin_ns=window.begin_ns, end_ns=window.end_ns))
    )
    return {"median": max(counts[len(counts) // 2], 1), "largest": max(counts[-1], 1)}


def _quantiles(counted: list[tuple[int, int]]) -> list[int]:
    """Quantiles of milliseconds with their numbers, us. Of nothing, one millisecond: it is not drawn from."""
    if not counted:
        return [1000] * len(QUANTILES)
    counted.sort()
    total = sum(cells for _, cells in counted)
    values, switches_and_links, index = [], counted[0][1], 0
    for quantile in QUANTILES:
        while switches_and_links < quantile * total:
            index += 1
            switches_and_links += counted[index][1]
        values.append(max(counted[index][0], 1) * 1000)
    return values
