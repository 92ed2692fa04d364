"""The consumer of the rings stands still, is asked often, or runs out of memory; and recordings that are copied."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from harness import (
    WHYLAT,
    Netns,
    Recorder,
    Seen,
    Workload,
    Wrong,
    account,
    columns,
    demand,
    demand_identity,
    report,
    scratch,
    thousands,
    until,
    whylat,
)

STOPPED_S = 5
# A call leaves a record; a message's sends and receives, and those on the empty socket.
LEAST_PER_S = 1_000_000


def stopped(options):
    """SIGSTOP for 5 s, while programs make more than a million calls a second."""
    with scratch() as place, Netns() as netns:
        named = place / "wl-calls-19"
        named.symlink_to(WHYLAT)
        with Recorder("--comm", named.name, "--detail", "calls", scratch=place) as recorder:
            recorder.signal(signal.SIGSTOP)
            start, made = time.monotonic(), 0
            while time.monotonic() - start < STOPPED_S:
                words = ["count-calls", "--pairs", os.cpu_count(), "--sends", 4001, "--empty-reads", 499]
                with Workload(*words, netns=netns, name=named) as calls:
                    truth = calls.truth()
                made += truth["send_calls"] + truth["recv_calls"]
            per_s = made / (time.monotonic() - start)
            recorder.signal(signal.SIGCONT)
            recorder.stop(code=(3,))
        answer = report(recorder.path)
        demand_identity(answer)
        calls = account(answer, "calls")
        demand(calls["produced"] == made, f"{calls['produced']} calls seen, {made} made")
        demand(calls["lost_total"] > 0, "nothing was lost, so that the test proves nothing")
        rate = f"{per_s / 1e6:.2f} M calls/s"
        demand(per_s >= LEAST_PER_S or options.loaded, f"only {rate}")
        seen = f"{rate}: {thousands(made)} made, {thousands(calls['lost_total'])} lost (ring full), residual 0"
    return Seen("consumer stopped", f"SIGSTOP for {STOPPED_S} s", "≥ 1 M events/s, residual 0", seen)


def _exchange(netns, pause_us=300):
    server = Workload("reply-server", netns=netns)
    port = server.port()
    words = ["request-reply", "--connect", f"127.0.0.1:{port}", "--rounds", 100_000_000, "--pause-us", pause_us]
    return server, Workload(*words, netns=netns), port


def live_copies(options):
    """A recording is copied file by file while it is written."""
    copies = 60 if options.whole else 12
    with scratch() as place, Netns() as netns:
        server, client, port = _exchange(netns)
        with server, client, Recorder("--port", port, scratch=place) as recorder:
            until("sealed calls", lambda: b'"calls/' in (recorder.path / "manifest.jsonl").read_bytes())
            rows = 0
            for number in range(copies):
                copy = place / f"copy-{number}"
                with contextlib.suppress(shutil.Error):  # what was renamed meanwhile
                    shutil.copytree(recorder.path, copy)
                rows += _check_copy(copy, place)
                time.sleep(0.05)
            whylat("report", recorder.path, code=3)
            recorder.stop()
    demand(rows > 0, "no copy had a row")
    seen = f"{copies} copies: each says that it was not closed, and has all rows of its manifest"
    return Seen("copy of a live recording", f"{copies} plain copies", "flagged; reads to the last commit", seen)


def _promised(path):
    """Rows of each table, by the whole lines of the manifest alone."""
    rows = {}
    for line in (path / "manifest.jsonl").read_bytes().split(b"\n")[:-1]:
        segment = json.loads(line).get("segment")
        if segment:
            rows[segment["table"]] = rows.get(segment["table"], 0) + segment["rows"]
    return rows


def _check_copy(copy, place):
    # files first and the manifest last, or the other way round: the copy may promise what it has not
    promised = _promised(copy)
    missing = [name for name in promised if not (copy / name).is_dir()]
    answer = report(copy, code=(3,))
    demand(answer["closed"] == "not_closed", f"a copy is {answer['closed']}")
    have = sum(len(list((copy / name).glob("*.parquet"))) for name in promised if name not in missing)
    lines = (copy / "manifest.jsonl").read_bytes().count(b'{"segment"')
    demand(have >= lines or answer["problems"], "a copy lacks files and does not say so")
    if answer["problems"]:
        return 0
    rows = len(columns(copy, "calls", ["conn"], place)) if "calls" in promised else 0
    demand(rows == promised.get("calls", 0), f"{rows} rows of {promised.get('calls')}")
    return rows


def status_reads(options):
    """Reading a recording while it is written changes no count: of the calls that are made afterwards, none is lost."""
    reads = 1000 if options.whole else 60
    with scratch() as place, Netns() as netns:
        with Workload("count-calls", "--sends", 10_007, netns=netns, start_on_stdin=True) as calls:
            calls.port()
            with Recorder("-p", calls.pid, scratch=place) as recorder:
                for _ in range(reads):
                    whylat("validate", recorder.path)
                calls.go()
                truth = calls.truth()
                recorder.stop(code=(0,))
        answer = report(recorder.path)
        _, lost = demand_identity(answer)
        made = truth["send_calls"] + truth["recv_calls"]
        produced = account(answer, "calls")["produced"]
        demand((lost, produced) == (0, made), f"{lost} lost, {produced} of {made} calls")
    seen = f"{thousands(reads)} reads; then {thousands(made)} calls, each stored, 0 lost"
    return Seen(
        "loss counters read", f"`whylat validate` of the live recording × {thousands(reads)}", "unchanged", seen
    )


MEMORY = Path("/sys/fs/cgroup/memory")
UNIFIED = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def _limited_group(limit_bytes):
    """A control group of our own with that much memory; of either version."""
    own = MEMORY if MEMORY.is_dir() else UNIFIED
    group = own / f"whylat-faults-{os.getpid()}"
    try:
        group.mkdir()
        name = "memory.limit_in_bytes" if own == MEMORY else "memory.max"
        (group / name).write_text(str(limit_bytes))
    except OSError as error:
        raise Wrong(f"cannot limit memory: {error}") from None
    try:
        yield group
    finally:
        until("the control group empty", lambda: not (group / "cgroup.procs").read_text().strip())
        group.rmdir()


def memory_limit(options):
    """A memory limit that the recorder hits kills it; what it had sealed is there, and it can start again."""
    with scratch() as place, Netns() as netns:
        server, client, port = _exchange(netns, pause_us=50)
        with server, client:
            with Recorder("--port", port, scratch=place) as recorder:
                until("sealed calls", lambda: b'"calls/' in (recorder.path / "manifest.jsonl").read_bytes())
                limit = recorder.resident_bytes()
                with _limited_group(limit * 2) as group:
                    (group / "cgroup.procs").write_text(str(recorder.pid))
                    # what it holds was charged elsewhere; a limit below what it still needs is hit by what it allocates
                    name = "memory.limit_in_bytes" if MEMORY.is_dir() else "memory.max"
                    until("the limit hit", lambda: _squeeze(group / name, recorder))
                    recorder.process.wait(timeout=60)
            killed = recorder.process.returncode
            demand(killed == -signal.SIGKILL, f"ended with {killed}")
            promised = _promised(recorder.path)
            answer = report(recorder.path, code=(3,))
            demand(answer["closed"] == "not_closed" and not answer["problems"], f"{answer['problems']}")
            rows = len(columns(recorder.path, "calls", ["conn"], place))
            demand(rows == promised["calls"], f"{rows} rows of {promised['calls']}")
            whylat("recover", recorder.path)
            whylat("validate", recorder.path)
            with Recorder("--port", port, scratch=place, name="again.whylat") as again:
                again.stop()
            demand(report(again.path)["closed"] == "in_order", "the second recording is not closed")
    seen = (
        f"killed by the kernel; {thousands(rows)} rows of calls, all that were sealed; the gap is told as `not closed`"
    )
    return Seen(
        "memory limit hit",
        "own control group, limit lowered until the kernel kills",
        "restarts, sealed rows kept",
        seen,
    )


def _squeeze(limit, recorder):
    """Lowers the limit to next to nothing; whether the recorder is dead."""
    with contextlib.suppress(OSError):
        limit.write_text(str(1 << 20))
    return recorder.process.poll() is not None


def _sysctls():
    """All of `net`, `kernel` and `vm` that can be read and does not count by itself."""
    counting = ("random", "ns_last_pid", "file-nr", "inode-", "dentry-state", "nf_conntrack_count", "stat_refresh")
    values = subprocess.run(["sysctl", "-a"], capture_output=True, text=True, check=False).stdout.splitlines()
    return {line for line in values if not any(word in line for word in counting)}


def leftovers(options):
    """A killed recorder changes no sysctl. Programs, links, maps, pins and namespaces: tests/kernel/survive.rs."""
    with scratch() as place:
        before = _sysctls()
        with Recorder("-a", scratch=place) as recorder:
            recorder.signal(signal.SIGKILL)
            recorder.process.wait()
        changed = before.symmetric_difference(_sysctls())
    demand(not changed, f"changed: {sorted(changed)[:5]}")
    return Seen("SIGKILL: sysctls", "`sysctl -a` before and after", "unchanged", f"{len(before)} values unchanged")
