#!/usr/bin/env python3
"""How long a cold release build of the workspace takes.

In: the sources, and dependencies that are already fetched. Out: elapsed and CPU time of
`cargo build --release --workspace` into an empty directory, and the slowest crates. Takes
minutes, so `benches/run` leaves it out.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import machine

LIMIT_S = 600.0
SLOWEST = 12


def build(target):
    """One cold build. Elapsed seconds and CPU seconds."""
    subprocess.run(["cargo", "fetch", "--quiet"], cwd=machine.ROOT, check=True)
    before, start = os.times(), time.monotonic()
    subprocess.run(
        ["cargo", "build", "--release", "--workspace", "--quiet", "--timings"],
        cwd=machine.ROOT,
        env=os.environ | {"CARGO_TARGET_DIR": str(target)},
        check=True,
    )
    elapsed_s, after = time.monotonic() - start, os.times()
    cpu_s = sum(after[2:4]) - sum(before[2:4])
    return elapsed_s, cpu_s


def slowest(target):
    """(crate and what of it, seconds) of the slowest, from cargo's own report."""
    text = (Path(target) / "cargo-timings" / "cargo-timing.html").read_text()
    _, found, data = text.partition("const UNIT_DATA = ")
    if not found:
        return []
    units, _ = json.JSONDecoder().raw_decode(data)
    times = [(unit["name"] + unit["target"], unit["duration"]) for unit in units]
    return sorted(times, key=lambda one: -one[1])


def measure():
    """One build."""
    options = machine.arguments(__doc__)
    before = machine.facts()
    with tempfile.TemporaryDirectory(prefix="whylat-build-") as target:
        elapsed_s, cpu_s = build(target)
        units = slowest(target)
        size = sum(path.stat().st_size for path in Path(target).rglob("*") if path.is_file())
    machine.head("cold release build of the workspace", before)
    print(f"  {elapsed_s:.0f} s elapsed, {cpu_s:.0f} s of CPU, {size / 1e6:.0f} MB in target")
    machine.table(
        ["slowest crates", "s"], [[name, f"{time_s:.1f}"] for name, time_s in units[:SLOWEST]]
    )
    machine.verdict("elapsed", elapsed_s, LIMIT_S, "s")
    figures = {"elapsed_s": elapsed_s, "cpu_s": cpu_s, "units_s": units}
    machine.write_json(options.json, before, figures)


if __name__ == "__main__":
    machine.main(measure)
