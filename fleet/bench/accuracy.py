"""Are planted culprits found, and is nobody else blamed? Many simulated data centres, one table.

    python fleet/bench/accuracy.py --hosts 400 --seeds 20

Makes the tables that `prepare` makes straight from the simulation, without files, which take most of the time and which
the tests have. A culprit counts as found where it, or a resource that holds the same connections, is named with its
problem; any other name is a false one.
"""

import argparse
import time
from collections import Counter

import duckdb
import numpy as np
import pyarrow

from whylat_fleet.algebra import start, weigh
from whylat_fleet.blame import Culprit, Evidence, Verdict, blame
from whylat_fleet.dataset import HOUR_NS, Window
from whylat_fleet.engine.duckdb import DuckDb
from whylat_fleet.prepare import HOSTS, Coverage, PreparedWindow, grid_of
from whylat_fleet.resources import build
from whylat_fleet.schema import PROBLEMS, are_alike
from whylat_fleet.simulate import layout, plants, problems, run, write
from whylat_fleet.simulate.layout import Center, address, host_name


def tables(engine: DuckDb, center: Center, cells: dict[str, np.ndarray]) -> PreparedWindow:
    """The tables that `prepare` makes from a dataset."""
    coverage = Coverage(Window(0, HOUR_NS), hosts=center.hosts)
    grid = grid_of(coverage.window, 2)
    known = center.topology()
    names = [host_name(number) for number in range(center.hosts)]
    tors = sorted({host.tor for host in known.hosts.values()})
    number = {tor: index for index, tor in enumerate(tors)}
    engine.put("hosts", HOSTS, [(name, no, number[known.hosts[name].tor], 1) for no, name in enumerate(names)])
    engine.put("quiet", {"conn": "BIGINT"}, [])
    start(engine)
    real = (cells["problem"] < 5) & (center.host[cells["socket"]] < center.hosts)
    fill(
        engine,
        "cells",
        {
            "conn": cells["socket"][real],
            "host_no": center.host[cells["socket"][real]].astype(np.int32),
            "cell": (cells["problem"][real] * grid.bins + cells["bin"][real]).astype(np.int32),
            "x": cells["us"][real].astype(np.int32),
        },
        "SELECT conn, host_no, cell, MAX(x) AS x FROM {} GROUP BY conn, host_no, cell",
    )
    weigh(engine, grid)
    coverage.counted = int(engine.rows("SELECT COUNT(*) FROM weights AS w")[0][0])
    addresses = np.array([address(no) for no in range(center.world)])
    apps = np.array([f"app-{no:03}" for no in range(center.apps)])
    seen = np.flatnonzero(center.host < center.hosts)
    fill(
        engine,
        "all_conns",
        {
            "conn": seen,
            "host_no": center.host[seen],
            "local_address": addresses[center.host[seen]],
            "peer_address": addresses[center.peer[seen]],
            "app": apps[center.app[seen]],
        },
        "SELECT * FROM {}",
    )
    coverage.connections = len(seen)
    engine.create("fleet_connections", _CONNECTIONS)
    engine.create("fleet_problems", _PROBLEMS.format(bins=grid.bins, columns=_by_problem(grid.bins)))
    engine.create("conns", "SELECT a.*, w.w AS w FROM all_conns AS a JOIN weights AS w ON a.conn = w.conn")
    return PreparedWindow(engine, grid, coverage, known, names, tors)


_CONNECTIONS = f"""SELECT h.host AS host, a.conn AS conn_id, a.app AS app, a.local_address AS local_address,
a.peer_address AS peer_address, 0 AS time_ns, 0 AS first_ns, {HOUR_NS} AS closed_ns
FROM all_conns AS a JOIN hosts AS h ON a.host_no = h.host_no"""
_PROBLEMS = """SELECT h.host AS host, c.conn AS conn_id, {columns},
CAST(c.cell % {bins} AS BIGINT) * 2000000000 AS begin_ns
FROM cells AS c JOIN hosts AS h ON c.host_no = h.host_no"""


