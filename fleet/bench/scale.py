"""Measures the cost of `whylat-fleet correlate`, from 48,000 to 4 million connections: one table.

    python fleet/bench/scale.py --scratch DIRECTORY [--sizes 100,1250,6250] [--memory 2GB] [--pairwise]

Three of four connections of these data centres have a problem, in 17 bins (`SPARSE`): all of those count. The files are
those of `simulate`, one for each host, table and hour. Seconds are those of the clock: what a person waits on a
machine that does nothing else; other work changes CPU seconds less. The peer is the definition as one
would write it in SQL: the sum over all pairs of connections of a host, by the same engine from the same files.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb

SPARSE = {
    "source": "bench: each connection has one problem, in the mean in half a percent of its bins",
    "connections_per_host": {"median": 150, "largest": 10000},
    "shares": [0.0, 0.02, 0.5, 0.75, 0.999],
}
PLANTS = tuple(f"--plant={name}" for name in ("receive-window", "incast", "bad-port", "backups", "send-buffer"))
"""All but an application with delayed ACKs everywhere, which alone would make more rows than all others."""
BEGIN = "2026-01-05T10:00"

PAIRWISE = """
WITH entries AS (
    SELECT u.host AS host, u.conn_id AS conn, u.begin_ns AS bin, u.problem AS problem, CAST(u.us AS DOUBLE) AS x
    FROM (
        UNPIVOT (SELECT * EXCLUDE (sender_app_us) FROM read_parquet('{root}/fleet_problems/*/*/*.parquet',
            hive_partitioning = false))
        ON send_buffer_us, fast_retransmit_us, timeout_us, delayed_ack_us, receiver_window_us
        INTO NAME problem VALUE us
    ) AS u
    WHERE u.us > 0
), moments AS (
    SELECT host, conn, SUM(x) AS s, SUM(x * x) - SUM(x) * SUM(x) / 9000 AS v FROM entries GROUP BY host, conn
), products AS (
    SELECT a.host AS host, a.conn AS one, b.conn AS other, SUM(a.x * b.x) AS xy
    FROM entries AS a JOIN entries AS b ON a.host = b.host AND a.bin = b.bin AND a.problem = b.problem
        AND a.conn < b.conn
    GROUP BY a.host, a.conn, b.conn
)
SELECT m.host, AVG((COALESCE(p.xy, 0) - m.s * n.s / 9000) / SQRT(m.v * n.v))
FROM moments AS m JOIN moments AS n ON m.host = n.host AND m.conn < n.conn
LEFT JOIN products AS p ON p.host = m.host AND p.one = m.conn AND p.other = n.conn
GROUP BY m.host
"""


def simulated(scratch: Path, hosts: int, connections: int) -> tuple[Path, float, float]:
    """A data centre, and the seconds and CPU seconds that it took if it was not there yet."""
    root = scratch / f"center-{hosts}-{connections}"
    if root.exists():
        return root, math.nan, math.nan
    table = scratch / "sparse.json"
    problem = {
        "connections": [0.25, 0.0, 0.0, 0.0, 0.0],
        "run_bins": 1,
        "in_bin_us": [100000, 400000, 800000, 1400000, 2000000],
    }
    names = ("send_buffer", "fast_retransmit", "timeout", "delayed_ack", "receiver_window")
    table.write_text(json.dumps(SPARSE | {"problems": dict.fromkeys(names, problem)}))
    sizes = ("--hosts", str(hosts), "--conns", str(connections), "--begin", BEGIN, "--background", str(table), *PLANTS)
    seconds, cpu, _ = measured(["simulate", str(root), *sizes])
    return root, seconds, cpu


def measured(arguments: list[str]) -> tuple[float, float, float]:
    """Runs the command: seconds, CPU seconds and the greatest resident set, GB."""
    begin = time.monotonic()
    child = subprocess.Popen([sys.executable, "-m", "whylat_fleet", *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise SystemExit(f"whylat-fleet {' '.join(arguments)} failed")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6


def counts(root: Path) -> tuple[int, int, int]:
    """Connections, those with a row in `fleet_problems`, and its rows."""
    sql = "SELECT COUNT(DISTINCT conn_id), COUNT(*) FROM read_parquet('{}/{}/*/*/*.parquet')"
    connections, _ = duckdb.sql(sql.format(root, "fleet_connections")).fetchall()[0]
    with_problem, rows = duckdb.sql(sql.format(root, "fleet_problems")).fetchall()[0]
    return connections, with_problem, rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--sizes", default="100,1250,6250", help="hosts: 50,000, 800,000 and 4 million connections")
    parser.add_argument("--conns", type=int, default=325, help="connections of a host, median")
    parser.add_argument("--memory")
    parser.add_argument("--pairwise", action="store_true", help="the peer too, at the least size")
    parser.add_argument("--keep", action="store_true", help="do not remove the data centres")
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    memory = ["--memory", arguments.memory] if arguments.memory else []
    print(
        "| hosts | connections | with a problem | rows of them | simulate s (CPU) | correlate s | CPU s | peak GB "
        "| exponent of CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    before: tuple[int, float] | None = None
    for number, hosts in enumerate(int(size) for size in arguments.sizes.split(",")):
        root, simulate_s, simulate_cpu = simulated(arguments.scratch, hosts, arguments.conns)
        connections, with_problem, rows = counts(root)
        seconds, cpu, peak = measured(["correlate", str(root), *memory])
        exponent = f"{math.log(cpu / before[1]) / math.log(connections / before[0]):.2f}" if before else ""
        before = (connections, cpu)
        print(
            f"| {hosts} | {connections} | {with_problem} | {rows} | {simulate_s:.0f} ({simulate_cpu:.0f}) "
            f"| {seconds:.1f} | {cpu:.1f} | {peak:.2f} | {exponent} |",
            flush=True,
        )
        if arguments.pairwise and number == 0:
            begin, cpu_begin = time.monotonic(), time.process_time()
            duckdb.sql(PAIRWISE.format(root=root)).fetchall()
            spent = f"{time.monotonic() - begin:.1f} | {time.process_time() - cpu_begin:.1f}"
            print(f"| {hosts} | {connections} | | all pairs of each host, hosts only | | {spent} | | |", flush=True)
        if not arguments.keep:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
