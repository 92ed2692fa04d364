"""Disks that fail, are slow, or lose power. `disk.c` is between whylat and its files; see there."""

import errno
import re
import shutil
import subprocess
import threading
from pathlib import Path

from harness import (
    HERE,
    WHYLAT,
    Netns,
    Recorder,
    Sampler,
    FaultRow,
    Workload,
    demand,
    demand_identity,
    demand_promised,
    finish,
    promised,
    report,
    scratch,
    thousands,
    whylat,
)

# Where an error may come in the run of operations: sparse later, as all that follows is alike.
FEW_FIRSTS = (1, 2, 3, 4, 6, 9, 14, 21, 33, 60, 95, 130)
MANY_FIRSTS = range(1, 221)

# The rate of the issue: a disk that takes 1 MB/s.
SLOW_BYTES_PER_S = 1_000_000
# The recorder's own threads may hold this much: 32 batches under way to the disk, the rings, and what it resolves
# names with (docs/benchmarks.md has what it uses without a fault).
BUDGET_BYTES = 400 << 20


def _shim(place):
    library = place / "disk.so"
    source = HERE / "disk.c"
    finish("cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread")
    return library


def _env(library, root, **words):
    return {"LD_PRELOAD": str(library), "DISK_ROOT": str(root), **{name: str(word) for name, word in words.items()}}


def write_errors(options):
    """EIO and ENOSPC at the n-th operation, once or again and again: every recording that was begun is read."""
    firsts = MANY_FIRSTS if options.whole else FEW_FIRSTS
    cases = [(first, every, number) for first in firsts for every in (0, 1, 3) for number in (errno.EIO, errno.ENOSPC)]
    if not options.whole:
        cases = cases[::5]
    with scratch() as place, Netns() as netns:
        library = _shim(place)
        with Workload("reply-server", netns=netns) as server:
            port = server.port()
            rounds = ["request-reply", "--connect", f"127.0.0.1:{port}", "--rounds", 100_000_000, "--pause-us", 500]
            with Workload(*rounds, netns=netns):
                judge = Judge(place, library, port)
                judge.all(cases)
    seen = f"{len(cases)} recordings: {judge.summary()}; all rows that manifests promise are read, residual 0"
    done = "EIO or ENOSPC at operation n, once, every third, or for good"
    return FaultRow("write errors", done, "documented exit code, earlier data readable, gap recorded", seen)


class Judge:
    """Records over disks that fail, several at a time, and judges what is left."""

    def __init__(self, place, library, port):
        self.place, self.library, self.port = place, library, port
        self.not_begun = self.counted = self.unharmed = self.open = self.untouched = 0
        self.lock, self.wrong = threading.Lock(), []

    def summary(self):
        """How many there were of each kind."""
        return (
            f"{self.not_begun} could not be begun (exit 1); {self.counted} count the rows that the disk refused, "
            f"{self.unharmed} lost no row, but a merge, a removal or a line of the manifest; {self.open} say that they "
            f"were not closed; each of these names the path that failed (exit 3 or 1); {self.untouched} ended before"
        )

    def all(self, cases):
        """Each case, four at a time: a recorder waits most of its life."""
        left = list(enumerate(cases))

        def work():
            while True:
                with self.lock:
                    if not left or self.wrong:
                        return
                    number, case = left.pop()
                try:
                    self.one(number, *case)
                except Exception as error:  # the main thread reports it
                    self.wrong.append(f"operation {case}: {error}")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        demand(not self.wrong, "; ".join(self.wrong[:3]))

    def one(self, number, first, every, error_number):
        """One recording of three seconds: two seals and the close."""
        name = f"r{number}"
        env = _env(self.library, self.place / name, DISK_FAIL=f"{first}:{every}:{error_number}")
        words = ["--port", self.port, "-d", 2.5]
        recorder = Recorder(*words, scratch=self.place, name=name, env=env, ready=False)
        code = recorder.wait(code=(0, 1, 3))
        output = recorder.log.read_text()
        if not (recorder.path / "manifest.jsonl").exists() or not (recorder.path / "manifest.jsonl").stat().st_size:
            demand(code == 1 and "hint:" in output, f"no recording, exit {code}: {output}")
            self.count("not_begun")
            return
        self.readable(recorder.path, code, output)
        shutil.rmtree(recorder.path)

    def readable(self, path, code, output):
        """Checks that the manifest's rows are read, and that losses are reported: by the account, or as a recording that
        was not closed. Without an error of the recorder, nothing is lost.
        """
        answer = report(path)
        rows, gone = demand_promised(path, answer)
        demand(not gone, f"promised and not there: {gone}")
        refused = re.findall(r"^error: (.+)$", output, re.MULTILINE)
        closed = answer["closed"] == "in_order"
        lost, refused_rows = _accounted(answer, rows) if closed else (0, 0)
        if closed and not refused:
            demand(lost == 0 and code == 0, f"exit {code}, {lost} lost without a word")
            self.count("untouched")
            return
        demand(code in (1, 3), f"exit {code} though it says: {output}")
        demand(refused, f"not closed, exit {code}, and not a word why: {output}")
        demand(str(path) in refused[0] and "hint: " in output, f"it does not say what failed: {output}")
        if not closed:
            _demand_reported_open(path, rows)
        self.count("open" if not closed else "counted" if refused_rows else "unharmed")

    def count(self, what):
        """One more of these."""
        with self.lock:
            setattr(self, what, getattr(self, what) + 1)


