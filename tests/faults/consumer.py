"""The consumer of the rings stalls, is asked often, or runs out of memory; and recordings that are copied."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from agents import LOST, PORT, Agent, configure, dataset_rows, losses, scrape
from crowds import Crowd
from harness import (
    WHYLAT,
    Netns,
    Recorder,
    FaultRow,
    Workload,
    Wrong,
    account,
    demand,
    demand_identity,
    demand_promised,
    inside,
    promised,
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
    return FaultRow("consumer stopped", f"SIGSTOP for {STOPPED_S} s", "≥ 1 M events/s, residual 0", seen)


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
            until("sealed calls", lambda: _sealed_calls(recorder.path))
            rows, missing = 0, []
            for number in range(copies):
                copy = place / f"copy-{number}"
                with contextlib.suppress(shutil.Error):  # what was renamed meanwhile
                    shutil.copytree(recorder.path, copy)
                of_copy, gone = _check_copy(copy)
                rows, missing = rows + of_copy, missing + gone
                time.sleep(0.05)
            whylat("report", recorder.path, code=(3,))
            recorder.stop()
    demand(rows > 0, "no copy had a row")
    seen = (
        f"{copies} copies: each says that it was not closed; the rows of its manifest are read, {thousands(rows)} in "
        f"all, but for {len(missing)} files that were sealed after their folder was copied: each is named with its rows"
    )
    return FaultRow("copy of a live recording", f"{copies} plain copies", "flagged; reads to the last commit", seen)


def _sealed_calls(path):
    """Sealed rows of `calls`, by the manifest."""
    manifest = (path / "manifest.jsonl").read_bytes()
    return sum(segment["rows"] for segment in promised(manifest).get("calls", {}).values())


def _check_copy(copy):
    """Rows that are read of a copy, and files that its manifest names and it has not: the manifest may be copied after
    their folder.
    """
    answer = report(copy, code=(3,))
    demand(answer["closed"] == "not_closed", f"a copy is {answer['closed']}")
    rows, gone = demand_promised(copy, answer)
    return sum(rows.values()), gone


# What was recorded is sealed by then, s: what CPUs hold back is collected every second and sealed after two
# (FLUSH_EVERY_NS in crates/record/src/session/mod.rs, `segment_ns` in crates/table/src/write.rs).
SEALED_WITHIN_S = 4
# Connections that are too many for an agent that stalls, or has no memory: each leaves some kB, and the ring has
# 4 MB (`records` in crates/probe/src/bpf/ring.h).
LOSING_FLOWS = 12_000
INTERVAL_S = 2


def status_reads(options):
    """A recorder with lost records is read again and again: the count stays, and nothing more is lost."""
    reads = 1000 if options.whole else 60
    with scratch() as place, Netns() as netns:
        of_recorder = _recorder_is_read(place, netns, reads)
        of_agent = _agent_is_read(place, netns, reads)
    done = f"`whylat validate` of a live recording, `/metrics` of an agent, both after losses: {thousands(reads)} times"
    return FaultRow("loss counters read", done, "unchanged", f"{of_recorder}; {of_agent}")


def _recorder_is_read(place, netns, reads):
    """The loss is known before by what is sealed of the calls that were made, and afterwards by the account."""
    named = place / "wl-calls-19"
    named.symlink_to(WHYLAT)
    with Recorder("--comm", named.name, "--detail", "calls", scratch=place) as recorder:
        recorder.signal(signal.SIGSTOP)
        made = _calls_made("--pairs", os.cpu_count(), "--sends", 4001, "--empty-reads", 499, netns=netns, name=named)
        recorder.signal(signal.SIGCONT)
        before = made - _settled(lambda: _sealed_calls(recorder.path))
        demand(before > 0, "nothing was lost, so that the test proves nothing")
        for _ in range(reads):
            whylat("validate", recorder.path, code=(3,))
        after = made - _sealed_calls(recorder.path)
        demand(after == before, f"{before} calls were lost before the reads, {after} after them")
        more = _calls_made("--sends", 10_007, netns=netns, name=named)
        recorder.stop(code=(3,))
    answer = report(recorder.path)
    demand_identity(answer)
    calls = account(answer, "calls")
    demand(calls["produced"] == made + more, f"{calls['produced']} calls seen, {made + more} made")
    lost = calls["lost_total"]
    demand(lost == before, f"{before} calls were lost before the reads, {lost} in the end")
    seen = f"{thousands(before)} of {thousands(made)} calls lost before and after, 0 of {thousands(more)} later ones"
    return f"recorder: {seen}"


def _calls_made(*words, **where):
    """Makes calls, and says how many."""
    with Workload("count-calls", *words, **where) as calls:
        truth = calls.truth()
    return truth["send_calls"] + truth["recv_calls"]


def _settled(number):
    """The number, once it has been there and the same for so long that all is sealed."""
    last, since = number(), time.monotonic()

    def is_settled():
        nonlocal last, since
        if (now := number()) != last:
            last, since = now, time.monotonic()
        return last and time.monotonic() - since > SEALED_WITHIN_S

    until("all sealed", is_settled)
    return last


def _agent_is_read(place, netns, reads):
    """The counters are those that Prometheus reads. They have an interval's losses at its end."""
    own = place / "agent"
    (own / "dataset").mkdir(parents=True)
    configure(own, "read", own / "dataset", INTERVAL_S, f"127.0.0.1:{PORT}")
    with Agent(netns, own) as agent:
        agent.signal(signal.SIGSTOP)
        with Crowd("flows", LOSING_FLOWS, 64, netns=netns) as crowd:
            crowd.ready()
            crowd.go()
            demand(len(crowd.lines()) == LOSING_FLOWS, "not all connections were made")
        agent.signal(signal.SIGCONT)
        until("the agent's loss counted", lambda: inside(netns, scrape)[LOST] > 0)
        _next_interval(netns)
        before = losses(inside(netns, scrape))
        pages = inside(netns, lambda: [scrape() for _ in range(reads)])
        _next_interval(netns)
        pages.append(inside(netns, scrape))
        changed = [found for found in map(losses, pages) if found != before]
        demand(not changed, f"{before} before, then {changed[:1]}")
        agent.signal(signal.SIGTERM)
        demand(agent.wait() == 0, f"the agent failed: {agent.log.read_text()[-800:]}")
    return f"agent: {thousands(int(before[LOST]))} records lost before and in each of {thousands(reads)} pages"


