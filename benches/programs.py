"""Starts and ends what a benchmark needs: a recorder, servers, workloads.

Every child ends with this process, however it ends (PR_SET_PDEATHSIG). What is waited for is a
condition: a file, an open port, a line; never a fixed time.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from machine import ROOT, TARGET, WHYLAT, BenchError

PR_SET_PDEATHSIG = 1
WAIT_S = 30
_libc = ctypes.CDLL(None)


def start(command, **options):
    """A child that is killed when this process dies."""
    options.setdefault("stdout", subprocess.DEVNULL)
    command = [str(word) for word in command]
    return subprocess.Popen(
        command,
        preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        **options,
    )


def until(condition, what, child, longest_s=WAIT_S):
    """Waits until `condition()` holds; `child` must live meanwhile."""
    end = time.monotonic() + longest_s
    while not condition():
        if child.poll() is not None:
            raise BenchError(f"{what}: {child.args[0]} ended with status {child.returncode}")
        if time.monotonic() > end:
            raise BenchError(f"{what}: not within {longest_s} s")
        time.sleep(0.005)


def example(package, name):
    """Builds an example of a crate when it is not up to date. Returns its path."""
    command = ["cargo", "build", "--release", "--quiet", "-p", package, "--example", name]
    subprocess.run(command, cwd=ROOT, check=True)
    return TARGET / "release" / "examples" / name


def free_port():
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    """Returns whether a server accepts connections on this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def server(kind):
    """redis or memcached on a port of its own, keeping nothing. Yields (pid, port)."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="whylat-bench-") as where:
        command = {
            "redis": [
                *["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", ""],
                *["--appendonly", "no", "--dir", where],
            ],
            "memcached": ["memcached", "-l", "127.0.0.1", "-p", port, "-U", 0, "-u", "root"],
        }[kind]
        child = start(command)
        try:
            until(lambda: answers(port), f"{kind} on port {port}", child)
            yield child.pid, port
        finally:
            child.terminate()
            child.wait()


def cpu_ns(pid):
    """CPU time of a process's threads so far (/proc/PID/task/TID/schedstat)."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        total += int((thread / "schedstat").read_text().split()[0])
    return total


class Recorder:
    """`whylat record` over a part of a benchmark."""

    def __init__(self, path, selection, detail="calls"):
        """Starts it and waits until everything is attached."""
        self.path = Path(path)
        ready = self.path.with_suffix(".ready")
        ready.unlink(missing_ok=True)
        self.messages = self.path.with_suffix(".stderr").open("w+")
        self.child = start(
            [
                *[WHYLAT, "record", *selection, "--detail", detail, "--force"],
                *["-o", self.path, "--ready-file", ready],
            ],
            stderr=self.messages,
        )
        self.pid = self.child.pid
        try:
            until(ready.exists, "whylat record", self.child)
        except BaseException:
            self.child.kill()
            self.child.wait()
            self.messages.seek(0)
            print(self.messages.read())
            raise

    def cpu_ns(self):
        """CPU time of its threads so far."""
        return cpu_ns(self.pid)

    def resident_bytes(self, field="VmHWM"):
        """Resident memory: `VmHWM`, the most so far, or `VmRSS`, now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise BenchError(f"/proc/{self.pid}/status has no {field}")

    def stop(self):
        """Ends it in order. Returns the resource usage of its whole life."""
        self.child.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(self.pid, 0)
        self.child.returncode = os.waitstatus_to_exitcode(status)
        self.messages.seek(0)
        messages = self.messages.read()
        self.messages.close()
        # 3: some records were lost; the manifest says how many
        if self.child.returncode not in (0, 3) or "error:" in messages:
            raise BenchError(f"whylat record ended with {self.child.returncode}: {messages}")
        return usage

    def kill(self):
        """Ends it if it still runs."""
        if self.child.returncode is None:
            self.child.kill()
            self.child.wait()


@contextmanager
def bystander():
    """A process that does nothing. Yields its pid."""
    child = start(["sleep", "infinity"])
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


@contextmanager
def recording(path, selection, detail="calls"):
    """A recorder that does not outlive the block."""
    recorder = Recorder(path, selection, detail)
    try:
        yield recorder
    finally:
        recorder.kill()


class Manifest:
    """Returns the summary of a closed recording."""

    def __init__(self, path):
        """Reads `manifest.jsonl`; later lines replace earlier ones."""
        self.loss, self.segments, self.cost = {}, {}, None
        for line in (Path(path) / "manifest.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if "loss" in entry:
                self.loss[entry["loss"]["probe"]] = entry["loss"]
            elif "merged" in entry:
                self.segments[entry["merged"]["table"]] = entry["merged"]
            elif "segment" in entry:
                self.segments.setdefault(entry["segment"]["table"], entry["segment"])
            elif "cost" in entry:
                self.cost = entry["cost"]

    def rows(self, name):
        """Rows of a table."""
        return self.segments.get(name, {}).get("rows", 0)


class Workload:
    """`whylat lab workload`, which prints what it did as its last line."""

    def __init__(self, *words, wait=False):
        """Starts it. With `wait` it waits for `go` once it is connected."""
        self.child = start(
            [WHYLAT, "lab", "workload", *words, *(["--start-on-stdin"] if wait else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = json.loads(self.child.stdout.readline() or "{}")
        if "ready" not in self.ready:
            raise BenchError(f"the workload {words[0]} did not start")
        self.pid, self.port = self.child.pid, self.ready["ready"]

    def go(self):
        """Lets a waiting client begin."""
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def finish(self):
        """Waits for its end. Returns its own account."""
        output, _ = self.child.communicate()
        if self.child.returncode != 0:
            raise BenchError(f"a workload ended with status {self.child.returncode}")
        return json.loads(output.splitlines()[-1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
