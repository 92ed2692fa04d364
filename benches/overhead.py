#!/usr/bin/env python3
"""Measures the cost of recording for a server under saturating request-response load on loopback.

In: redis or memcached, ended by this script. Out: what the server loses, in alternating rounds (none, none again,
`stats`, `calls`, `waits`, `messages`, `waits` of another process, and what other tools cost that are there: `perf
trace -s`, `strace -c -f`): its CPU time for each request, which the budget is about, throughput and latency. Then the
recorder's own CPU time during the load, and, from a run of its own, the run time of each BPF program.
"""

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import bpf_time
import machine
import programs

CONNECTIONS = 16
# requests of the round that finds the rate, from which the others' number follows
FIRST_REQUESTS = 50_000
NONE, AGAIN = "none", "none again"
STATS, CALLS, WAITS, MESSAGES = "stats", "calls", "waits", "messages"
# what the hooks cost those who are not recorded: nearly all of it is the kernel's way to them
BYSTANDER = "waits of another"
# CPU time for each request that recording adds in the server, %: what the project promises
BUDGET = {STATS: 0.5, CALLS: 3.0, WAITS: 5.0, MESSAGES: 10.0}
# other tools, each attached to the server's process
PEERS = {
    "perf trace -s": ["perf", "trace", "-s", "-o", "/dev/null", "-p"],
    "strace -c -f": ["strace", "-c", "-f", "-o", "/dev/null", "-p"],
}
PERCENT = 100.0
# of a round, with decimal places
COLUMNS = (("server_us", 2), ("rps", 0), ("p50_us", 0), ("p99_us", 0))
COST_COLUMNS = [
    *["recording", "recorder", "its own account", "closing"],
    *["BPF gross", "BPF net", "cost net", "cost gross", "calls/request", "lost"],
]


class Load:
    """A load generator against a server that runs."""

    def __init__(self, kind, port):
        """Picks redis-benchmark for redis, this project's own client for memcached."""
        self.kind, self.port = kind, port
        if kind == "memcached":
            self.client = programs.example("whylat-lab", "memcached_load")

    def run(self, requests):
        """One round. Returns requests per second, and latencies in µs."""
        if self.kind == "memcached":
            words = [self.client, f"127.0.0.1:{self.port}", CONNECTIONS, requests]
            printed = json.loads(self._output(words))
            return {
                "rps": printed["rps"],
                "p50_us": printed["p50_ns"] / 1e3,
                "p99_us": printed["p99_ns"] / 1e3,
            }
        words = ["redis-benchmark", "-p", self.port, "-t", "get", "-c", CONNECTIONS]
        printed = self._output([*words, "-n", requests, "--csv"])
        row = next(csv.DictReader(printed.splitlines()))
        return {
            "rps": float(row["rps"]),
            "p50_us": float(row["p50_latency_ms"]) * 1e3,
            "p99_us": float(row["p99_latency_ms"]) * 1e3,
        }

    @staticmethod
    def _output(words):
        words = [str(word) for word in words]
        return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


