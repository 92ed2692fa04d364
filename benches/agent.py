#!/usr/bin/env python3
"""Measures the cost of watching all the time: SNAP's figure 8, and the agent's budgets.

In: idle connections in a network namespace of their own. Out: the share of one CPU that polling and
reading the table of sockets take by number of sockets and interval, beside `ss -tin` at the same
interval; CPU and memory of a whole agent at 10,000 sockets and 500 ms; and bytes a day with 150
sockets that talk, extrapolated from the files of a few minutes, merged as those of an hour are.
"""

import heapq
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import machine
import programs

POLL_LIMIT_US = 0.3
CPU_LIMIT = 1.5
RSS_LIMIT_MB = 100
DAY_LIMIT_MB = 50
AGENT_SOCKETS = 10_000
AGENT_S = 20
DAY_SOCKETS = 150
DAY_MINUTES = 10
TABLES = ("intervals", "problems", "details", "connections", "coverage")


def cells():
    """One row for each number of sockets and interval, as `watch_speed` prints them: µs of each poll, and of the table."""
    watch_speed = programs.example("whylat-probe", "watch_speed")
    output = subprocess.run([watch_speed], check=True, text=True, stdout=subprocess.PIPE).stdout
    for line in output.splitlines()[1:]:
        sockets, interval_ms, *times_us = line.split()
        yield int(sockets), int(interval_ms), *map(float, times_us)


def children_cpu_s():
    """User and system time of this process's ended children."""
    times = os.times()
    return times.children_user + times.children_system


def rss_mb(pid):
    """Peak of resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise machine.BenchError(f"/proc/{pid}/status has no VmHWM")


def threads_cpu_s(pid):
    """CPU time of all threads of a process; to the nanosecond."""
    return sum(
        int((task / "schedstat").read_text().split()[0]) / 1e9
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def take(stream, number):
    """Receives so many bytes."""
    while number > 0:
        number -= len(stream.recv(min(number, 1 << 16)))


def exchange(rng, client, server, bulky):
    """A request and its reply, of log-normal sizes; one of fifty replies on a bulky connection is a megabyte."""
    ask = max(1, int(rng.lognormvariate(5.5, 1)))
    reply = min(1 << 20, max(1, int(rng.lognormvariate(8, 1.5))))
    if bulky and rng.random() < 0.02:
        reply = 1 << 20
    client.sendall(b"q" * ask)
    take(server, ask)
    # more than the buffers hold needs two
    replies = threading.Thread(target=server.sendall, args=(b"r" * reply,))
    replies.start()
    take(client, reply)
    replies.join()


def talk(held, seconds):
    """Requests at random times; rates are log-uniform, from one in ten seconds to twenty a second."""
    rng = random.Random(7)
    rates = [10 ** rng.uniform(-1, 1.3) for _ in held]
    end = time.monotonic() + seconds
    due = [(time.monotonic() + rng.expovariate(rate), index) for index, rate in enumerate(rates)]
    heapq.heapify(due)
    while due and time.monotonic() < end:
        at, index = heapq.heappop(due)
        time.sleep(max(0, at - time.monotonic()))
        exchange(rng, *held[index], index % 10 == 0)
        heapq.heappush(due, (time.monotonic() + rng.expovariate(rates[index]), index))


def hold(pairs, talks_s):
    """Child, in its namespace: holds connections, which talk for so long."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    held = []
    for _ in range(pairs):
        client = socket.create_connection(listener.getsockname())
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held.append((client, listener.accept()[0]))
    for client, server in held:
        client.sendall(b"x" * 100)
        server.recv(100)
    print("ready", flush=True)
    talk(held, talks_s)
    sys.stdin.readline()


