"""More of everything than there is room for: processes, connections, namespaces."""

import bisect
import collections
import dataclasses
import subprocess
import sys
import time

from harness import (
    HERE,
    Netns,
    Recorder,
    Sampler,
    FaultRow,
    Workload,
    Wrong,
    account,
    columns,
    demand,
    demand_identity,
    report,
    report_but_connections,
    scratch,
    thousands,
)

CROWD = HERE / "crowd.py"

# No crowd takes longer than this to do its work, s; the longest works for an hour.
LONGEST_CROWD = 3900


class Crowd:
    """A program of `crowd.py`, in a namespace; `lines` is its result."""

    def __init__(self, *words, netns=None):
        command = [sys.executable, str(CROWD), *[str(word) for word in words]]
        if netns is not None:
            command = ["nsenter", f"--net=/proc/{netns.process.pid}/ns/net", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def ready(self):
        """Waits until it is; gives the rest of the line."""
        word, *rest = self.process.stdout.readline().split() or ["nothing, and ended"]
        demand(word == "ready", f"a crowd printed {word}")
        return rest

    def go(self):
        """Starts it."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def lines(self):
        """Its lines, once it has ended."""
        out, _ = self.process.communicate(timeout=LONGEST_CROWD)
        demand(self.process.returncode == 0, f"a crowd ended with {self.process.returncode}")
        return [line.split() for line in out.splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


# `/proc` counts in it, on every architecture that BPF supports (USER_HZ, include/uapi/asm-generic/param.h).
TICK_NS = 10_000_000
# The recorder takes the time for which the host was suspended as it was until it changes by more (SAME_OFFSET_NS in
# crates/probe/src/processes/facts.rs).
SAME_START_NS = 1_000_000


@dataclasses.dataclass
class Life:
    """One use of a pid, as its process knows it: its connection, its start, when it began to connect and had closed."""

    pid: int
    port: int
    name: str
    conn: int
    ticks: int
    before_ns: int
    after_ns: int

    @classmethod
    def of(cls, words):
        """Parses a line of the crowd."""
        pid, port, name, *numbers = words
        return cls(int(pid), int(port), name, *map(int, numbers))


def forks(options):
    """Processes come and go until pids are used again; each connection is of the process that made it."""
    count = 100_000 if options.whole else 600
    every = 50 if options.whole else 5
    with scratch() as place, Netns() as netns, Crowd("forks", count, every, netns=netns) as crowd:
        crowd.ready()
        with Recorder("-p", crowd.pid, "--detail", "waits", scratch=place) as recorder:
            crowd.go()
            lives = [Life.of(words) for words in crowd.lines()]
            recorder.stop()
        answer = report(recorder.path)
        demand_identity(answer)
        made = len(lives)
        demand(made == -(-count // every), f"{made} of {count} processes made a connection, not one in {every}")
        right = _attributed(answer, lives)
        started, read = _distinguished(recorder.path, place, lives)
    demand(right >= 0.99 * made, f"only {right} of {made} attributed")
    lost = _socket_records_lost(answer)
    demand(made - started <= lost, f"{made - started} of {made} processes are missing, and only {lost} records lost")
    demand(read > 0, "/proc had no process: none was read while it ran")
    uses = made / len({life.pid for life in lives})
    seen = (
        f"{thousands(count)} forks; each pid made {uses:.0f} connections, every other under the same name: {right} right, "
        f"0 wrong; {started} with the start of their process, {started - read} of them had ended before /proc was read"
    )
    done = f"{thousands(count)} forks; one in {every} makes a connection, with a pid used before (clone3, `set_tid`)"
    return FaultRow("pid reuse", done, "0 misattributed", seen)


def _attributed(answer, lives):
    """Checks each connection that a life made, found by its cookie: its process must be the one that made it. Returns
    how many are right. A connection without a process is not right; none may be wrong.
    """
    found, right, wrong = {it["id"]: it for it in answer["connections"]}, 0, []
    for life in lives:
        connection = found.get(life.conn)
        process = connection and connection["process"]
        if not process or process["comm"] is None:
            continue
        owner = (process["pid"], process["comm"], connection["local"])
        if owner == (life.pid, life.name, f"127.0.0.1:{life.port}"):
            right += 1
        else:
            wrong.append((owner, life))
    demand(not wrong, f"{len(wrong)} of {len(lives)} connections misattributed: {wrong[:3]}")
    return right


def _distinguished(path, place, lives):
    """Checks the recorded start of each life, to the tick that the life read itself. Returns how many lives have a row,
    and how many of these were read from `/proc`, too.
    """
    suspended_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    uses, started, read = _uses(path, place), 0, 0
    for life in lives:
        # of a pid's uses, the last that had begun when the connection was made
        of_pid = uses.get(life.pid, [])
        place_of = bisect.bisect_right(of_pid, life.before_ns, key=lambda use: use[0])
        begin_ns, is_read, comm = of_pid[place_of - 1] if place_of else (0, False, None)
        since_ns = begin_ns - (life.ticks * TICK_NS - suspended_ns)
        if since_ns < -SAME_START_NS:
            continue
        right = since_ns <= TICK_NS + SAME_START_NS and comm == life.name
        demand(right, f"{life} began {since_ns} ns before what the recording has of {comm}: {begin_ns} ns")
        started, read = started + 1, read + is_read
    return started, read


def _uses(path, place):
    """Uses of each pid, the first first: when it began; whether it was read from `/proc`, too; its last name."""
    rows = columns(path, "processes", ["pid", "started_ns", "time_ns", "exe", "comm"], place)
    rows = sorted((*(int(number or 0) for number in row[:3]), bool(row[3]), row[4]) for row in rows)
    uses, before = collections.defaultdict(list), (0, 0, None)
    for pid, started_ns, _, is_read, comm in rows:
        demand(started_ns, f"process {pid} ({comm}) has no start")
        same = pid == before[0] and started_ns - before[1] <= TICK_NS
        demand(not same or comm != before[2], f"process {pid} ({comm}) of {started_ns} ns has two rows")
        if same:
            uses[pid].pop()
        uses[pid].append((started_ns, is_read, comm))
        before = (pid, started_ns, comm)
    return uses


def flows(options):
    """Short connections that use few ports again and again, in three namespaces with the same addresses."""
    count = 1_000_000 if options.whole else 12_000
    each = count // 3
    with scratch() as place, Netns() as a, Netns() as b, Netns() as c:
        netnses = (a, b, c)
        crowds = [Crowd("flows", each, 64, netns=netns) for netns in netnses]
        for crowd in crowds:
            crowd.ready()
        targets = [word for crowd in crowds for word in ("-p", crowd.pid)]
        with Recorder(*targets, "--detail", "calls", scratch=place) as recorder:
            for crowd in crowds:
                crowd.go()
            output = [crowd.lines() for crowd in crowds]
            recorder.stop()
        answer = report_but_connections(recorder.path)
        demand_identity(answer)
        lost = _socket_records_lost(answer)
        truth = _truth(netnses, output)
        ends, missing = _merged(recorder.path, place, truth)
    demand(len(truth) == 3 * each, f"{len(truth)} connections were made, and {3 * each} were wanted")
    # a socket is missing when every record of it was lost
    demand(missing <= lost, f"{missing} sockets are missing, and only {lost} records counted as lost")
    demand(missing < len(truth), "not one socket is recorded")
    # how many are lost, and counted, is a matter of how much of the machine there is
    if not (options.whole or options.loaded):
        demand(missing <= 0.01 * 3 * each, f"{missing} of {3 * each} sockets are missing")
    seen = (
        f"{thousands(len(truth))} connections: {thousands(ends)} ends recorded, 0 merged; {thousands(missing)} of the "
        f"clients' ends missing, {thousands(lost)} records of sockets lost and counted"
    )
    return FaultRow("short flows", "64 client ports, 3 namespaces, 127.0.0.1 in each", "0 merged", seen)


def _socket_records_lost(answer):
    """Records of sockets that were lost, by the account. That a map had no room for the other end of a connection is
    another loss: for it no socket of these tests is missing.
    """
    inventory = account(answer, "inventory")
    return inventory["lost_total"] - inventory["lost"].get("peers_full", 0)


def _truth(netnses, output):
    """Namespace and port of every connection that programs made, by its cookie."""
    truth = {}
    for netns, lines in zip(netnses, output, strict=True):
        for cookie, port in lines:
            truth[int(cookie)] = (netns.inode, int(port))
    demand(len(truth) == sum(len(lines) for lines in output), "cookies of the programs are not unique")
    return truth


def _merged(path, place, truth):
    """Every socket is one row group with one namespace and one pair of addresses, as its program knows it.

    Gives how many there are, and how many of the programs' own are missing.
    """
    ends = collections.defaultdict(set)
    for conn, netns, local, remote in columns(path, "connections", ["conn", "netns", "local", "remote"], place):
        ends[int(conn)].add((int(netns), local, remote))
    for conn, seen in ends.items():
        demand(len(seen) == 1, f"socket {conn} is {seen}")
        ((netns, local, _),) = seen
        if conn in truth:
            demand(
                (netns, int(local.rsplit(":", 1)[1])) == truth[conn], f"socket {conn}: {seen}, made as {truth[conn]}"
            )
    return len(ends), len(truth.keys() - ends.keys())


def namespaces(options):
    """A thousand network namespaces a minute are made, used and removed."""
    count = 1_000 if options.whole else 150
    with scratch() as place, Crowd("namespaces", count) as crowd:
        crowd.ready()
        with Recorder("-p", crowd.pid, "--detail", "calls", scratch=place) as recorder:
            start = time.monotonic()
            crowd.go()
            output = crowd.lines()
            took = time.monotonic() - start
            recorder.stop()
        answer = report(recorder.path)
        demand_identity(answer)
        truth = {int(cookie): int(inode) for cookie, inode in output}
        demand(len(truth) == count, f"{len(truth)} connections were made, and {count} were wanted")
        seen = collections.defaultdict(set)
        for conn, netns in columns(recorder.path, "connections", ["conn", "netns"], place):
            seen[int(conn)].add(int(netns or 0))
    recorded = [(seen[conn] - {0}, inode) for conn, inode in truth.items() if conn in seen]
    right = sum(known == {inode} for known, inode in recorded)
    unknown = sum(not known for known, _ in recorded)
    wrong = len(recorded) - right - unknown
    demand(wrong == 0, f"{wrong} of {len(recorded)} in another namespace")
    demand(len(recorded) >= 0.99 * count, f"only {len(recorded)} of {count} connections")
    rate = count / took * 60
    seen = (
        f"{thousands(count)} at {rate:,.0f} a minute: {right} connections right, {unknown} unknown, 0 wrong, "
        f"{count - len(recorded)} not recorded"
    )
    return FaultRow("namespaces", f"{thousands(count)} made and removed", "right or unknown, 0 wrong", seen)


# The largest map of the kernel side that holds one entry a connection (`peer_tuples` in inventory.bpf.h).
MAP_ENTRIES = 131_072
# Processes that share them: the limit of open files of one is often 20,000.
HOLDERS = 16
# All is right again so soon, s: the limit of the issue.
AGAIN_S = 10
ROUNDS = 211


def full_maps(options):
    """Twice as many connections as the largest map has entries; after they have gone, all is right again."""
    pairs = MAP_ENTRIES if options.whole else 6_000
    with scratch() as place, Netns() as netns:
        with Crowd("hold", pairs, HOLDERS, netns=netns) as crowd:
            port = crowd.ready()[0]
            with Recorder("--port", port, "--detail", "stats", "--poll-ms", 2000, scratch=place) as recorder:
                crowd.go()
                crowd.lines()
                gone = time.monotonic()
                exchanges = list(_exchanges(port, netns, gone + AGAIN_S))
                recorder.stop()
        answer = report_but_connections(recorder.path)
        demand_identity(answer)
        ends = [end for _, ends in exchanges for end in ends]
        found = _Found.of(recorder.path, place, netns, {end.conn for end in ends})
    kept, missing = found.others, 2 * pairs - found.others
    demand(missing >= 0, f"{kept} sockets are recorded, and there were {2 * pairs}")
    lost = _socket_records_lost(answer)
    # a socket is missing when every record of it was lost
    demand(missing <= lost, f"{missing} of {2 * pairs} sockets are missing, and only {lost} records counted as lost")
    full = _demand_counted_full(answer, 2 * pairs)
    took = _right_since(exchanges, found) - gone
    done = f"{thousands(2 * pairs)} sockets of one port at once"
    seen = (
        f"{thousands(kept)} recorded, {thousands(missing)} missing; counted: {thousands(lost)} lost records of sockets "
        f"and {thousands(full)} ends for which the map had no room; right again after {took:.1f} s: addresses, process "
        f"and bytes of both ends of an exchange, and of all later ones of {len(exchanges)}"
    )
    return FaultRow("more flows than a map holds", done, "counted; right again ≤ 10 s", seen)


def _demand_counted_full(answer, sockets):
    """Each socket without room in the full map is counted, and so is each that asked for no entry. Returns how many had
    no room."""
    lost = account(answer, "inventory")["lost"]
    full, unseen = lost.get("peers_full", 0), lost.get("no_memory", 0)
    unseen += account(answer, "tcp_events")["lost"].get("reentered", 0)
    over = sockets - MAP_ENTRIES
    demand(full + unseen >= over, f"{over} sockets more than the map has entries, {full} counted, {unseen} unseen")
    return full


@dataclasses.dataclass
class End:
    """One end of a known exchange, as its program knows it."""

    pid: int
    conn: int
    local: str
    remote: str
    sent: int
    received: int

    @classmethod
    def of(cls, workload):
        """Of a workload that has ended."""
        (it,) = workload.truth()["connections"]
        return cls(workload.pid, it["cookie"], it["local"], it["remote"], it["send"]["bytes"], it["recv"]["bytes"])


def _exchanges(port, netns, until_s):
    """Known exchanges over that port, one after the other until then: of each when it began, and its ends."""
    while (begun := time.monotonic()) < until_s:
        with Workload("reply-server", "--listen", f"127.0.0.1:{port}", netns=netns) as server:
            server.port()
            with Workload("request-reply", "--connect", f"127.0.0.1:{port}", "--rounds", ROUNDS, netns=netns) as client:
                yield begun, [End.of(client), End.of(server)]
        time.sleep(0.25)  # some forty of them


@dataclasses.dataclass
class _Found:
    """Returns the recorded rows of known sockets, and the number of other sockets."""

    others: int
    places: dict
    pids: dict
    names: dict
    bytes: dict

    @classmethod
    def of(cls, path, place, netns, known):
        """Of a recording; others are counted of one namespace."""
        places, pids, others = collections.defaultdict(set), {}, set()
        for conn, inode, *ends, pid in columns(path, "connections", ["conn", "netns", "local", "remote", "pid"], place):
            if int(conn) in known:
                places[int(conn)].add((int(inode) == netns.inode, *ends))
                # the last of repeated rows holds
                pids[int(conn)] = pid or pids.get(int(conn))
            elif int(inode) == netns.inode:
                others.add(int(conn))
        names = collections.defaultdict(set)
        for pid, comm in columns(path, "processes", ["pid", "comm"], place):
            names[pid].add(comm)
        counters, bytes_ = ["bytes_sent", "bytes_retrans", "bytes_received"], {}
        for conn, kind, *counts in columns(path, "tcp_samples", ["conn", "kind", *counters], place):
            if kind == "close" and int(conn) in known:
                bytes_[int(conn)] = [int(count) for count in counts]
        return cls(len(others), places, pids, names, bytes_)

    def is_right(self, end):
        """Whether it has this end: addresses, process and, as it closed, bytes. A FIN that came counts as a byte."""
        if self.places.get(end.conn) != {(True, end.local, end.remote)} or end.conn not in self.bytes:
            return False
        sent, again, received = self.bytes[end.conn]
        is_whole = sent - again == end.sent and received - end.received in (0, 1)
        pid = self.pids[end.conn]
        return is_whole and pid == str(end.pid) and self.names[pid] == {"whylat"}


def _right_since(exchanges, found):
    """When the first of the exchanges began from which on all are right."""
    right = [all(found.is_right(end) for end in ends) for _, ends in exchanges]
    since = len(right) - (right[::-1].index(False) if False in right else len(right))
    demand(since < len(right), f"of {len(right)} exchanges {sum(right)} are right, and not the last: {exchanges[-1:]}")
    return exchanges[since][0]


# After this share of the time memory is as large as the tables of names and the rings make it.
SETTLED = 0.4
# The limit of the issue: a megabyte an hour, above the spread of samples of a minute.
SLOPE_BYTES_PER_HOUR = 1 << 20


def churn(options):
    """Connections and programs come and go: memory and descriptors stay as they are."""
    seconds = options.minutes * 60
    with scratch() as place, Netns() as netns, Crowd("churn", seconds, netns=netns) as crowd:
        crowd.ready()
        with Recorder("-p", crowd.pid, "--detail", "waits", scratch=place) as recorder:
            before = recorder.descriptors()
            with Sampler(lambda: (recorder.resident_bytes(), recorder.descriptors()), every_s=0.5) as sampled:
                crowd.go()
                ((flows_made, execs),) = crowd.lines()
            values = sampled.values[: len(sampled.values)]
            recorder.stop()
        demand_identity(report(recorder.path))
    settled = values[int(len(values) * SETTLED) :]
    slope = _slope([(at, resident) for at, (resident, _) in settled])
    most_descriptors = max(open_ for _, (_, open_) in settled)
    grown = settled[-1][1][0] - settled[0][1][0]
    _demand_flat(slope, grown, seconds, [resident for _, (resident, _) in settled])
    demand(most_descriptors <= before + 64, f"{before} descriptors, then {most_descriptors}")
    seen = (
        f"{seconds / 60:g} min, {thousands(int(flows_made))} connections, {thousands(int(execs))} programs: "
        f"{grown / 1e6:+.1f} MB ({slope / 1e6:+.1f} MB/h), descriptors {before} → {most_descriptors} at most"
    )
    threshold = "memory and descriptors flat"
    return FaultRow("churn", "connections and programs that come and go", threshold, seen, options.minutes)


def _demand_flat(slope, grown, seconds, resident):
    """An hour shows a slope of 1 MB/h; a minute shows only that nothing is kept a connection (100 bytes of each)."""
    if seconds >= 3600:
        parts = [resident[len(resident) * n // 12 : len(resident) * (n + 1) // 12] for n in range(12)]
        means = " ".join(f"{sum(part) / len(part) / 1e6:.1f}" for part in parts)
        demand(slope <= SLOPE_BYTES_PER_HOUR, f"{slope / 1e6:.1f} MB/h; MB in each twelfth of that time: {means}")
    else:
        demand(grown <= 64 << 20, f"{grown >> 20} MB more in {seconds} s")


def _slope(points):
    """Least squares: units an hour."""
    if len(points) < 3:
        raise Wrong(f"only {len(points)} samples")
    mean_t = sum(t for t, _ in points) / len(points)
    mean_v = sum(v for _, v in points) / len(points)
    over = sum((t - mean_t) ** 2 for t, _ in points)
    return 3600 * sum((t - mean_t) * (v - mean_v) for t, v in points) / over
