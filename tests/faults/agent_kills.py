#!/usr/bin/env python3
"""Agents that are killed at random times, with a target that comes and goes: what is lost, and what counts twice.

In: for how long. Out: a line for docs/reliability.md; exit code 1 if more was lost than the minute that was open at a
kill, or anything counts twice. Each agent watches a namespace in which connections write at known times: of every life
of it, the calls that its dataset holds must be those that were made. Needs root, and DuckDB for Python.
"""

import argparse
import bisect
import contextlib
import dataclasses
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import page
from agents import Agent, configure
from dataset import Dataset
from harness import Netns, FaultRow, Wrong, bind_to_thread, demand, refuse_without_root, scratch, thousands

FAULT = "agents killed"
HOSTS = 3
INTERVAL_NS = 60_000_000_000
# A life of an agent from when it watches, and a time for which the target is there or away, s.
LIFE_S = (5, 110)
AWAY_S = (10, 150)
THERE_S = (10, 240)
# How long after its end an interval may be read, judged and stored: one with a kill within it was still open.
STORE_NS = 2_000_000_000
WRITE_EVERY_S = 0.025
LONG_CONNECTIONS = 8
SHORT_EVERY = 40
# What a spool holds when its agent has ended in order.
SPOOL = {"lock", "state.json", "pending", "sent"}
NS_PER_S = 1_000_000_000


def write_until_signal():
    """Child: connections that write, and short ones in between. Says when each call began and ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted = []

    def serve():
        while True:
            connection, _ = listener.accept()
            accepted.append(connection)
            threading.Thread(target=drain, args=(connection,), daemon=True).start()

    def drain(connection):
        with contextlib.suppress(OSError), connection:
            while connection.recv(4096):
                pass

    def write(stream):
        begin_ns = time.time_ns()
        stream.sendall(b"x" * 100)
        calls.append((begin_ns, time.time_ns()))

    threading.Thread(target=serve, daemon=True).start()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
    calls = []
    long = [socket.create_connection(listener.getsockname()) for _ in range(LONG_CONNECTIONS)]
    turn = 0
    while not over.wait(WRITE_EVERY_S):
        turn += 1
        write(long[turn % LONG_CONNECTIONS])
        if turn % SHORT_EVERY == 0:
            with socket.create_connection(listener.getsockname()) as short:
                write(short)
    json.dump(calls, sys.stdout)


@dataclasses.dataclass
class Life:
    """An agent from when it watched until it ended, ns since 1970."""

    ready_ns: int
    ended_ns: int
    killed: bool


class Host:
    """A namespace with traffic, and the agents that watch it, one after the other."""

    def __init__(self, number, place):
        self.name, self.place = f"host-{number}", place / f"host-{number}"
        self.place.mkdir()
        self.netns = Netns()
        self.lives = []
        self.calls = []
        self.traffic = subprocess.Popen(
            bind_to_thread([sys.executable, __file__, "--write"], self.netns),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        configure(self.place, self.name, place / "dataset")

    def live(self, how_long_s, number, longest_s=None):
        """Runs an agent for so long, and ends it by this signal."""
        agent = Agent(self.netns, self.place)
        ready_ns = time.time_ns()
        how_long_s(self)
        agent.demand_alive()
        agent.signal(number)
        ended_ns = time.time_ns()
        agent.wait(longest_s)
        self.lives.append(Life(ready_ns, ended_ns, number == signal.SIGKILL))

    def end(self):
        """Ends the traffic; what it did is in `calls`."""
        out, _ = self.traffic.communicate(b"\n", timeout=60)
        self.calls = json.loads(out)
        self.netns.__exit__()


def kill_until(host, end_s, rng, failed):
    """Lives of one host's agents, one after the other."""
    try:
        while time.monotonic() < end_s:
            wait_s = min(rng.uniform(*LIFE_S), max(end_s - time.monotonic(), 1))
            host.live(lambda _, wait_s=wait_s: time.sleep(wait_s), signal.SIGKILL, 60)
    except Exception as error:  # the main thread reports it
        failed.append(error)


def move_until(place, end_s, rng):
    """The target goes away and comes back; gives how often."""
    dataset, away, times = place / "dataset", place / "away", 0
    while time.monotonic() < end_s:
        time.sleep(min(rng.uniform(*THERE_S), max(end_s - time.monotonic(), 0)))
        dataset.rename(away)
        time.sleep(rng.uniform(*AWAY_S))
        away.rename(dataset)
        times += 1
    return times


def calls_between(calls, begin_ns, end_ns, inner):
    """Calls that lie within; or, not `inner`, that may."""
    first, last = (0, 1) if inner else (1, 0)
    low = bisect.bisect_left(calls, begin_ns, key=lambda call: call[first])
    high = bisect.bisect_right(calls, end_ns, key=lambda call: call[last])
    return max(high - low, 0)


@dataclasses.dataclass
class Found:
    """Holds the counts of one agent's life."""

    intervals: int
    counted: int
    least: int
    most: int
    lost_ns: int


