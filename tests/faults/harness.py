"""Parts that the fault tests share: recorders, workloads in network namespaces of their own, and what must hold of an answer.

In: the release binary. Out: processes that die with this script, files in one temporary directory. Nothing outside is
changed: no sysctl, no route, no file of others.
"""

import contextlib
import csv
import ctypes
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WHYLAT = TARGET / "release" / "whylat"

# Nothing that a test waits for takes longer, in seconds; generous, since machines are shared.
LONGEST = 300

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


class Wrong(Exception):
    """A threshold is missed: what was seen instead."""


@dataclasses.dataclass
class FaultRow:
    """A line of the table in docs/reliability.md; `minutes`: for how long, of faults that take as long as one likes."""

    fault: str
    done: str
    threshold: str
    seen: str
    minutes: float | None = None


def demand(holds, what):
    """Fails the test unless it holds."""
    if not holds:
        raise Wrong(what)


def until(what, condition, longest=LONGEST):
    """Waits until the condition gives something true, and gives that."""
    end = time.monotonic() + longest
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.005)
    raise Wrong(f"never saw: {what}")


def bind_to_thread(command, netns=None):
    """Returns the command to start one that ends with this script's thread, in a network namespace. `preexec_fn` would
    do the same, but is not safe where other threads run (Python's documentation of subprocess)."""
    namespace = ["nsenter", f"--net={netns.path}"] if netns else []
    return ["setpriv", "--pdeathsig", "KILL", *namespace, *(str(word) for word in command)]


def inside(netns, function):
    """Calls a function in a network namespace: in a thread of its own, as nobody else is to go there."""

    def go():
        if LIBC.setns(netns.fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        return function()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(go).result()


def outcome(*command, code=0, env=None, netns=None, longest=LONGEST):
    """Runs a command to its end; returns its output. It must end with this exit code, and not panic."""
    done = subprocess.run(
        bind_to_thread(command, netns),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
        timeout=longest,
        check=False,
    )
    output = done.stderr.decode(errors="replace")
    allowed = code if isinstance(code, tuple) else (code,)
    demand(done.returncode in allowed, f"{command[1:3]} ended with {done.returncode}, not {allowed}: {output[-800:]}")
    demand("panicked" not in output, f"{command[1:3]} panicked: {output[-800:]}")
    return done


def finish(*command, **options):
    """The same; gives its stdout."""
    return outcome(*command, **options).stdout


def whylat(*arguments, **options):
    """Runs `whylat` to its end."""
    return finish(WHYLAT, *arguments, **options)


def report(path, code=(0, 3)):
    """The JSON report of a recording."""
    return json.loads(whylat("report", "--format", "json", path, code=code))


def report_but_connections(path, code=(0, 3)):
    """Returns the same without its connections: they may be gigabytes. It is read as it is written."""
    command = [WHYLAT, "report", "--format", "json", path]
    with subprocess.Popen(bind_to_thread(command), stdout=subprocess.PIPE) as process:
        lines, among = [], False
        for line in process.stdout:
            among |= line == b'  "connections": [\n'
            if not among:
                lines.append(line)
            among &= line != b"  ],\n"
    demand(process.returncode in code, f"report ended with {process.returncode}, not {code}")
    return json.loads(b"".join(lines))


def columns(path, table, names, scratch):
    """Columns of a table as words, row by row; what is absent is empty."""
    out = Path(scratch) / f"{table}.csv"
    whylat("report", "--format", "csv", "--table", table, "-o", out, "--force", path, code=(0, 3))
    return _columns(out, names)


def _columns(out, names):
    with out.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, strict=True)
        header = next(rows)
        places = [header.index(name) for name in names]
        for row in rows:
            yield tuple(row[place] for place in places)


def rows_read(path, table):
    """How many rows of a table a reader gets."""
    out = whylat("report", "--format", "csv", "--table", table, path, code=(0, 3)).decode()
    return sum(1 for _ in csv.reader(io.StringIO(out, newline=""), strict=True)) - 1


def promised(manifest):
    """Segments that whole lines of a manifest promise, by table and file: its last merge, and what came later."""
    tables = {}
    for written in manifest.split(b"\n")[:-1]:
        line = json.loads(written)
        if merged := line.get("merged"):
            tables[merged["table"]] = {merged["file"]: merged}
        elif segment := line.get("segment"):
            tables.setdefault(segment["table"], {})[segment["file"]] = segment
    return tables


def _is_whole(path, segment):
    return path.is_file() and path.stat().st_size == segment["bytes"]


