#!/usr/bin/env python3
"""Measures the cost of recording every message: latency of redis or memcached under open-loop load.

In: redis or memcached, ended by this script; requests at random times at 10 % and 60 % of what the server
can do. Out: of alternating rounds (none, none again, `messages` of the client alone and of both ends, and of
what is there `perf trace` and a bpftrace script on 1, 2, 4 and 8 tracepoints of the network) the client's
latency, from when a request was due to its answer, and the receive latency, from the arrival of the answer's
packet by the kernel's own stamp to the end of the receive call.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import machine
import overhead
import programs

CONNECTIONS = 16
LOADS = (0.1, 0.6)
NONE, AGAIN = "none", "none again"
# of the client, as where the other end is another host, and of both ends
ONE_END, MESSAGES = "messages, one end", "messages"
# of the unrecorded latency, %: what the project promises
BUDGET = {"p50_ns": 5.0, "p999_ns": 8.0}
TRACEPOINTS = [
    *["tcp:tcp_probe", "net:netif_receive_skb", "net:net_dev_queue", "sock:inet_sock_set_state"],
    *["net:netif_rx_entry", "net:net_dev_xmit", "skb:skb_copy_datagram_iovec", "skb:consume_skb"],
]
PERCENT = 100.0


class Bench:
    """A server, and what it can do."""

    def __init__(self, kind, pid, port, where, seconds):
        """Finds the server's capacity with a closed loop."""
        self.kind, self.pid, self.port, self.where = kind, pid, port, Path(where)
        self.seconds = seconds
        self.client = machine.TARGET / "release" / "whylat-lab"
        self.capacity = overhead.Load(kind, port).run(200_000)["rps"]

    def round(self, mode, load):
        """One round of a load under a mode."""
        rate = self.capacity * load
        with self.tool(mode):
            options = {
                "server": self.kind,
                "connect": f"127.0.0.1:{self.port}",
                "connections": CONNECTIONS,
                "rate": rate,
                "requests": int(rate * self.seconds),
            }
            words = [self.client, "workload", "open-loop"]
            words += [f"--{name}={value}" for name, value in options.items()]
            output = subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout
        return json.loads(output)

    def tool(self, mode):
        """Returns the load in the background."""
        which = {ONE_END: ["--comm", "open-loop"], MESSAGES: ["--port", self.port]}
        if mode in which:
            path = self.where / "messages.whylat"
            return programs.recording(path, which[mode], MESSAGES)
        if mode.startswith("bpftrace"):
            return bpftrace(int(mode.split()[1]))
        if mode in overhead.PEERS:
            return overhead.peer(mode, self.pid)
        return contextlib.nullcontext()


@contextlib.contextmanager
def bpftrace(number):
    """A script that takes the time at so many tracepoints, as one who looks for latency would."""
    body = "{ @last[tid] = nsecs; @count = count(); }"
    script = "".join(f"tracepoint:{name} {body} " for name in TRACEPOINTS[:number])
    words = ["bpftrace", "-e", f'BEGIN {{ printf("ready\\n"); }} {script}']
    tool = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    try:
        for line in tool.stdout:
            if line.startswith("ready"):
                break
        yield
    finally:
        tool.send_signal(signal.SIGINT)
        tool.communicate()


def latencies(rounds, load, which):
    """Prints the quantiles of each mode beside those of `none`."""
    keys, rows, ratios = ["p50_ns", "p99_ns", "p999_ns"], [], {}
    for mode in rounds[0]:
        row = [mode]
        for key in keys:
            values = [one[mode][which][key] / 1e3 for one in rounds]
            row.append(machine.show(machine.spread(values), 1))
        for key in BUDGET:
            pairs = [(one[mode][which][key], one[NONE][which][key]) for one in rounds]
            ratios[mode, key] = machine.spread(ours / none for ours, none in pairs)
            row.append("1" if mode == NONE else machine.show(ratios[mode, key]))
        rows.append(row)
    name = {"client": "request due → answer", "receive": "answer's arrival → call done"}[which]
    print(f"  at {load:.0%} of capacity, {name}:")
    titles = ["recording", "p50 µs", "p99 µs", "p99.9 µs", "p50 ratio", "p99.9 ratio"]
    machine.table(titles, rows)
    for key, limit in BUDGET.items():
        for mode in (ONE_END, MESSAGES):
            more = (ratios[mode, key]["median"] - 1) * PERCENT
            machine.verdict(f"{mode}, {which} {key.removesuffix('_ns')}", more, limit, "% more")
    return {f"{mode} {key}": ratio for (mode, key), ratio in ratios.items()}


def measure():
    """Tables for each server and load."""
    options = machine.arguments(__doc__, add_options)
    for kind in options.server or ["redis", "memcached"]:
        one_server(kind, options)


def add_options(parser):
    """This benchmark's own options."""
    parser.add_argument("--server", action="append", choices=["redis", "memcached"])
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds")
    parser.add_argument("--seconds", type=float, default=3, help="length of one round")


def one_server(kind, options):
    """Measures and prints."""
    before = machine.facts()
    modes = [NONE, ONE_END, MESSAGES, AGAIN]
    modes += [mode for mode, words in overhead.PEERS.items() if shutil.which(words[0])][:1]
    if shutil.which("bpftrace"):
        modes += [f"bpftrace {number}" for number in (1, 2, 4, 8)]
    figures = {}
    with (
        tempfile.TemporaryDirectory(prefix="whylat-bench-") as where,
        programs.server(kind) as (pid, port),
    ):
        bench = Bench(kind, pid, port, where, options.seconds)
        for load in LOADS:
            rounds = []
            for number in range(options.rounds):
                turn = number % len(modes)
                order = modes[turn:] + modes[:turn]
                rounds.append({mode: bench.round(mode, load) for mode in order})
            figures[load] = rounds
    rate = f"{bench.capacity:.0f} requests/s when saturated"
    machine.head(f"{kind}: GET over {CONNECTIONS} loopback connections, {rate}", before)
    ratios = {}
    for load, rounds in figures.items():
        for which in ("receive", "client"):
            ratios[f"{load} {which}"] = latencies(rounds, load, which)
        late = max(one[mode]["late"] for one in rounds for mode in one)
        print(f"  requests sent more than 1 ms late in a round, at most: {late}")
    print()
    path = options.json and options.json.with_stem(f"{options.json.stem}-{kind}")
    machine.write_json(path, before, {"rounds": list(figures.values()), "ratios": ratios})


if __name__ == "__main__":
    machine.main(measure)
