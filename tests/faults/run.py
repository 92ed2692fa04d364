#!/usr/bin/env python3
"""Breaks what whylat depends on, one thing after the other, and says what became of it.

In: names of tests (default: all), and how much. Out: a line for each, with --output a row in docs/reliability.md, also
of those that failed; exit code 1 if a threshold was missed. Needs root; works in namespaces of its own.
"""

import argparse
import dataclasses
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import consumer
import crowds
import disk
import names
import page
from harness import FaultRow, Wrong, demand, refuse_without_root


@dataclasses.dataclass
class Test:
    """A test, and the fault of its row. `make faults-quick` plays the quick ones; long ones take `--minutes`."""

    play: Callable[[argparse.Namespace], FaultRow]
    fault: str
    is_quick: bool = False
    is_long: bool = False


TESTS = {
    "stopped": Test(consumer.stopped, "consumer stopped", is_quick=True),
    "write_errors": Test(disk.write_errors, "write errors", is_quick=True),
    "slow_disk": Test(disk.slow_disk, "slow disk"),
    "power_cut": Test(disk.power_cut, "power cut", is_quick=True),
    "live_copies": Test(consumer.live_copies, "copy of a live recording"),
    "leftovers": Test(consumer.leftovers, "SIGKILL: sysctls"),
    "forks": Test(crowds.forks, "pid reuse"),
    "flows": Test(crowds.flows, "short flows", is_quick=True),
    "namespaces": Test(crowds.namespaces, "namespaces"),
    "full_maps": Test(crowds.full_maps, "more flows than a map holds"),
    "churn": Test(crowds.churn, "churn", is_long=True),
    "hostile_names": Test(names.hostile, "hostile names", is_quick=True),
    "status_reads": Test(consumer.status_reads, "loss counters read"),
    "memory_limit": Test(consumer.memory_limit, "memory limit hit"),
}


def play(name, options):
    """Plays a test, and puts its row where it belongs, whatever comes of it. Whether it passed."""
    test, start = TESTS[name], time.monotonic()
    try:
        row = test.play(options)
        demand(row.fault == test.fault, f"its row is of {row.fault!r}")
    except Exception as error:  # whatever a test did not expect is a failure of it
        if not isinstance(error, Wrong):
            traceback.print_exc()
        print(f"{name:14} FAILED: {page.reason(error)}", flush=True)
        if options.output:
            page.put_failure(options.output, test.fault, error, options.minutes if test.is_long else None)
        return False
    print(f"{name:14} {time.monotonic() - start:6.1f} s  {row.seen}", flush=True)
    if options.output and not page.put(options.output, row):
        print(f"{name:14} its row stays: it is of a longer run", flush=True)
    return True


def main():
    """Reads the command line and runs the tests."""
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
    chosen = options.tests or [name for name, test in TESTS.items() if test.is_quick or not options.quick]
    failed = [name for name in chosen if not play(name, options)]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
