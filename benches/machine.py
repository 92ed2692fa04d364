"""The description of the machine and the table of every benchmark.

In: rows of figures. Out: aligned text on stdout, and the same as JSON with `--json FILE`.
Refuses to measure while the kernel's BPF statistics are on for everybody: they add two clock
readings to every run of every program.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WHYLAT = TARGET / "release" / "whylat"


class BenchError(Exception):
    """Reports what failed, on what, why; and after `hint:` the next command."""


def arguments(description, add=lambda parser: None):
    """Parses the command line: `--json FILE` and what `add` adds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    add(parser)
    return parser.parse_args()


def main(measure):
    """Runs `measure`; an error goes to stderr, and what it started is ended."""
    # so that `with` and `finally` run when this script is ended
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        check()
        measure()
    except (BenchError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def check():
    """Refuses what would make every figure wrong."""
    if bpf_stats_enabled():
        raise BenchError(
            "kernel.bpf_stats_enabled is 1: every BPF program pays for two clock readings a run\n"
            "hint: sysctl kernel.bpf_stats_enabled=0, if nobody needs it"
        )
    if os.geteuid() != 0:
        raise BenchError("recording needs root\nhint: sudo benches/run")
    if not WHYLAT.exists():
        raise BenchError(f"{WHYLAT} is not there\nhint: make build")


def bpf_stats_enabled():
    """The sysctl that switches run-time statistics on for all BPF programs."""
    return int(Path("/proc/sys/kernel/bpf_stats_enabled").read_text())


def loopback_round_us():
    """Time of one byte over UDP loopback: how fast this machine's kernel is just now.

    A virtual machine's speed changes with its neighbours, which no load average shows.
    """
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        sender.connect(receiver.getsockname())
        rounds = []
        for _ in range(50):
            start = time.perf_counter_ns()
            for _ in range(100):
                sender.send(b"x")
                receiver.recv(1)
            rounds.append((time.perf_counter_ns() - start) / 100 / 1e3)
    return statistics.median(rounds)


def facts():
    """The machine, and how busy and fast it is now."""
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "kernel": os.uname().release,
        "load_average_1min": os.getloadavg()[0],
        "loopback_round_us": loopback_round_us(),
        "bpf_stats_enabled": bpf_stats_enabled(),
    }


def spread(values):
    """Median, least and most."""
    values = list(values)
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "n": len(values),
    }


def show(figures, digits=3, scale=1.0):
    """`median (least–most)`."""
    median, low, high = (figures[key] * scale for key in ("median", "min", "max"))
    return f"{median:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def head(title, before):
    """Prints the title and the machine, with the load average before and now."""
    after = facts()
    print(f"{title}")
    print(
        f"  {before['cpu']}, {before['cpus']} CPUs, Linux {before['kernel']}; load average "
        f"{before['load_average_1min']:.2f} before, {after['load_average_1min']:.2f} after; "
        f"kernel.bpf_stats_enabled={after['bpf_stats_enabled']}; a byte over UDP loopback takes "
        f"{before['loopback_round_us']:.1f} µs before, {after['loopback_round_us']:.1f} after"
    )
    if before["load_average_1min"] > before["cpus"] / 2:
        print("  the machine was busy before this began: these figures do not decide a budget")


def table(columns, rows):
    """Prints aligned columns: the first to the left, the others to the right."""
    cells = [list(columns)] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    for row in cells:
        line = row[0].ljust(widths[0])
        for cell, width in zip(row[1:], widths[1:]):
            line += "  " + cell.rjust(width)
        print("  " + line.rstrip())


def verdict(what, value, limit, unit):
    """`within` or `OVER` the budget."""
    state = "within" if value <= limit else "OVER"
    print(f"  budget: {what} {value:.3g} {unit}, limit {limit:g} {unit}: {state}")


def write_json(path, before, figures):
    """Writes the figures with the machine; nothing when no file was asked for."""
    if path is not None:
        path.write_text(json.dumps({"machine": before, **figures}, indent=2) + "\n")