def _by_problem(bins: int) -> str:
    return ", ".join(
        f"CASE WHEN c.cell // {bins} = {index} THEN c.x ELSE 0 END AS {problem}_us"
        for index, problem in enumerate(PROBLEMS)
    )


def fill(engine: DuckDb, table: str, columns: dict[str, np.ndarray], sql: str) -> None:
    """Makes a table of columns."""
    engine.connection.register("columns_in", pyarrow.table(columns))
    engine.create(table, sql.format("columns_in"))
    engine.connection.unregister("columns_in")


def trial(
    hosts: int, connections: int, seed: int, plant: list[str]
) -> tuple[list[plants.Truth], Verdict, PreparedWindow]:
    """One data centre: what was planted and what was blamed."""
    data = problems.parameters(None)
    center = layout.build(hosts, connections, data["connections_per_host"]["largest"] * connections // 150, seed)
    planted = run.plant(center, plant, 1800)
    background = problems.background(np.random.default_rng(seed + 1), center.sockets, 1800, data)
    engine = DuckDb()
    everyone = np.ones(center.sockets, dtype=bool)
    prepared = tables(engine, center, write.cells_of(everyone, background, planted))
    del background
    verdict = blame(prepared, build(prepared))
    return [plant.truth for plant in planted], verdict, prepared


def judge(truths: list[plants.Truth], verdict: Verdict) -> tuple[dict[str, bool], list[str]]:
    """Of each plant, whether it was found with its problem; and the false names."""
    wrong = {_place(culprit.first): culprit for culprit in verdict.culprits}
    found = {}
    for truth in truths:
        if truth.kind == "process":
            # its idle times are not here; the application of the process has its delayed ACKs
            process = truth.name.split()[1]
            wrong.pop(f"application {process.replace('proc', 'app')}", None)
            continue
        hits = [culprit for culprit in verdict.culprits if _is_named(truth, culprit)]
        found[truth.plant] = bool(hits)
        for culprit in hits:
            wrong.pop(_place(culprit.first), None)
    return found, list(wrong)


def _is_named(truth: plants.Truth, culprit: Culprit) -> bool:
    right = {f"{truth.kind} {truth.name}", *truth.same}
    evidence = (one for one in culprit.evidence if are_alike(one.problem, truth.problem))
    return any(right & {_place(one), *one.same} for one in evidence)


def _place(one: Evidence) -> str:
    return f"{'host' if one.kind == 'peer' else one.kind} {one.name}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=400)
    parser.add_argument("--conns", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--plant", action="append")
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    false = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        begin = time.process_time()
        truths, verdict, prepared = trial(arguments.hosts, arguments.conns, seed, arguments.plant or ["all"])
        prepared.engine.close()
        found, wrong = judge(truths, verdict)
        total.update(found.keys())
        hits.update(name for name, right in found.items() if right)
        false += len(wrong)
        missed = [name for name, right in found.items() if not right]
        print(
            f"seed {seed}: found {sum(found.values())} of {len(found)}, rounds {verdict.rounds}, "
            f"{time.process_time() - begin:.1f} CPU s; missed {missed}; false {wrong}",
            flush=True,
        )
    print(f"\n| culprit | found of {arguments.seeds} |\n|---|---|")
    for name in total:
        print(f"| {name} | {hits[name]} of {total[name]} |")
    hosts = arguments.hosts * arguments.seeds
    print(f"| recall | {sum(hits.values()) / max(1, sum(total.values())):.3f} |")
    print(f"| false culprits | {false} in {hosts} hosts, {8000 * false / hosts:.2f} per 8,000 |")
    print(f"(duckdb {duckdb.__version__}; {arguments.hosts} hosts of {arguments.conns} connections in the median)")


if __name__ == "__main__":
    main()