def _accounted(answer, rows):
    """Every record is accounted for, and a reader gets what the account calls stored. Gives how many were lost, and how
    many of them because the disk refused.
    """
    _, lost = demand_identity(answer)
    stored, read = sum(probe["stored"] for probe in answer["loss"]), sum(rows.values())
    demand(stored == read, f"{stored} rows are stored by the account, and {read} are read: {rows}")
    return lost, sum(probe["lost"].get("disk", 0) for probe in answer["loss"])


def _demand_reported_open(path, rows):
    """A recording that was not closed says so: in the answer, by the exit code, and when `recover` closes it, by which
    no row is lost.
    """
    answer = report(path, code=(3,))
    demand(answer["closed"] == "not_closed", f"it is {answer['closed']}")
    printed = whylat("recover", path, code=(3,)).decode()
    demand("the end may be missing" in printed, f"recovered without a word of what is missing: {printed}")
    whylat("validate", path, code=(3,))
    answer = report(path)
    demand(answer["closed"] == "recovered", f"recovered, it is {answer['closed']}")
    again, _ = demand_promised(path, answer)
    demand(again == rows, f"{rows} rows before it was recovered, {again} after")


def slow_disk(options):
    """A disk of 1 MB/s under more calls than it takes: memory is bounded, and the account is exact."""
    sends = 2_000_003 if options.whole else 400_009
    with scratch() as place, Netns() as netns:
        env = _env(_shim(place), place / "r.whylat", DISK_RATE=SLOW_BYTES_PER_S)
        with Workload("count-calls", "--sends", sends, "--empty-reads", 1, netns=netns, start_on_stdin=True) as calls:
            calls.port()
            with Recorder("-p", calls.pid, "--detail", "waits", scratch=place, env=env) as recorder:
                with Sampler(recorder.resident_bytes) as resident:
                    calls.go()
                    truth = calls.truth()
                recorder.stop()
        answer = report(recorder.path)
        demand_identity(answer)
        made = truth["send_calls"] + truth["recv_calls"]
        account = next(loss for loss in answer["loss"] if loss["probe"] == "calls")
        demand(account["produced"] == made, f"{account['produced']} of {made} calls")
        most = max(value for _, value in resident.values)
        demand(most <= BUDGET_BYTES, f"{most >> 20} MB resident")
    lost = thousands(account["lost_total"])
    seen = f"{thousands(made)} calls, {lost} lost (ring full), residual 0; {most >> 20} MB resident"
    return FaultRow(
        "slow disk", "every write takes its bytes at 1 MB/s", f"RSS ≤ {BUDGET_BYTES >> 20} MB, residual 0", seen
    )