def check_life(life, coverage, writes, calls):
    """Demands that the life's intervals follow each other up to the one that was open, and hold its calls."""
    whole_ns = life.ended_ns // INTERVAL_NS * INTERVAL_NS if life.killed else life.ended_ns
    own = [(begin, length) for begin, length in coverage if begin <= life.ended_ns and begin + length > life.ready_ns]
    stored_ns = own[-1][0] + own[-1][1] if own else life.ready_ns
    for (begin, length), (following, _) in zip(own, own[1:]):
        demand(begin + length == following, f"a gap within a life at {following}: {own}")
    least_ns = whole_ns if life.ended_ns - whole_ns > STORE_NS else whole_ns - INTERVAL_NS
    if life.killed:
        demand(not own or own[0][0] <= life.ready_ns, f"the start of a life is not there: {life}, {own}")
        demand(
            stored_ns >= min(least_ns, life.ended_ns) or least_ns < life.ready_ns,
            f"more was lost than the open minute: {life}, {own}",
        )
    counted = sum(writes.get(begin, 0) for begin, _ in own)
    if not own:
        return Found(0, 0, 0, 0, life.ended_ns - life.ready_ns)
    least = calls_between(calls, life.ready_ns, stored_ns, inner=True)
    most = calls_between(calls, own[0][0], stored_ns + STORE_NS, inner=False)
    demand(least <= counted <= most, f"{counted} calls of {least} to {most}: {life}, {own}")
    return Found(len(own), counted, least, most, life.ended_ns - stored_ns)


def check_host(host, dataset):
    """Demands of all that one host has in the dataset; gives what was found of each life."""
    columns = ("begin_ns", "length_us", "lost", "dropped_files")
    rows = dataset.rows("fleet_coverage", columns, host.name)
    demand(all(lost == 0 and dropped == 0 for *_, lost, dropped in rows), f"lost or dropped: {rows}")
    coverage = [(begin_ns, length_us * 1000) for begin_ns, length_us, *_ in rows]
    for (begin, length), (following, _) in zip(coverage, coverage[1:]):
        demand(begin + length <= following, f"{host.name}: two intervals at {following}")
    rows = dataset.rows("fleet_intervals", ("begin_ns", "conn_id", "writes", "length_us"), host.name)
    ids = [(begin_ns, conn_id) for begin_ns, conn_id, *_ in rows]
    demand(len(set(ids)) == len(ids), f"{host.name}: a row is there twice")
    writes = {begin: 0 for begin, _ in coverage}
    begins = sorted(writes)
    for begin_ns, _, number, _ in rows:
        writes[begins[bisect.bisect_right(begins, begin_ns) - 1]] += number
    found = [check_life(life, coverage, writes, host.calls) for life in host.lives]
    demand(sum(f.intervals for f in found) == len(coverage), f"{host.name}: intervals of no life")
    return found


def demand_nothing_half(place):
    """Demands that no kill has left a file that is not in its place, in the dataset or in a spool."""
    spools = [path for path in place.glob("host-*/spool/*") if path.name not in SPOOL]
    half = [str(path) for path in [*place.glob("dataset/**/*.tmp"), *place.glob("dataset/*/**/.*"), *spools]]
    demand(not half, f"left by a kill: {half}")


def agent_kills(minutes, place, seed):
    """Plays it, and checks; gives the line of the table."""
    (place / "dataset").mkdir()
    hosts = [Host(number, place) for number in range(HOSTS)]
    end_s, failed = time.monotonic() + minutes * 60, []
    threads = [
        threading.Thread(target=kill_until, args=(host, end_s, random.Random(seed + number), failed))
        for number, host in enumerate(hosts)
    ]
    for thread in threads:
        thread.start()
    times = move_until(place, end_s, random.Random(seed - 1))
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    for host in hosts:
        # SIGTERM lets it deliver its spool
        host.live(lambda _: time.sleep(1), signal.SIGTERM, 60)
        host.end()
    demand_nothing_half(place)
    found = [life for host in hosts for life in check_host(host, Dataset(place / "dataset"))]
    return line(minutes, times, found)


def line(minutes, times, found):
    """Returns the line of the table."""
    kills = len(found) - HOSTS
    longest_s = max(life.lost_ns for life in found) / NS_PER_S
    intervals, calls = sum(life.intervals for life in found), sum(life.counted for life in found)
    least = sum(life.least for life in found)
    seen = (
        f"{minutes:g} min, {kills} kills, target away {times} times: {intervals} intervals, each once; at most "
        f"{longest_s:.1f} s lost at a kill; {thousands(calls)} calls counted of {thousands(least)} made while watched, "
        "and the rest within the time in which a life begins or ends; 0 twice"
    )
    return FaultRow(
        FAULT,
        f"{HOSTS} agents, SIGKILL at random; target renamed away and back",
        "at most the open minute lost, 0 counted twice",
        seen,
        minutes,
    )


def main():
    """Reads the command line and runs the test."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="directory for what the agents write, which then stays")
    parser.add_argument("--output", type=Path, help="page into which the line goes")
    options = parser.parse_args()
    if options.write:
        write_until_signal()
        return
    refuse_without_root()
    with contextlib.ExitStack() as stack:
        place = options.keep or stack.enter_context(scratch())
        place.mkdir(exist_ok=True)
        try:
            row = agent_kills(options.minutes, place, options.seed)
        except Exception as error:  # whatever the test did not expect is a failure of it
            if options.output:
                page.put_failure(options.output, FAULT, error, options.minutes)
            if isinstance(error, Wrong):
                sys.exit(f"failed: {error}")
            raise
        print(row.seen)
        if options.output and not page.put(options.output, row):
            print("its row stays: it is of a longer run")


if __name__ == "__main__":
    main()
