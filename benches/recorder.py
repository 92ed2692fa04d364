#!/usr/bin/env python3
"""Measures what the recorder holds, loses and stores under heavy load.

In: `count-calls` (two busy threads, as many calls as the machine can make), alone and beside ten
thousand idle sockets, and alone with every message recorded. Out: calls and messages a second, records lost
with their causes, resident memory, and bytes on disk for each stored call and message.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import machine
import programs

LIMIT_MB, LIMIT_BYTES = 100.0, 64.0
IDLE_CONNECTIONS = 5_000
PAIRS, CALLS_A_SEND = 2, 5


def run(path, sends, idle, detail="calls"):
    """One recording of `sends` sends on each pair beside `idle` connections."""
    with ExitStack() as stack:
        pids = []
        if idle:
            held = stack.enter_context(programs.Workload("hold-open", idle))
            pids += Path(f"/proc/{held.pid}/task/{held.pid}/children").read_text().split()
        busy = stack.enter_context(
            programs.Workload("count-calls", "--pairs", PAIRS, "--sends", sends, wait=True)
        )
        pids.append(busy.pid)
        selection = ["-p", ",".join(map(str, pids))]
        recorder = stack.enter_context(programs.recording(path, selection, detail))
        before_ns = recorder.cpu_ns()
        busy.go()
        truth = busy.finish()
        cpu_ns = recorder.cpu_ns() - before_ns
        resident = recorder.resident_bytes()
        usage = recorder.stop()
    made = truth["send_calls"] + truth["recv_calls"]
    return figures(made, truth, cpu_ns, resident, usage.ru_maxrss * 1024, path)


def figures(made, truth, cpu_ns, resident, peak, path):
    """Compares the recording with the workload's own counts."""
    manifest = programs.Manifest(path)
    calls = manifest.loss["calls"]
    wall_ns = truth["calls_end_ns"] - truth["calls_start_ns"]
    segment = manifest.segments["calls"]
    return {
        "calls_made": made,
        "calls_per_s": truth["calls_per_s"],
        "calls_accounted": calls["produced"],
        "calls_stored": calls["stored"],
        "lost": {
            f"{probe}.{cause}": count
            for probe, loss in manifest.loss.items()
            for cause, count in loss["lost"].items()
            if count
        },
        "recorder_cpu_share": cpu_ns / wall_ns,
        "resident_bytes": resident,
        "peak_with_close_bytes": peak,
        "bytes_per_call": segment["bytes"] / segment["rows"],
        **message_figures(manifest, wall_ns),
        "connections": manifest.rows("connections"),
    }


def message_figures(manifest, wall_ns):
    """Of a recording with messages: how many, and what they take on disk."""
    tables = [manifest.segments.get(name) for name in ("sent_messages", "received_messages")]
    rows = sum(table["rows"] for table in tables if table)
    if not rows:
        return {}
    return {
        "messages": rows,
        "messages_accounted": manifest.loss["messages"]["produced"],
        "messages_per_s": rows * 1e9 / wall_ns,
        "bytes_per_message": sum(table["bytes"] for table in tables) / rows,
    }


def measure():
    """One row without and one with idle sockets."""
    options = machine.arguments(
        __doc__,
        lambda parser: parser.add_argument("--seconds", type=float, default=10),
    )
    before = machine.facts()
    results = {}
    with tempfile.TemporaryDirectory(prefix="whylat-bench-") as where:
        path = Path(where) / "recorder.whylat"
        first = run(path, 100_003, 0)
        sends = int(first["calls_per_s"] * options.seconds / PAIRS / CALLS_A_SEND)
        for idle in (0, IDLE_CONNECTIONS):
            results[idle * 2] = run(path, sends, idle)
        messages = run(path, sends // 4, 0, "messages")
    machine.head(f"recorder under count-calls, about {options.seconds:g} s a row", before)
    machine.table(
        [
            *["idle sockets", "calls/s", "calls made", "accounted", "stored", "lost"],
            *["recorder CPU", "RSS MB", "RSS MB, closing", "bytes/call"],
        ],
        [
            [
                idle,
                row["calls_per_s"],
                row["calls_made"],
                row["calls_accounted"],
                row["calls_stored"],
                sum(row["lost"].values()),
                f"{100 * row['recorder_cpu_share']:.1f} %",
                f"{row['resident_bytes'] / 1e6:.1f}",
                f"{row['peak_with_close_bytes'] / 1e6:.1f}",
                f"{row['bytes_per_call']:.1f}",
            ]
            for idle, row in results.items()
        ],
    )
    for idle, row in results.items():
        if row["lost"]:
            print(f"  lost with {idle} idle sockets: {row['lost']}")
    machine.table(
        ["messages/s", "accounted", "stored", "lost", "recorder CPU", "RSS MB, closing", "bytes/message"],
        [
            [
                messages["messages_per_s"],
                messages["messages_accounted"],
                messages["messages"],
                sum(messages["lost"].values()),
                f"{100 * messages['recorder_cpu_share']:.1f} %",
                f"{messages['peak_with_close_bytes'] / 1e6:.1f}",
                f"{messages['bytes_per_message']:.1f}",
            ]
        ],
    )
    rows = results.values()
    peak_mb = max(row["peak_with_close_bytes"] for row in rows) / 1e6
    machine.verdict("resident, closing included", peak_mb, LIMIT_MB, "MB")
    per_call = max(row["bytes_per_call"] for row in rows)
    machine.verdict("bytes on disk a call", per_call, LIMIT_BYTES, "bytes")
    machine.verdict("bytes on disk a message", messages["bytes_per_message"], LIMIT_BYTES, "bytes")
    machine.write_json(options.json, before, {"recorder": results, "messages": messages})


if __name__ == "__main__":
    machine.main(measure)
