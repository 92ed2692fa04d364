#!/usr/bin/env python3
"""Records programs that note what each of their requests was, and compares that with `whylat report --requests`.

Prints a table for docs/accuracy.md. Needs root, python3 and cc.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

PROGRAMS = pathlib.Path(__file__).parent / "request_programs"
KINDS = (("Python, a thread a connection", "threads"), ("Python asyncio", "asyncio"), ("C, epoll, answers in batches", "c"))
# A logged duration encloses the calls: this much more, or 1 %.
NEAR_NS, NEAR_SHARE = 50_000, 0.01
SLOWEST_OF = 100


def record(whylat, kind, scratch):
    """Returns the truth, and the requests of the report by name."""
    truth, recording = scratch / "truth.json", scratch / "r.whylat"
    words = [whylat, "run", "--as-root", "--output", recording, "--", "python3", PROGRAMS / "programs.py", kind, truth]
    subprocess.run([*words, scratch / "loop"], check=True, capture_output=True)
    words = [whylat, "report", "--requests", "--format", "json", "--limit", "1000000", recording]
    report = subprocess.run(words, check=True, capture_output=True)
    known = json.loads(truth.read_text())
    port = str(known["port"])
    rows = [row for row in json.loads(report.stdout)["requests"] if row["service"].endswith(":" + port)]
    return known, {tuple(map(int, row["id"].split(":q"))): row for row in rows}


def is_near(row, begin_ns, end_ns):
    logged_ns = end_ns - begin_ns
    return abs(logged_ns - row["duration_ns"]) <= max(NEAR_NS, logged_ns * NEAR_SHARE)


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "–"


def score(known, found):
    """Returns the cells of a line."""
    clients = {(cookie, offset): times for cookie, offset, *times in known["clients"]}
    servers = {(cookie, offset): times for cookie, offset, *times in known["servers"]}
    logged = clients.keys() | servers.keys()
    near = sum(is_near(found[name], *times) for name, times in clients.items() if name in found)
    served = [(found[name], times) for name, times in servers.items() if name in found]
    worked = sorted(served, key=lambda it: -max(it[1]))[: max(len(served) // SLOWEST_OF, 1)]
    largest = sum(is_largest(row, *times) for row, times in worked)
    total = {part: sum(row["parts"].get(part, 0) for row, _ in served) for part in ("cpu", "timer", "queued", "unknown")}
    everything = sum(row["duration_ns"] for row, _ in served)
    return [
        f"{len(logged):,}",
        share(len(logged & found.keys()), len(logged)),
        str(len(found.keys() - logged)),
        share(near, len(clients)),
        share(total["cpu"], sum(cpu_ns for _, (cpu_ns, _) in served)),
        share(total["timer"], sum(timer_ns for _, (_, timer_ns) in served)),
        share(largest, len(worked)),
        share(total["unknown"], everything),
    ]


def is_largest(row, cpu_ns, timer_ns):
    """Whether the larger of what the program did is the larger in the report, too."""
    return (cpu_ns > timer_ns) == (row["parts"].get("cpu", 0) > row["parts"].get("timer", 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whylat", default="target/release/whylat")
    args = parser.parse_args()
    heads = ("program", "logged", "found", "false", "duration near", "cpu", "timer", "largest part", "unknown")
    print("| " + " | ".join(heads) + " |\n|---|" + "---:|" * (len(heads) - 1))
    for title, kind in KINDS:
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            subprocess.run(["cc", "-O2", "-o", scratch / "loop", PROGRAMS / "loop.c"], check=True)
            cells = score(*record(args.whylat, kind, scratch))
        print("| " + " | ".join([title, *cells]) + " |", flush=True)


main()