class Bench:
    """A server, its load, and a place for recordings."""

    def __init__(self, load, pid, where, seconds):
        """Finds how many requests fill `seconds`."""
        self.load, self.pid, self.where = load, pid, Path(where)
        rate = load.run(FIRST_REQUESTS)["rps"]
        self.requests = int(rate * seconds)

    def run(self, requests):
        """A round's load. Its result, with the server's CPU time for each request."""
        before_ns = programs.cpu_ns(self.pid)
        result = self.load.run(requests)
        return result | {"server_us": (programs.cpu_ns(self.pid) - before_ns) / requests / 1e3}

    def round(self, mode):
        """One round of load under `mode`."""
        if mode in PEERS:
            with peer(mode, self.pid):
                # It takes many times as long.
                return self.run(self.requests // 8)
        if mode == BYSTANDER:
            with programs.bystander() as pid, programs.recording(
                self.where / "bystander.whylat", ["-p", pid], WAITS
            ):
                return self.run(self.requests)
        if mode not in BUDGET:
            return self.run(self.requests)
        path = self.where / f"{mode}.whylat"
        with programs.recording(path, ["-p", self.pid], mode) as recorder:
            before_ns, start = recorder.cpu_ns(), time.monotonic_ns()
            result = self.run(self.requests)
            wall_ns, cpu_ns = time.monotonic_ns() - start, recorder.cpu_ns()
            usage = recorder.stop()
        manifest = programs.Manifest(path)
        # merging the segments when the recording is closed
        total_ns = (usage.ru_utime + usage.ru_stime) * 1e9
        return result | {
            "wall_ns": wall_ns,
            "recorder_ns": cpu_ns - before_ns,
            "own_account_ns": manifest.cost["cpu_ns"],
            "close_ns": total_ns - cpu_ns,
            "calls": manifest.rows("calls"),
            "lost": sum(sum(loss["lost"].values()) for loss in manifest.loss.values()),
        }

    def bpf(self, mode):
        """A round with the kernel's statistics on. Run time of each BPF program."""
        path = self.where / f"{mode}-bpf.whylat"
        with programs.recording(path, ["-p", self.pid], mode) as recorder:
            found = bpf_time.Programs(recorder.pid)
            statistics = bpf_time.enable_statistics()
            try:
                reading_ns = bpf_time.calibrate()
                before, start = found.read(), time.monotonic_ns()
                self.load.run(self.requests)
                wall_ns = time.monotonic_ns() - start
                after = found.read()
            finally:
                os.close(statistics)
                found.close()
            recorder.stop()
        return account(bpf_time.difference(before, after), reading_ns, wall_ns)


@contextlib.contextmanager
def peer(mode, pid):
    """Another tool at work on the process."""
    tool = subprocess.Popen([*PEERS[mode], str(pid)], stderr=subprocess.DEVNULL)
    try:
        while tool.poll() is None and not is_attached(tool.pid, pid):
            time.sleep(0.01)
        yield
    finally:
        tool.send_signal(signal.SIGINT)
        tool.wait()


def is_attached(tool, pid):
    """Whether it traces the process, or has opened its performance events."""
    status = Path(f"/proc/{pid}/status").read_text()
    if f"TracerPid:\t{tool}\n" in status:
        return True
    for link in Path(f"/proc/{tool}/fd").iterdir():
        # It may be closed by now.
        with contextlib.suppress(OSError):
            if "perf_event" in os.readlink(link):
                return True
    return False


def account(runs_by_program, reading_ns, wall_ns):
    """Gross and net run time, for each program and together."""
    rows = []
    for name, (runs, gross_ns) in runs_by_program.items():
        if runs:
            # a run cannot take less than nothing: the reading's own time varies
            net_ns = max(0.0, gross_ns - runs * reading_ns)
            rows.append({"program": name, "runs": runs, "gross_ns": gross_ns, "net_ns": net_ns})
    rows.sort(key=lambda row: -row["net_ns"])
    return {
        "reading_ns": reading_ns,
        "wall_ns": wall_ns,
        "programs": rows,
        "runs": sum(row["runs"] for row in rows),
        "gross_ns": sum(row["gross_ns"] for row in rows),
        "net_ns": sum(row["net_ns"] for row in rows),
    }


def losses(rounds):
    """Prints what the server lost in each mode beside `none`, and the pair of `none` that shows the noise."""
    rows, added, ratios = [], {}, {}
    for mode in rounds[0]:
        added[mode] = machine.spread(
            PERCENT * (one[mode]["server_us"] / one[NONE]["server_us"] - 1) for one in rounds
        )
        ratios[mode] = machine.spread(one[mode]["rps"] / one[NONE]["rps"] for one in rounds)
        columns = [
            machine.show(machine.spread(one[mode][key] for one in rounds), places)
            for key, places in COLUMNS
        ]
        beside = [machine.show(added[mode], 1), machine.show(ratios[mode])]
        cpu_us, *others = columns
        rows.append([mode, cpu_us, *(["0", "1"] if mode == NONE else beside), *others])
    machine.table(
        ["recording", "server's CPU, µs/request", "added, %", "throughput ratio"]
        + ["requests/s", "p50 µs", "p99 µs"],
        rows,
    )
    noise = added[AGAIN]
    print(f"  A/A pair: {noise['min']:+.1f} to {noise['max']:+.1f} % of CPU time for each request")
    for mode, limit in BUDGET.items():
        machine.verdict(f"{mode}, added to each request", added[mode]["median"], limit, "% CPU")
    return {"added_percent": added, "throughput": ratios}


def costs(rounds, bpf, requests, cpus):
    """Prints the cost of each mode as a share of the machine's CPU."""
    rows, shares = [], {}
    for mode in BUDGET:
        ours = [one[mode] for one in rounds]
        recorder = share(ours, "recorder_ns", cpus)
        parts = bpf[mode]
        gross, net = (
            PERCENT * parts[key] / parts["wall_ns"] / cpus for key in ("gross_ns", "net_ns")
        )
        shares[mode] = {
            "recorder": recorder,
            "close": share(ours, "close_ns", cpus),
            "bpf_gross": gross,
            "bpf_net": net,
            "net": recorder["median"] + net,
            "gross": recorder["median"] + gross,
        }
        rows.append(
            [
                mode,
                machine.show(recorder, 2),
                machine.show(share(ours, "own_account_ns", cpus), 2),
                machine.show(shares[mode]["close"], 2),
                f"{gross:.2f}",
                f"{net:.2f}",
                f"{shares[mode]['net']:.2f}",
                f"{shares[mode]['gross']:.2f}",
                f"{ours[0]['calls'] / requests:.2f}",
                max(one["lost"] for one in ours),
            ]
        )
    print("  cost beside the server, % of the machine's CPU:")
    machine.table(COST_COLUMNS, rows)
    return shares


def share(ours, key, cpus):
    """A figure of each round as a share of the machine's CPU during that round, in %."""
    return machine.spread(PERCENT * one[key] / one["wall_ns"] / cpus for one in ours)


def by_program(mode, parts):
    """Prints the run time of each BPF program."""
    wall_s = parts["wall_ns"] / 1e9
    print(
        f"  BPF programs under {mode}; the statistics' own clock reading, "
        f"{parts['reading_ns']:.1f} ns a run, is in gross and not in net:"
    )
    rows = []
    for row in parts["programs"]:
        each = [row[key] / row["runs"] for key in ("gross_ns", "net_ns")]
        of_one_cpu = PERCENT * row["net_ns"] / parts["wall_ns"]
        rows.append(
            [
                row["program"],
                f"{row['runs'] / wall_s:.0f}",
                *(f"{value:.1f}" for value in each),
                f"{of_one_cpu:.2f}",
            ]
        )
    machine.table(["program", "runs/s", "ns gross", "ns net", "net, % of a CPU"], rows)


def measure():
    """One table for each server."""
    options = machine.arguments(__doc__, add_options)
    for kind in options.server or ["redis", "memcached"]:
        one_server(kind, options)


def add_options(parser):
    """This benchmark's own options."""
    parser.add_argument("--server", action="append", choices=["redis", "memcached"])
    parser.add_argument("--rounds", type=int, default=7, help="alternating rounds")
    parser.add_argument("--seconds", type=float, default=3, help="length of one round")


def one_server(kind, options):
    """Measures and prints."""
    before = machine.facts()
    with (
        tempfile.TemporaryDirectory(prefix="whylat-bench-") as where,
        programs.server(kind) as (pid, port),
    ):
        bench = Bench(Load(kind, port), pid, where, options.seconds)
        peers = [mode for mode, words in PEERS.items() if shutil.which(words[0])]
        modes, rounds = [NONE, STATS, AGAIN, CALLS, *peers, BYSTANDER, WAITS, MESSAGES], []
        for number in range(options.rounds):
            # another first each time, so that a drift is in no mode alone
            turn = number % len(modes)
            rounds.append({mode: bench.round(mode) for mode in modes[turn:] + modes[:turn]})
        bpf = {mode: bench.bpf(mode) for mode in BUDGET}
    title = f"{kind}: GET over {CONNECTIONS} loopback connections, {bench.requests} requests"
    machine.head(f"{title} a round, {options.rounds} alternating rounds", before)
    lost = losses(rounds)
    shares = costs(rounds, bpf, bench.requests, before["cpus"])
    for mode, parts in bpf.items():
        by_program(mode, parts)
    print()
    figures = {"rounds": rounds, "lost": lost, "cost_percent": shares, "bpf": bpf}
    path = options.json and options.json.with_stem(f"{options.json.stem}-{kind}")
    machine.write_json(path, before, figures)


if __name__ == "__main__":
    machine.main(measure)
