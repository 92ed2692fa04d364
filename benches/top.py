#!/usr/bin/env python3
"""Measures the cost of `whylat top`, and how soon it answers a key, beside `ss -tinO` every two seconds.

In: numbers of sockets; a tenth of them send something ten times a second. Out: CPU time as a share of one core while
it runs in a terminal of 80 × 24, the interval that it chose, memory, and from a key to the
frame the time and the CPU time, with that of polls meanwhile.
"""

import fcntl
import os
import pty
import re
import resource
import select
import struct
import subprocess
import termios
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import machine
import programs

LIMIT_SHARE = 3.0
LIMIT_FRAME_MS = 100.0
SECONDS = 30
INTERVAL_S = 2.0
KEYS = 40
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """CPU time of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mb(pid):
    """Peak resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024


class Screen:
    """`whylat top` in a terminal."""

    def __init__(self, *words):
        self.master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.child = programs.start(
            [machine.WHYLAT, "top", "--interval", INTERVAL_S, *words],
            stdin=terminal,
            stdout=terminal,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(terminal)
        self.shown = b""

    def read(self, seconds):
        """Returns the first output of the screen within a time limit."""
        ready, _, _ = select.select([self.master], [], [], max(seconds, 0))
        if not ready:
            return b""
        more = os.read(self.master, 1 << 16)
        self.shown += more
        return more

    def drain(self, seconds):
        """Reads for a time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(end - time.monotonic())

    def wait_for(self, text):
        """Until it has drawn this text."""
        programs.until(lambda: self.read(0.05) is not None and text in self.shown, repr(text), self.child)

    def key_ms(self, key):
        """From a key to the first of the frame."""
        self.drain(0.05)
        start = time.perf_counter()
        os.write(self.master, key)
        if not self.read(5):
            raise machine.BenchError("whylat top did not answer a key within 5 s")
        return (time.perf_counter() - start) * 1e3

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.write(self.master, b"q")
        with suppress(OSError):  # EIO: it has ended, and the terminal with it
            self.drain(0.3)
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        os.close(self.master)


@contextmanager
def sockets(number):
    """So many sockets, a tenth of them busy."""
    busy = max(number // 20, 1)
    limit = ["--limit-s", "300"]
    with ExitStack() as stack:
        stack.enter_context(programs.Workload(*limit, "hold-open", str((number - 2 * busy) // 2)))
        sink = stack.enter_context(programs.Workload(*limit, "sink", "--connections", str(busy)))
        words = ["--connections", str(busy), "--write-size", "1000", "--pause-us", "100000"]
        address = f"127.0.0.1:{sink.port}"
        stream = stack.enter_context(
            programs.Workload(*limit, "stream", *words, "--seconds", "280", "--connect", address, wait=True)
        )
        stream.go()
        yield


def measure_top():
    """CPU share, memory, interval, and frame times."""
    with Screen() as screen:
        screen.wait_for(b"HELD BY")
        # past the costs of attaching, and until the pace is found
        screen.drain(3 * INTERVAL_S)
        before, start = cpu_s(screen.child.pid), time.monotonic()
        screen.drain(SECONDS)
        share = (cpu_s(screen.child.pid) - before) / (time.monotonic() - start)
        before = cpu_s(screen.child.pid)
        keys = [screen.key_ms(b"j" if turn % 2 == 0 else b">") for turn in range(KEYS)]
        of_keys = cpu_s(screen.child.pid) - before
        every = re.findall(rb"every ([\d.]+) s", screen.shown)
        return {
            "cpu_percent": share * 100,
            "frame_ms": machine.spread(keys),
            "cpu_ms_a_key": of_keys / KEYS * 1e3,
            "interval_s": float(every[-1]) if every else None,
            "peak_mb": peak_mb(screen.child.pid),
        }


def measure_ss():
    """CPU share of `ss -tinO` over the same sockets every two seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    runs = 5
    for _ in range(runs):
        subprocess.run(["ss", "-tinO"], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used / runs / INTERVAL_S * 100


def measure():
    """One row for each number of sockets."""
    options = machine.arguments(
        __doc__,
        lambda parser: parser.add_argument("sockets", nargs="*", type=int, default=[1_000, 10_000]),
    )
    before = machine.facts()
    rows, sizes = [], []
    for number in options.sockets:
        with sockets(number):
            size = {"sockets": number, **measure_top(), "ss_cpu_percent": measure_ss()}
        sizes.append(size)
        rows.append(
            [
                number,
                f"{size['cpu_percent']:.2f}",
                f"{size['ss_cpu_percent']:.2f}",
                f"{size['ss_cpu_percent'] / size['cpu_percent']:.1f}",
                machine.show(size["frame_ms"], digits=1),
                f"{size['cpu_ms_a_key']:.1f}",
                size["interval_s"],
                f"{size['peak_mb']:.0f}",
            ]
        )
    machine.head("top: CPU as % of one core, a tenth of the sockets busy", before)
    machine.table(
        ["sockets", "whylat top", "ss -tinO", "ss / top", "key to frame ms", "CPU ms a key", "every s", "peak MB"], rows
    )
    for size in sizes:
        what = f"{size['sockets']} sockets"
        machine.verdict(f"{what}, CPU", size["cpu_percent"], LIMIT_SHARE, "%")
        machine.verdict(f"{what}, key to frame, most", size["frame_ms"]["max"], LIMIT_FRAME_MS, "ms")
    machine.write_json(options.json, before, {"top": sizes})


if __name__ == "__main__":
    machine.main(measure)
