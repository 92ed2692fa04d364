#!/usr/bin/env python3
"""How long `whylat report` takes on a recording of a million calls and ten thousand connections.

In: a recording made here of real workloads: idle connections that were open before, short-lived
ones, and two busy ones. Out: time and peak memory of each output format, page cache warm.
"""

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import machine
import programs

LIMIT_S = 1.0
TIMES = 7
# each connection is two sockets here, so two rows of `connections`
HELD, SHORT = 4_500, 503
# 1 send, 1 receive and 3 receives on the empty socket for each of 2 pairs: 1,100,030 calls
SENDS = 110_003


def make(path):
    """Records the workloads. Returns the recording's manifest."""
    with ExitStack() as stack:

        def workload(*words, wait=False):
            return stack.enter_context(programs.Workload(*words, wait=wait))

        held = workload("hold-open", HELD)
        server = workload("reply-server", "--connections", SHORT)
        busy = workload("count-calls", "--sends", SENDS, wait=True)
        short = workload(
            *["short-lived", "--connect", f"127.0.0.1:{server.port}", "--count", SHORT],
            *["--life-us", 1000],
            wait=True,
        )
        children = Path(f"/proc/{held.pid}/task/{held.pid}/children").read_text().split()
        pids = [*children, server.pid, busy.pid, short.pid]
        selection = ["-p", ",".join(map(str, pids))]
        recorder = stack.enter_context(programs.recording(path, selection))
        for client in (short, busy):
            client.go()
            client.finish()
        server.finish()
        recorder.stop()
    return programs.Manifest(path)


def timed(path, kind, output):
    """One `whylat report`. Seconds, CPU seconds and peak resident bytes."""
    with output.open("w") as out:
        start = time.monotonic()
        words = [machine.WHYLAT, "report", path, "--format", kind]
        child = programs.start(words, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        elapsed_s = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 3) or output.stat().st_size == 0:
        raise machine.BenchError(f"whylat report ended with status {child.returncode}")
    return {
        "elapsed_s": elapsed_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "max_rss_bytes": usage.ru_maxrss * 1024,
    }


def measure():
    """One row for each format."""
    options = machine.arguments(
        __doc__,
        lambda parser: parser.add_argument("--recording", type=Path, help="time this one instead"),
    )
    with tempfile.TemporaryDirectory(prefix="whylat-bench-") as where:
        path = options.recording or Path(where) / "report.whylat"
        manifest = programs.Manifest(path) if options.recording else make(path)
        before = machine.facts()
        formats = {}
        for kind in ("json", "text"):
            output = Path(where) / f"report.{kind}"
            timed(path, kind, output)  # warms the page cache
            runs = [timed(path, kind, output) for _ in range(TIMES)]
            keys = ("elapsed_s", "cpu_s", "max_rss_bytes")
            formats[kind] = {key: machine.spread(run[key] for run in runs) for key in keys}
            formats[kind]["output_bytes"] = output.stat().st_size
    machine.head(f"whylat report: {TIMES} runs, page cache warm", before)
    sizes = {name: segment["rows"] for name, segment in manifest.segments.items()}
    print("  rows: " + ", ".join(f"{name} {rows}" for name, rows in sorted(sizes.items())))
    machine.table(
        ["format", "elapsed s", "CPU s", "peak MB", "output KB"],
        [
            [
                kind,
                machine.show(figures["elapsed_s"]),
                machine.show(figures["cpu_s"]),
                machine.show(figures["max_rss_bytes"], 0, 1e-6),
                f"{figures['output_bytes'] / 1e3:.0f}",
            ]
            for kind, figures in formats.items()
        ],
    )
    machine.verdict("json", formats["json"]["elapsed_s"]["median"], LIMIT_S, "s")
    machine.write_json(options.json, before, {"rows": sizes, "formats": formats})


if __name__ == "__main__":
    machine.main(measure)