def _next_interval(netns):
    """Waits until an interval that is under way now has ended."""

    def intervals():
        return inside(netns, scrape)["whylat_agent_intervals_total"]

    now = intervals()
    until("the next interval", lambda: intervals() > now)


MEMORY = Path("/sys/fs/cgroup/memory")
UNIFIED = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group of our own, of either version, with little memory. Its processes have ended when it does."""

    def __init__(self):
        is_old = MEMORY.is_dir()
        self.path = (MEMORY if is_old else UNIFIED) / f"whylat-faults-{os.getpid()}"
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if is_old else ("memory.max", "memory.current")
        self.limit, self.usage = (self.path / name for name in names)
        # what is swapped out does not count
        self.swap, self.unlimited = ("memory.swappiness", "-1") if is_old else ("memory.swap.max", "max")
        self.lowest = None

    def __enter__(self):
        try:
            self.path.mkdir()
            self.lift()
        except OSError as error:
            raise Wrong(f"cannot limit memory: {error}") from None
        with contextlib.suppress(OSError):  # where there is no swap there may be no such file
            (self.path / self.swap).write_text("0")
        return self

    def __exit__(self, *_):
        until("the control group empty", lambda: not (self.path / "cgroup.procs").read_text().strip())
        self.path.rmdir()

    def put(self, pid):
        """Moves a process there; what it holds stays charged where it was."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def lift(self):
        """No limit any more."""
        self.limit.write_text(self.unlimited)
        self.lowest = None

    def squeeze(self):
        """Lowers the limit to what is used now; never raises it."""
        with contextlib.suppress(OSError):  # more is used by now
            used = int(self.usage.read_text())
            if self.lowest is None or used < self.lowest:
                self.limit.write_text(str(used))
                self.lowest = used


def _demand_killed(process, squeeze):
    """Lowers the limit until the kernel kills the process."""
    until("the limit hit", lambda: squeeze() or process.poll() is not None)
    demand(process.returncode == -signal.SIGKILL, f"ended with {process.returncode}")


def memory_limit(options):
    """A memory limit kills an agent, which is started again, and a recorder: what each had stored is there."""
    with scratch() as place, Netns() as netns:
        of_agent = _agent_is_killed(place, netns)
        of_recorder = _recorder_is_killed(place, netns)
    done = "own control group, limit lowered until the kernel kills: an agent, then started again; a recorder"
    threshold = "restarts, what was shipped or sealed kept, gap reported"
    return FaultRow("memory limit hit", done, threshold, f"{of_agent}; {of_recorder}")


