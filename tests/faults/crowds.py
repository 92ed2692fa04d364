"""More of everything than there is room for: processes, connections, namespaces."""

import collections
import subprocess
import sys
import time

from harness import (
    HERE,
    Netns,
    Recorder,
    Sampled,
    Seen,
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
    """A program of `crowd.py`, in a namespace; `said` is what it knows at its end."""

    def __init__(self, *words, netns=None):
        command = [sys.executable, str(CROWD), *[str(word) for word in words]]
        if netns is not None:
            command = ["nsenter", f"--net=/proc/{netns.process.pid}/ns/net", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def ready(self):
        """Waits until it is; gives the rest of the line."""
        word, *rest = self.process.stdout.readline().split() or ["nothing, and ended"]
        demand(word == "ready", f"a crowd said {word}")
        return rest

    def go(self):
        """Starts it."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def said(self):
        """Its lines, once it has ended."""
        out, _ = self.process.communicate(timeout=LONGEST_CROWD)
        demand(self.process.returncode == 0, f"a crowd ended with {self.process.returncode}")
        return [line.split() for line in out.splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def forks(options):
    """Processes come and go until pids are used again; each connection is of the process that made it."""
    count = 100_000 if options.whole else 600
    every = 50 if options.whole else 5
    with scratch() as place, Netns() as netns, Crowd("forks", count, every, netns=netns) as crowd:
        crowd.ready()
        with Recorder("-p", crowd.pid, "--detail", "calls", scratch=place) as recorder:
            crowd.go()
            # few pids and few ports: some pairs of them are used twice
            truth = collections.Counter((int(pid), int(port), name) for pid, port, name in crowd.said())
            recorder.stop()
        answer = report(recorder.path)
    demand_identity(answer)
    wrong, right = _attributed(answer, truth)
    made = truth.total()
    uses = made / len({pid for pid, _, _ in truth})
    demand(wrong == 0, f"{wrong} of {made} connections misattributed, {right} right")
    demand(right >= 0.99 * made, f"only {right} of {made} attributed")
    seen = f"{thousands(count)} forks; each pid made {uses:.0f} connections under as many names: {right} right, 0 wrong"
    done = f"{thousands(count)} forks; one in {every} makes a connection, with a pid used before (clone3, `set_tid`)"
    return Seen("pid reuse", done, "0 misattributed", seen)


def _attributed(answer, truth):
    """Of each client connection: is its process one that made it, by pid and by the name that it had then?"""
    wrong = right = 0
    ends, left = {(pid, port) for pid, port, _ in truth}, truth.copy()
    for connection in answer["connections"]:
        process, port = connection["process"], int(connection["local"].rsplit(":", 1)[1])
        if not process or (process["pid"], port) not in ends:
            continue
        one = (process["pid"], port, process["comm"])
        # each connection that was made is found once
        if left[one] > 0:
            left[one] -= 1
            right += 1
        elif process["comm"] is not None:
            wrong += 1
    return wrong, right


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
            said = [crowd.said() for crowd in crowds]
            recorder.stop()
        answer = report_but_connections(recorder.path)
        demand_identity(answer)
        lost = account(answer, "inventory")["lost_total"]
        ends, missing = _merged(recorder.path, place, netnses, said)
    # a socket is missing when every record of it was lost
    demand(missing <= lost, f"{missing} sockets are missing, and only {lost} records counted as lost")
    if not options.whole:
        demand(missing <= 0.01 * 3 * each, f"{missing} of {3 * each} sockets are missing")
    seen = (
        f"{thousands(3 * each)} connections: {thousands(ends)} ends recorded, 0 merged; "
        f"{thousands(lost)} records lost and counted"
    )
    return Seen("short flows", "64 client ports, 3 namespaces, 127.0.0.1 in each", "0 merged", seen)


def _merged(path, place, netnses, said):
    """Every socket is one row group with one namespace and one pair of addresses, as its program knows it.

    Gives how many there are, and how many of the programs' own are missing.
    """
    truth = {}
    for netns, lines in zip(netnses, said, strict=True):
        for cookie, port in lines:
            truth[int(cookie)] = (netns.inode, int(port))
    ends = collections.defaultdict(set)
    for conn, netns, local, remote in columns(path, "connections", ["conn", "netns", "local", "remote"], place):
        ends[int(conn)].add((int(netns), local, remote))
    demand(len(truth) == sum(len(lines) for lines in said), "cookies of the programs are not unique")
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
            said = crowd.said()
            took = time.monotonic() - start
            recorder.stop()
        answer = report(recorder.path)
        demand_identity(answer)
        truth = {int(cookie): int(inode) for cookie, inode in said}
        seen = {}
        for conn, netns in columns(recorder.path, "connections", ["conn", "netns"], place):
            seen[int(conn)] = int(netns or 0)
    wrong = sum(seen[conn] not in (0, inode) for conn, inode in truth.items() if conn in seen)
    have = len(truth.keys() & seen.keys())
    demand(wrong == 0, f"{wrong} of {have} in another namespace")
    demand(have >= 0.99 * len(truth), f"only {have} of {len(truth)} connections")
    rate = count / took * 60
    told = f"{thousands(count)} at {rate:,.0f} a minute: {have} connections right, 0 wrong"
    return Seen("namespaces", f"{thousands(count)} made and removed", "right or unknown, 0 wrong", told)


# The largest map of the kernel side that holds one entry a connection (`peer_tuples` in inventory.bpf.h).
MAP_ENTRIES = 131_072
# Processes that share them: the limit of open files of one is often 20,000.
HOLDERS = 16


def full_maps(options):
    """Twice as many connections as the largest map has entries; after they have gone, all is right again."""
    pairs = MAP_ENTRIES if options.whole else 6_000
    with scratch() as place, Netns() as netns:
        with Crowd("hold", pairs, HOLDERS, netns=netns) as crowd:
            ports = crowd.ready()
            with Recorder("--port", ports[0], "--detail", "stats", "--poll-ms", 2000, scratch=place) as recorder:
                crowd.go()
                crowd.said()
                gone = time.monotonic()
                # afterwards a known exchange is recorded wholly
                with Workload("reply-server", "--listen", f"127.0.0.1:{ports[0]}", netns=netns) as server:
                    server.port()
                    words = ["request-reply", "--connect", f"127.0.0.1:{ports[0]}", "--rounds", 211]
                    with Workload(*words, netns=netns) as client:
                        cookie = client.truth()["connections"][0]["cookie"]
                took = time.monotonic() - gone
                recorder.stop()
        answer = report_but_connections(recorder.path)
        _, lost = demand_identity(answer)
        conns = {int(conn) for (conn,) in columns(recorder.path, "connections", ["conn"], place)}
    demand(cookie in conns, "the exchange after the crowd is not recorded")
    demand(took <= 10 or options.loaded, f"only {took:.1f} s later")
    kept = len(conns)
    demand(kept + lost >= 2 * pairs, f"{kept} sockets and {lost} lost, of {2 * pairs}")
    done = f"{thousands(2 * pairs)} sockets of one port at once"
    seen = f"{thousands(kept)} recorded, {thousands(lost)} lost and counted; right again after {took:.1f} s"
    return Seen("more flows than a map holds", done, "counted; right again ≤ 10 s", seen)


# After this share of the time memory is as large as the tables of names and the rings make it.
SETTLED = 0.4
# The limit of the issue: a megabyte an hour, over what samples of a minute can tell.
SLOPE_BYTES_PER_HOUR = 1 << 20


def churn(options):
    """Connections and programs come and go: memory and descriptors stay as they are."""
    seconds = options.minutes * 60
    with scratch() as place, Netns() as netns, Crowd("churn", seconds, netns=netns) as crowd:
        crowd.ready()
        with Recorder("-p", crowd.pid, "--detail", "waits", scratch=place) as recorder:
            before = recorder.descriptors()
            with Sampled(lambda: (recorder.resident_bytes(), recorder.descriptors()), every_s=0.5) as sampled:
                crowd.go()
                ((flows_made, execs),) = crowd.said()
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
    return Seen("churn", "connections and programs that come and go", "memory and descriptors flat", seen)


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