class Crash:
    """The file system after a power cut: only what was synced is certain.

    Two readings of what POSIX promises: all operations reached the disk in order, or only what was synced did: a file's
    bytes by a sync of the file, its name by a sync of the directory.
    """

    def __init__(self):
        self.now, self.kept = {}, {}  # names → files
        self.data, self.synced = {}, {}  # files → bytes
        self.directories = set()
        self.next = 0

    def apply(self, what, path, other, at, data):
        """One operation of the log."""
        if what == "mkdir":
            self.directories.add(path)
        elif what == "create":
            if path not in self.now:
                self.now[path], self.data[self.next], self.synced[self.next] = self.next, bytearray(), b""
                self.next += 1
        elif what == "write":
            file = self.data[self.now[path]]
            file[at : at + len(data)] = data
        elif what == "truncate":
            del self.data[self.now[path]][at:]
        elif what == "rename":
            self.now[other] = self.now.pop(path)
        elif what == "unlink":
            self.now.pop(path)
        elif path in self.now:  # sync
            file = self.now[path]
            self.synced[file] = bytes(self.data[file])
        else:
            self._sync_directory(path)

    def _sync_directory(self, path):
        def inside(name):
            return str(Path(name).parent) == path

        self.kept = {name: file for name, file in self.kept.items() if not inside(name)}
        self.kept.update({name: file for name, file in self.now.items() if inside(name)})

    def leave(self, root, strict, torn=0):
        """Writes what is left to `root`; gives the manifest's bytes that were synced, None without a manifest."""
        names, data = (self.kept, self.synced) if strict else (self.now, self.data)
        for directory in sorted(self.directories):
            (root / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for name, file in names.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            bytes_ = bytes(data[file])
            # of what was written after the last sync, a part may have arrived
            path.write_bytes(bytes_[: len(bytes_) - torn] if not strict and torn else bytes_)

    def acknowledged(self, manifest):
        """Returns the segments that the kernel reported to be on disk."""
        file = self.kept.get(manifest)
        return promised(self.synced[file]) if file is not None else {}


def _operations(log):
    """Reads the log of the shim."""
    with log.open("rb") as file:
        while head := file.readline():
            what, path, other, at, length = head.decode().rstrip("\n").split("\t")
            yield what, path, other, int(at), file.read(int(length))


def power_cut(options):
    """The power goes after every sync, and between: no segment that was acknowledged is lost."""
    with scratch(memory=True) as place, Netns() as netns:
        log, root = place / "log", place / "r.whylat"
        env = _env(_shim(place), root, DISK_LOG=log)
        with Workload("count-calls", "--sends", 20_011, netns=netns, start_on_stdin=True) as calls:
            calls.port()
            with Recorder("-p", calls.pid, scratch=place, env=env) as recorder:
                calls.go()
                calls.truth()
                recorder.stop(code=(0,))
        operations = list(_operations(log))
        syncs = [index for index, (what, *_) in enumerate(operations) if what == "sync"]
        step = 1 if options.whole else max(1, len(syncs) // 12)
        crash, checked, acknowledged = Crash(), 0, 0
        wanted = set(syncs[::step]) | {syncs[-1]}
        for index, operation in enumerate(operations):
            crash.apply(*operation)
            if index in wanted or (index - 1) in wanted:
                acknowledged = _check_crash(crash, place, root)
                checked += 2
        demand(acknowledged > 10, f"only {acknowledged} segments")
    seen = (
        f"{len(operations)} operations, {len(syncs)} syncs: {checked} states of the disk, 0 acknowledged segments lost"
    )
    done = "operations logged; disk rebuilt after a sync, and one later: all that was written, or only what was synced"
    return FaultRow("power cut", done, "0 acknowledged segments lost", seen)


def _check_crash(crash, place, root):
    """Both readings; gives how many segments were acknowledged."""
    known = crash.acknowledged(str(root / "manifest.jsonl"))
    for strict in (True, False):
        left = place / "left"
        crash.leave(left, strict)
        found = left / str(root).lstrip("/")
        if known:
            output = subprocess.run([WHYLAT, "validate", found], capture_output=True, text=True, check=False)
            demand(output.returncode in (0, 1, 3) and "panicked" not in output.stderr, f"{output.stderr[-400:]}")
            harmless = ("is not in the manifest", "was never sealed", "not closed", "every digest")
            bad = [
                line for line in output.stdout.splitlines() if ".parquet" in line and not any(w in line for w in harmless)
            ]
            demand(not bad, f"strict={strict}: {bad[:3]}")
            on_disk = promised((found / "manifest.jsonl").read_bytes())
            for table, files in known.items():
                newer = on_disk.get(table, {}).keys()
                gone = files.keys() - newer
                demand(not gone or len(newer) == 1, f"{table}: {gone} is gone")
        shutil.rmtree(left)
    return sum(len(files) for files in known.values())