class HeldSockets:
    """A process in a new namespace that holds connections, until it is left."""

    def __init__(self, sockets, talks_s):
        me = [sys.executable, __file__, "hold", str(sockets // 2), str(talks_s)]
        script = 'ip link set lo up && exec "$0" "$@"'
        self.child = programs.start(
            ["unshare", "--net", "sh", "-c", script, *me],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        if self.child.stdout.readline().strip() != "ready":
            raise machine.BenchError("the connections could not be opened")
        return self.child

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


class Agent:
    """An agent in the namespace of another process, over a directory of its own."""

    def __init__(self, directory, pid, interval_s):
        self.directory = Path(directory)
        (self.directory / "dataset").mkdir()
        config = self.directory / "agent.toml"
        config.write_text(
            f"""[host]
name = "bench"
[watch]
netns = "own"
interval_s = {interval_s}
[ship]
target = "{directory}/dataset"
spool = "{directory}/spool"
[metrics]
listen = ""
"""
        )
        ready = self.directory / "ready"
        command = ["nsenter", f"--net=/proc/{pid}/ns/net", machine.WHYLAT, "agent"]
        self.child = programs.start([*command, "--config", config, "--ready-file", ready])
        programs.until(ready.exists, "the agent", self.child)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()

    def minutes(self, table):
        """Files of whole minutes that are delivered: all but the first, which began within one."""
        files = (self.directory / "dataset" / f"fleet_{table}").rglob("*.parquet")
        return sorted(files)[1:]


def whole_agent():
    """Share of one CPU, and peak of resident memory, of an agent of mostly idle sockets."""
    with (
        HeldSockets(AGENT_SOCKETS, 0) as held,
        tempfile.TemporaryDirectory() as directory,
        Agent(directory, held.pid, 10) as agent,
    ):
        pid = agent.child.pid
        # the first interval has a row of each connection, once
        delivered = lambda: list((agent.directory / "dataset").rglob("*.parquet"))  # noqa: E731
        programs.until(delivered, "the first interval", agent.child)
        begin_s, begin_cpu_s = time.monotonic(), threads_cpu_s(pid)
        time.sleep(AGENT_S)
        used_s = threads_cpu_s(pid) - begin_cpu_s
        return used_s / (time.monotonic() - begin_s) * 100, rss_mb(pid)


def bytes_a_day():
    """Bytes of some minutes' files with connections that talk, merged, times the minutes of a day."""
    merge = programs.example("whylat-table", "merge_minutes")
    with (
        HeldSockets(DAY_SOCKETS, 60 * (DAY_MINUTES + 2)) as held,
        tempfile.TemporaryDirectory() as directory,
        Agent(directory, held.pid, 60) as agent,
    ):
        # of one time, coverage is delivered last
        programs.until(
            lambda: len(agent.minutes("coverage")) >= DAY_MINUTES,
            "whole minutes",
            agent.child,
            60 * (DAY_MINUTES + 2),
        )
        merged = Path(directory) / "merged"
        total = 0
        for table in TABLES:
            if files := agent.minutes(table)[:DAY_MINUTES]:
                subprocess.run([merge, merged, *files], check=True)
                total += merged.stat().st_size
        return total / DAY_MINUTES * 24 * 60


def measure():
    """All of it."""
    options = machine.arguments(__doc__)
    before = machine.facts()
    rows, figures = [], []
    for sockets, interval_ms, poll_us, table_us, talking_us, recent_us in cells():
        percents = [us / 1_000 / interval_ms * 100 for us in (poll_us, table_us)]
        figures.append((sockets, interval_ms, poll_us, table_us, talking_us, recent_us))
        rows.append(
            [
                sockets,
                interval_ms,
                *(f"{percent:.3f}" for percent in percents),
                *(f"{us / sockets:.3f}" for us in (poll_us, talking_us, recent_us)),
            ]
        )
    machine.head("agent: share of one CPU, %, by sockets and interval (SNAP, figure 8)", before)
    machine.table(
        [
            "sockets",
            "interval, ms",
            "polling",
            "socket table",
            "µs a socket and poll",
            "that talked",
            "that had just talked",
        ],
        rows,
    )
    with HeldSockets(AGENT_SOCKETS, 0) as held:
        begin_s = children_cpu_s()
        command = ["nsenter", f"--net=/proc/{held.pid}/ns/net", "ss", "-tinO"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        ss_us = (children_cpu_s() - begin_s) * 1e6 / AGENT_SOCKETS
    poll_us = next(f[2] / f[0] for f in figures if f[:2] == (AGENT_SOCKETS, 500))
    print(f"ss -tin: {ss_us:.2f} µs a socket, {ss_us / poll_us:.1f} times the poll")
    cpu_percent, peak_mb = whole_agent()
    day_mb = bytes_a_day() / 1e6
    machine.verdict("polling, 10,000 sockets at 500 ms", poll_us, POLL_LIMIT_US, "µs")
    machine.verdict("whole agent, 10,000 sockets at 500 ms", cpu_percent, CPU_LIMIT, "% of a CPU")
    machine.verdict("its memory, peak", peak_mb, RSS_LIMIT_MB, "MB")
    machine.verdict("merged files of a day, 150 sockets that talk", day_mb, DAY_LIMIT_MB, "MB")
    result = {
        "cells": figures,
        "ss_us": ss_us,
        "cpu_percent": cpu_percent,
        "peak_mb": peak_mb,
        "day_mb": day_mb,
    }
    machine.write_json(options.json, before, {"agent": result})


if __name__ == "__main__":
    if sys.argv[1:2] == ["hold"]:
        hold(int(sys.argv[2]), float(sys.argv[3]))
    else:
        machine.main(measure)
