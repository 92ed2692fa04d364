#!/usr/bin/env python3
"""Breaks what whylat depends on, one thing after the other, and says what became of it.

In: names of tests (default: all), and how much. Out: a line for each, with --output a table in docs/reliability.md,
between its two marks; exit code 1 if a threshold was missed. Needs root; works in namespaces of its own.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import consumer
import crowds
import disk
import names
from harness import Wrong, refuse_without_root

# Name → test, and whether it is one of the few that `make faults-quick` runs.
TESTS = {
    "stopped": (consumer.stopped, True),
    "write_errors": (disk.write_errors, True),
    "slow_disk": (disk.slow_disk, False),
    "power_cut": (disk.power_cut, True),
    "live_copies": (consumer.live_copies, False),
    "leftovers": (consumer.leftovers, False),
    "forks": (crowds.forks, False),
    "flows": (crowds.flows, True),
    "namespaces": (crowds.namespaces, False),
    "full_maps": (crowds.full_maps, False),
    "churn": (crowds.churn, False),
    "hostile_names": (names.hostile, True),
    "status_reads": (consumer.status_reads, False),
    "memory_limit": (consumer.memory_limit, False),
}

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"


def table(rows):
    """The rows as Markdown."""
    lines = ["| fault | what was done | threshold | seen |", "|---|---|---|---|"]
    lines += [f"| {row.fault} | {row.done} | {row.threshold} | {row.seen} |" for row in rows]
    return "\n".join(lines)


def put(path, rows):
    """Puts the rows into the page's table, between its marks; those of other faults stay."""
    text = path.read_text()
    head, _, rest = text.partition(BEGIN)
    before, _, tail = rest.partition(END)
    new = {row.fault: line for row, line in zip(rows, table(rows).splitlines()[2:], strict=True)}
    old = {line.split(" | ")[0].removeprefix("| "): line for line in before.strip().splitlines()[2:]}
    lines = table([]).splitlines() + list({**old, **new}.values())
    path.write_text("\n".join([f"{head}{BEGIN}", *lines, f"{END}{tail}"]))


def main():
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", metavar="NAME", help=f"of {', '.join(TESTS)}")
    parser.add_argument("--quick", action="store_true", help="the few that take a minute")
    parser.add_argument(
        "--whole", action="store_true", help="with the numbers of docs/reliability.md, not a part of them"
    )
    parser.add_argument("--loaded", action="store_true", help="others use the machine: demand no rates")
    parser.add_argument("--minutes", type=float, default=1, help="of churn")
    parser.add_argument("--output", type=Path, help="page into which the table goes")
    options = parser.parse_args()
    if unknown := set(options.tests) - set(TESTS):
        parser.error(f"no test {', '.join(sorted(unknown))}")
    if options.quick and os.geteuid() != 0:
        return print("skipped: the fault tests record, as root")
    refuse_without_root()
    chosen = options.tests or [name for name, (_, quick) in TESTS.items() if quick or not options.quick]
    rows, failed = [], []
    for name in chosen:
        start = time.monotonic()
        try:
            row = TESTS[name][0](options)
        except (Wrong, OSError, subprocess.SubprocessError) as wrong:
            failed.append(name)
            print(f"{name:14} FAILED: {wrong}", flush=True)
            continue
        rows.append(row)
        print(f"{name:14} {time.monotonic() - start:6.1f} s  {row.seen}", flush=True)
        if options.output:
            put(options.output, rows)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