def _agent_is_killed(place, netns):
    """As a unit with `MemoryMax=` and `Restart=`: the kernel kills the agent, and another goes on, with room again."""
    own = place / "agent"
    (own / "dataset").mkdir(parents=True)
    configure(own, "limited", own / "dataset", INTERVAL_S)
    server, client, _ = _exchange(netns, pause_us=50)
    with server, client, MemoryGroup() as group:
        with Agent(netns, own, extra=lambda: group.put(os.getpid())) as agent:
            for table in ("fleet_intervals", "fleet_coverage"):
                until(f"{table} shipped", lambda table=table: any(own.glob(f"dataset/{table}/*/*/*.parquet")))
            group.squeeze()
            with Crowd("flows", LOSING_FLOWS, 64, netns=netns) as crowd:
                crowd.ready()
                crowd.go()
                _demand_killed(agent.process, group.squeeze)
            killed_ns = time.time_ns()
        shipped = _shipped(own / "dataset")
        demand(shipped[0] and shipped[1], "nothing had been shipped, so that the test proves nothing")
        group.lift()
        again_ns = time.time_ns()
        with Agent(netns, own, extra=lambda: group.put(os.getpid())) as agent:
            ready_ns = time.time_ns()
            agent.signal(signal.SIGTERM)
            demand(agent.wait() == 0, f"the second agent failed: {agent.log.read_text()[-800:]}")
    coverage, intervals = _shipped(own / "dataset")
    gone = [set(before) - set(after) for before, after in zip(shipped, (coverage, intervals), strict=True)]
    demand(not any(gone), f"shipped before and not there: {gone}")
    gap_s = _demand_gap(coverage, killed_ns, again_ns, ready_ns)
    return (
        f"agent: killed by the kernel, started again; what was shipped is there ({len(shipped[0])} rows of "
        f"`fleet_coverage`, {len(shipped[1])} of `fleet_intervals`), and the coverage has one gap, of {gap_s:.1f} s"
    )


def _shipped(dataset):
    """Returns an agent's intervals, and the rows of connections in them."""
    coverage = dataset_rows(dataset, "fleet_coverage", "limited", ["begin_ns", "length_us", "lost", "dropped_files"])
    intervals = dataset_rows(dataset, "fleet_intervals", "limited", ["begin_ns", "conn_id", "writes", "written_bytes"])
    return coverage, intervals


def _demand_gap(coverage, killed_ns, again_ns, ready_ns):
    """Nobody says to have watched while there was no agent: the one gap between intervals is around that time, and ends
    when the second agent watches. Gives its length, s.
    """
    spans = [(begin_ns, begin_ns + length_us * 1000) for begin_ns, length_us, *_ in coverage]
    pairs = list(itertools.pairwise(spans))
    demand(all(end <= following for (_, end), (following, _) in pairs), f"intervals overlap: {spans}")
    gaps = [(end, following) for (_, end), (following, _) in pairs if end < following]
    demand(len(gaps) == 1, f"{len(gaps)} gaps: {gaps}")
    ((end_ns, begin_ns),) = gaps
    is_around = end_ns <= killed_ns and again_ns <= begin_ns <= ready_ns
    demand(is_around, f"a gap from {end_ns} to {begin_ns}; killed by {killed_ns}, again {again_ns} to {ready_ns}")
    return (begin_ns - end_ns) / 1e9


def _recorder_is_killed(place, netns):
    """Its sealed rows are there, and the next recording is as any other."""
    server, client, port = _exchange(netns, pause_us=50)
    with server, client:
        with Recorder("--port", port, scratch=place) as recorder:
            until("sealed calls", lambda: _sealed_calls(recorder.path))
            with MemoryGroup() as group:
                # what it holds was charged elsewhere; a limit below what it still needs is hit by what it allocates
                group.put(recorder.pid)
                _demand_killed(recorder.process, lambda: _squeeze(group.limit))
        answer = report(recorder.path, code=(3,))
        demand(answer["closed"] == "not_closed" and not answer["problems"], f"{answer['closed']}: {answer['problems']}")
        rows, _ = demand_promised(recorder.path, answer)
        whylat("recover", recorder.path, code=(3,))
        whylat("validate", recorder.path, code=(3,))
        kept, _ = demand_promised(recorder.path, report(recorder.path))
        demand(kept == rows, f"{rows} rows before it was recovered, {kept} after")
        with Recorder("--port", port, scratch=place, name="again.whylat") as again:
            again.stop()
        demand(report(again.path)["closed"] == "in_order", "the second recording is not closed")
    return f"recorder: killed by the kernel; all {thousands(sum(rows.values()))} sealed rows; reported as `not closed`"


def _squeeze(limit):
    """Lowers the limit to next to nothing."""
    with contextlib.suppress(OSError):
        limit.write_text(str(1 << 20))


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
    return FaultRow("SIGKILL: sysctls", "`sysctl -a` before and after", "unchanged", f"{len(before)} values unchanged")