def demand_promised(path, answer):
    """Of every table a reader gets what the manifest promises, but for files that are not there: each is named in the
    answer, with its rows. Gives the rows of each table, and these files.
    """
    rows, gone = {}, []
    left_out = {part["table"]: part["rows"] for part in answer.get("left_out", [])}
    for table, files in promised((path / "manifest.jsonl").read_bytes()).items():
        missing = {name: it["rows"] for name, it in files.items() if not _is_whole(path / name, it)}
        there = sum(it["rows"] for it in files.values()) - sum(missing.values())
        rows[table] = rows_read(path, table)
        demand(rows[table] == there, f"{rows[table]} rows of {table}, and {there} were promised and are there")
        reported = left_out.get(table, 0)
        demand(reported == sum(missing.values()), f"{reported} rows of {table} are reported as left out, not {missing}")
        gone += missing
    for name in gone:
        demand(any(name in problem for problem in answer["problems"]), f"{name} is not there, and nothing says so")
    demand(len(answer["problems"]) == len(gone), f"not there: {gone}; reported: {answer['problems']}")
    return rows, gone


def account(answer, probe):
    """The account of one probe."""
    return next(loss for loss in answer["loss"] if loss["probe"] == probe)


def demand_identity(answer):
    """Every record is accounted for, of every probe. Gives how many were produced and lost."""
    demand(answer["loss"], "no account of anything")
    for loss in answer["loss"]:
        demand(loss["residual"] == 0, f"unaccounted for: {loss}")
    return sum(loss["produced"] for loss in answer["loss"]), sum(loss["lost_total"] for loss in answer["loss"])


class Netns:
    """A network namespace with loopback; it ends with its last process."""

    def __init__(self):
        holder = "ip link set lo up && echo up && exec sleep 100000"
        command = ["unshare", "--net", "sh", "-c", holder]
        self.process = subprocess.Popen(bind_to_thread(command), stdout=subprocess.PIPE)
        demand(self.process.stdout.readline() == b"up\n", "no network namespace")
        self.path = f"/proc/{self.process.pid}/ns/net"
        self.fd = os.open(self.path, os.O_RDONLY)
        self.inode = os.fstat(self.fd).st_ino

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        self.process.kill()
        self.process.wait()


class Workload:
    """A role of `whylat lab workload`; `truth` is what it says at its end."""

    def __init__(self, *words, netns=None, name=None, start_on_stdin=False):
        command = [str(name or WHYLAT), "lab", "workload", "--limit-s", "3600"]
        command += ["--start-on-stdin"] * start_on_stdin + [str(word) for word in words]
        self.process = subprocess.Popen(bind_to_thread(command, netns), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid

    def port(self):
        """Waits until it is ready, and gives its port."""
        return json.loads(self.process.stdout.readline())["ready"]

    def go(self):
        """Starts it, if it waits for that."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def truth(self):
        """Returns its own counts, once it has ended."""
        out, _ = self.process.communicate(timeout=3600)
        demand(self.process.returncode == 0, f"a workload ended with {self.process.returncode}")
        return json.loads(out.splitlines()[-1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


class Recorder:
    """`whylat record`, from when everything is attached."""

    def __init__(self, *words, scratch, name="r.whylat", env=None, ready=True):
        self.path = Path(scratch) / name
        self.log = Path(scratch) / f"{name}.log"
        flag = Path(scratch) / f"{name}.ready"
        command = [str(WHYLAT), "record", *[str(word) for word in words]]
        command += ["-o", str(self.path), "--ready-file", str(flag)]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                bind_to_thread(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                env={**os.environ, **(env or {})},
            )
        self.pid = self.process.pid
        if ready:
            until("the recorder ready", lambda: flag.exists() or self._ended())

    def _ended(self):
        if self.process.poll() is not None:
            raise Wrong(f"the recorder ended with {self.process.returncode}: {self.log.read_text()[-800:]}")

    def signal(self, number):
        """Signals it."""
        self.process.send_signal(number)

    def stop(self, code=(0, 3)):
        """Ends it as Ctrl-C does; gives its exit code."""
        self.signal(signal.SIGINT)
        return self.wait(code)

    def wait(self, code=(0, 3)):
        """Waits for its end; gives its exit code."""
        ended = self.process.wait(timeout=LONGEST)
        output = self.log.read_text(errors="replace")
        demand(code is None or ended in code, f"the recorder ended with {ended}, not {code}: {output[-800:]}")
        demand("panicked" not in output, f"the recorder panicked: {output[-800:]}")
        return ended

    def resident_bytes(self):
        """Resident memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise Wrong("the recorder is gone")

    def descriptors(self):
        """Open files."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Sampler:
    """Calls a function again and again in a thread, while in the `with` block, and keeps what it gave."""

    def __init__(self, function, every_s=0.2):
        self.function, self.every_s = function, every_s
        self.values, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self.over.wait(self.every_s):
            with contextlib.suppress(Exception):
                self.values.append((time.monotonic(), self.function()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@contextlib.contextmanager
def scratch(memory=False):
    """A temporary directory; in memory, if that is asked for."""
    place = "/dev/shm" if memory else None
    with tempfile.TemporaryDirectory(prefix="whylat-faults-", dir=place) as directory:
        yield Path(directory)


def thousands(number):
    """With commas."""
    return f"{number:,}"


def refuse_without_root():
    """Recording needs root."""
    if os.geteuid() != 0:
        sys.exit("error: the fault tests record\nhint: sudo make faults")
    if not WHYLAT.exists():
        sys.exit(f"error: {WHYLAT} is not there\nhint: make build")
