#!/usr/bin/env python3
"""Records connections with known shares of delayed ACKs at several poll
intervals, and compares the shares that whylat reports with a capture of the same traffic.

The capture is made by tcpdump and taken apart by tshark: neither knows of whylat. Writes the page
(docs/delayed_acks.md) to --output and its plot beside it, every connection to --json. Needs root.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

SHARES_PERCENT = (0, 10, 50, 75, 100)
# SNAP's figure 3. Whylat claims nothing below the time of the timer itself.
POLLS_MS = (50, 100, 200, 500, 1000, 2000, 5000, 10000)
# How long a run lasts: some polls of the longest interval.
SECONDS_LEAST, POLLS_LEAST = 20, 6
CONNECTIONS = 3
# Between two requests; a round with a delayed ACK takes the server's 65 ms, another half of one.
PAUSE_MS, DELAYED_MS, AT_ONCE_MS = 10, 65, 0.5
# TCP_DELACK_MIN (include/net/tcp.h) less a jiffy at HZ=250, by which the timer may be early.
TIMER_LEAST_S = 0.036
# RFC 863: nobody answers there.
DISCARD_PORT = 9
# What is asked for: the exact method everywhere, the estimator where SNAP (section 4.2) gives an
# error, by share and poll interval.
EXACT_MOST = 0.01
SNAP_MOST = {100: (0.006, POLLS_MS), 75: (0.2, (500, 1000, 2000, 5000, 10000))}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whylat", default="target/release/whylat")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--polls-ms", type=int, nargs="*", default=POLLS_MS)
    parser.add_argument("--seconds", type=int, help="of each run")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--rows", type=pathlib.Path, help="write the page of an earlier --json")
    parser.add_argument("--play", nargs=2, metavar=("SECONDS", "DIRECTORY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        return play(options.whylat, options.seed, float(options.play[0]), pathlib.Path(options.play[1]))
    if options.rows:
        rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    else:
        rows = measure(options)
    if options.json:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if options.output:
        plot_path = options.output.with_suffix(".svg")
        plot_path.write_text(plot(rows))
        options.output.write_text(page(rows, plot_path.name))
    else:
        sys.stdout.write(page(rows, "delayed_acks.svg"))


def measure(options):
    for tool in ("tcpdump", "tshark"):
        if not shutil.which(tool):
            raise SystemExit(f"error: {tool} is not installed\nhint: apt-get install tcpdump tshark")
    rows = []
    for poll_ms in options.polls_ms:
        seconds = options.seconds or max(SECONDS_LEAST, POLLS_LEAST * poll_ms // 1000)
        rows += one_run(options.whylat, options.seed, poll_ms, seconds)
        print(f"polls every {poll_ms} ms, {seconds} s: {worst(rows, poll_ms)}", file=sys.stderr, flush=True)
    return rows


def worst(rows, poll_ms):
    of_poll = [row for row in rows if row["poll_ms"] == poll_ms]
    exact = max(abs(row["exact_error"]) for row in of_poll)
    estimated = max(abs(row["snap_error"]) for row in of_poll)
    return f"exact off by {exact:.4f} at most, SNAP's estimator by {estimated:.3f}"


def one_run(whylat, seed, poll_ms, seconds):
    """Records all connections at once, in a namespace of their own, and judges each."""
    with tempfile.TemporaryDirectory() as scratch:
        recording = f"{scratch}/r.whylat"
        scene = ["unshare", "--net", sys.executable, __file__, "--whylat", os.path.abspath(whylat)]
        scene += ["--seed", str(seed), "--play", str(seconds), scratch]
        words = [whylat, "run", "--as-root", "--poll-ms", str(poll_ms), "--output", recording, "--"]
        run(words + scene, seconds * 3 + 60)
        report = json.loads(run([whylat, "report", recording, "--format", "json"], 120))
        planned = json.loads(pathlib.Path(scratch, "planned.json").read_text())
        truth = captured(f"{scratch}/lo.pcap", set(planned.values()))
    totals = {port_of(c["local"]): c["totals"] for c in report["connections"] if c["role"] == "client"}
    percents = {port: int(percent) for percent, port in planned.items()}
    return [
        judge(poll_ms, percents[server], seen, totals[client])
        for (client, server), seen in sorted(truth.items(), key=lambda item: percents[item[0][1]])
    ]


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def judge(poll_ms, percent, truth, totals):
    segments, delayed = truth
    share, exact, snap = delayed / segments, totals["delayed_ack_share"], totals["snap_delayed_ack_share"]
    return {
        "poll_ms": poll_ms,
        "percent": percent,
        "segments": segments,
        "delayed": delayed,
        "share": share,
        "exact": exact,
        "exact_error": error(percent, share, exact),
        "snap": snap,
        "snap_error": error(percent, share, snap),
    }


def error(percent, truth, reported):
    """SNAP's: relative to the truth; where that is to be zero, absolute."""
    return (truth - reported) / (truth if percent else 1)


def run(words, limit_s):
    """Returns the command's output; ends everything if it failed."""
    ran = subprocess.run(words, capture_output=True, text=True, timeout=limit_s)
    if ran.returncode != 0:
        raise SystemExit(f"error: `{' '.join(words)}` ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def play(whylat, seed, seconds, directory):
    """Within the recording and the namespace: capture, a server and its clients for each share."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    capture = start_capture(f"{directory}/lo.pcap")
    roles, planned = [], {}
    try:
        for percent in SHARES_PERCENT:
            round_ms = PAUSE_MS + (DELAYED_MS * percent + AT_ONCE_MS * (100 - percent)) / 100
            requests = max(20, round(seconds * 1000 / round_ms))
            limit = f"--limit-s {math.ceil(seconds * 3) + 30}"
            server = role(
                whylat,
                f"delay-acks --cc cubic {limit} --connections {CONNECTIONS} --requests {requests} "
                f"--delayed {round(requests * percent / 100)} --seed {seed * 1000 + percent}",
            )
            roles.append(server)
            planned[percent] = ready(server)
            client = role(
                whylat,
                f"request-reply --cc cubic {limit} --connect 127.0.0.1:{planned[percent]} --start-on-stdin "
                f"--concurrency {CONNECTIONS} --rounds {requests} --pause-us {PAUSE_MS * 1000}",
            )
            roles.append(client)
            ready(client)
        for one in roles[1::2]:
            one.stdin.write("\n")
            one.stdin.flush()
        for one in roles:
            _, output = one.communicate()
            if one.returncode != 0:
                raise SystemExit(f"error: a role ended with {one.returncode}: {output}")
        drain(f"{directory}/lo.pcap")
    finally:
        for one in roles:
            one.kill()
        capture.send_signal(signal.SIGINT)
        output = capture.communicate()[1]
    if "\n0 packets dropped by kernel" not in output:
        raise SystemExit(f"error: the capture is not whole: {output}\nhint: run it again on a quieter machine")
    pathlib.Path(directory, "planned.json").write_text(json.dumps(planned))


def start_capture(path):
    words = ["tcpdump", "-i", "lo", "-s", "96", "-B", "32768", "-Z", "root", "--immediate-mode", "-U"]
    words += ["-w", path, "tcp or udp"]
    capture = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    line = capture.stderr.readline()
    while line and "listening on" not in line:
        line = capture.stderr.readline()
    return capture


def drain(path):
    """Waits until the capture has written a datagram that was sent after all else."""
    mark = b"delayed_acks.py: this is the end"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(mark, ("127.0.0.1", DISCARD_PORT))
    end_s = time.monotonic() + 30
    while mark not in pathlib.Path(path).read_bytes()[-100_000:]:
        if time.monotonic() > end_s:
            raise SystemExit("error: the capture does not come to its end\nhint: is tcpdump still running?")
        time.sleep(0.05)


def role(whylat, words):
    pipe = subprocess.PIPE
    command = [whylat, "lab", "workload", *words.split()]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def ready(role):
    line = role.stdout.readline()
    if not line:
        raise SystemExit(f"error: a role did not start: {role.stderr.read()}")
    return json.loads(line)["ready"]


FIELDS = ("frame.time_epoch", "tcp.srcport", "tcp.dstport", "tcp.nxtseq", "tcp.ack", "tcp.len", "tcp.flags.syn")


def captured(path, servers):
    """Data segments that each client sent, and how many the server's timer acknowledged."""
    words = ["tshark", "-r", path, "-o", "tcp.relative_sequence_numbers:TRUE", "-T", "fields"]
    connections = defaultdict(Connection)
    for line in run(words + [word for field in FIELDS for word in ("-e", field)], 600).splitlines():
        time_s, source, destination, next_seq, ack, length, syn = line.split("\t")
        if not source:
            continue
        source, destination, length = int(source), int(destination), int(length)
        if syn in ("1", "True"):
            continue
        if destination in servers and length:
            connections[source, destination].sent(float(time_s), int(next_seq))
        if source in servers:
            connections[destination, source].acknowledged(float(time_s), int(ack), length == 0)
    return {ports: (seen.segments, seen.delayed) for ports, seen in connections.items()}


class Connection:
    """A segment's ACK is the first that covers it. The timer sent it if it carries nothing else and
    comes the timer's time after the oldest segment that it is the first to cover."""

    def __init__(self):
        self.segments = self.delayed = 0
        self.unacked = []

    def sent(self, time_s, next_seq):
        self.segments += 1
        self.unacked.append((next_seq, time_s))

    def acknowledged(self, time_s, ack, bare):
        covered = [sent for sent in self.unacked if sent[0] <= ack]
        self.unacked = self.unacked[len(covered) :]
        if bare and covered and time_s - covered[0][1] >= TIMER_LEAST_S:
            self.delayed += len(covered)


def cells(rows, key):
    """By poll interval and share: all connections' values."""
    by = defaultdict(list)
    for row in rows:
        by[row["poll_ms"], row["percent"]].append(row[key])
    return by


def interval(poll_ms):
    return f"{poll_ms} ms" if poll_ms < 1000 else f"{poll_ms // 1000} s"


def page(rows, plot_name):
    exact, snap = cells(rows, "exact_error"), cells(rows, "snap_error")
    polls = sorted({row["poll_ms"] for row in rows})
    head = "| polls every | " + " | ".join(f"{percent} %" for percent in SHARES_PERCENT) + " |"
    rule = "|---|" + "---:|" * len(SHARES_PERCENT)
    lines = [HEAD.format(kernel=platform.release().split("-")[0], connections=CONNECTIONS, plot=plot_name)]
    counts = {key: sum(row[key] for row in rows) for key in ("segments", "delayed")}
    missed = [row["delayed"] - round(row["exact"] * row["segments"]) for row in rows]
    counts["missed"] = sum(max(0, count) for count in missed)
    counts["beside"] = sum(max(0, -count) for count in missed)
    lines += ["## Exact", "", EXACT.format(**counts), "", head, rule]
    for poll_ms in polls:
        worst = [max(exact[poll_ms, percent], key=abs) for percent in SHARES_PERCENT]
        lines.append(f"| {interval(poll_ms)} | " + " | ".join(f"{round(value, 4) + 0:.4f}" for value in worst) + " |")
    lines += ["", "## SNAP's estimator", "", ESTIMATOR, "", head, rule]
    for poll_ms in polls:
        values = [snap[poll_ms, percent] for percent in SHARES_PERCENT]
        output = [f"{signed(statistics.mean(value))} ({signed(max(value, key=abs))})" for value in values]
        lines.append(f"| {interval(poll_ms)} | " + " | ".join(output) + " |")
    lines += ["", "## Against the goals", "", *verdicts(rows, exact, snap)]
    return "\n".join(lines) + "\n"


def signed(value):
    return f"{round(value, 3) + 0:+.3f}"


def verdicts(rows, exact, snap):
    most = max((abs(row["exact_error"]) for row in rows), default=0)
    yield f"- Exact, everywhere: {EXACT_MOST} at most; measured {most:.4f}. {grade(most <= EXACT_MOST)}"
    for percent, (most, polls_ms) in SNAP_MOST.items():
        of = [snap[poll_ms, percent] for poll_ms in polls_ms if (poll_ms, percent) in snap]
        if not of:
            continue
        if percent == 100:
            measured = abs(statistics.mean(value for values in of for value in values))
            how = "on average over all connections and intervals"
        else:
            measured = max(abs(value) for values in of for value in values)
            how = f"from {interval(min(polls_ms))} to {interval(max(polls_ms))}, of any connection"
        yield (
            f"- The estimator at {percent} %, {how}: SNAP has {most}; "
            f"measured {measured:.4f}. {grade(measured <= most)}"
        )


def grade(is_kept):
    return "Kept." if is_kept else "**Missed.**"


HEAD = """# Delayed ACKs

Which share of a connection's segments did the receiver's delayed-ACK timer acknowledge? The report
says it in two ways, in `totals` of each connection:

- `delayed_ack_share`, exact: the ledger counts the segments of every ACK that the timer must have sent
  (`acks_by_timer`), whether or not anyone waited for it. It needs detail `calls`. The other
  end of a recorded connection (`chosen` is `peer`) has none: it is rarely sampled.
- `snap_delayed_ack_share`: [SNAP](https://www.usenix.org/conference/nsdi11)'s estimate (section 4.2)
  from nothing but sums of round-trip times between polls,
  `(diff(SumRTT) − diff(SampleRTT) × MaxQueuingDelay) / DelayedACKTimeout`.

Both are compared here with a capture of the same traffic, made by tcpdump and taken apart by
tshark. The share is the same in all three: data segments with an ACK from the timer, of all data
segments. In the capture, an ACK counts as delayed by the timer under two conditions. It carries no data, and it came
36 ms or more (`TCP_DELACK_MIN` less a jiffy) after the oldest segment that no earlier ACK covers.

The traffic: requests of one segment each, over loopback. The server acknowledges a chosen part of them
at once by TCP_QUICKACK and leaves the others to the timer (`whylat lab workload
delay-acks`); {connections} connections for each share, all at once, each with another random order.
The error is SNAP's: (true − reported) / true; at 0 %, where a busy machine still has the timer expire
now and then, true − reported. Linux
{kernel}, HZ=250, virtual machine of two CPUs on a busy host. `make delayed-acks` writes
this page. SNAP polls, so below 40 ms, the time of the timer itself, nothing is claimed.

![Error of both methods by poll interval]({plot})
"""

EXACT = """The largest error of any connection, of {segments} segments in all. The count does not
depend on the polls, which only read it. Of {delayed} segments that the timer acknowledged it missed
{missed}, and it counted {beside} too many. Some kernels run no program while a protected process is
on the CPU, as this machine's does. An ACK with a softirq that interrupts it passes no hook ([what
the hooks cannot see](principles.md#what-the-hooks-cannot-see)).

It costs two questions. Does a segment that comes to a quiet socket carry data? Two numbers that TCP
has just written beside it say so. Was the peer of a bare ACK silent for 20 ms? Jiffies and a field
in a cache line that TCP is about to write say so. Only then is the ledger read, with a clock: at
most 50 times a second on a connection."""

ESTIMATOR = """The mean error of the connections, and in brackets the largest. The settings are
those for Linux: a DelayedACKTimeout of 36 ms and a MaxQueuingDelay of 2 ms. They are to its 40 ms
(`TCP_DELACK_MIN`) as SNAP's 180 ms and 10 ms are to the 200 ms of Windows. No interval has more
delayed ACKs than samples, or less than none. Other paths and receivers need other settings:
`whylat report --max-queuing-delay-us … --delayed-ack-timeout-us …`.

The formula takes MaxQueuingDelay off every sample. So it says too little where few ACKs are delayed
and an interval holds many samples: at 10 % it is off by a third. SNAP gives no error for such
shares; by the same formula, its own settings have a like one. Queues longer than MaxQueuingDelay
count as delayed ACKs."""

COLOURS = {10: "#9467bd", 50: "#2ca02c", 75: "#ff7f0e", 100: "#d62728", "exact": "#1f77b4"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 60, 150, 30, 50
ERROR_LEAST, ERROR_MOST = -0.25, 0.55


def plot(rows):
    """As SNAP's figure 3: the error by poll interval, a line for each share."""
    exact, snap = cells(rows, "exact_error"), cells(rows, "snap_error")
    polls = sorted({row["poll_ms"] for row in rows})
    parts = [SVG_HEAD.format(width=WIDTH, height=HEIGHT), *axes(polls)]
    lines = {}
    for percent in SHARES_PERCENT[1:]:
        lines[percent] = [(poll_ms, statistics.mean(snap[poll_ms, percent])) for poll_ms in polls]
    lines["exact"] = [
        (poll_ms, max((e for percent in SHARES_PERCENT for e in exact[poll_ms, percent]), key=abs))
        for poll_ms in polls
    ]
    for place, (name, points) in enumerate(lines.items()):
        parts += line(name, points, place, polls)
    return "\n".join(parts + ["</svg>"]) + "\n"


def x_of(poll_ms, polls):
    span = math.log(polls[-1] / polls[0]) or 1
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(poll_ms / polls[0]) / span


def y_of(value):
    value = min(max(value, ERROR_LEAST), ERROR_MOST)
    return TOP + (HEIGHT - TOP - BOTTOM) * (ERROR_MOST - value) / (ERROR_MOST - ERROR_LEAST)


def axes(polls):
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    band = max(500, polls[0])
    if band < polls[-1]:
        width, height = right - x_of(band, polls), y_of(-0.2) - y_of(0.2)
        yield f'<rect class="band" x="{x_of(band, polls):.1f}" y="{y_of(0.2):.1f}" width="{width:.1f}" height="{height:.1f}"/>'
        yield f'<text x="{right - 4}" y="{y_of(0.2) - 4:.1f}" text-anchor="end">SNAP at 75 %: within 0.2</text>'
    for tenth in range(-2, 6):
        y = y_of(tenth / 10)
        yield f'<line class="{"zero" if tenth == 0 else "grid"}" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>'
    for poll_ms in polls:
        x = x_of(poll_ms, polls)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{interval(poll_ms)}</text>'
    yield f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">mean poll interval</text>'
    yield f'<text x="{LEFT}" y="{TOP - 12}">error: (true − reported) / true</text>'


def line(name, points, place, polls):
    colour = COLOURS[name]
    dash = "" if name == "exact" else ' stroke-dasharray="6 3"'
    path = " ".join(f"{x_of(poll_ms, polls):.1f},{y_of(value):.1f}" for poll_ms, value in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
    for poll_ms, value in points:
        yield f'<circle cx="{x_of(poll_ms, polls):.1f}" cy="{y_of(value):.1f}" r="3" fill="{colour}"/>'
    label = "exact, worst of all" if name == "exact" else f"estimator, {name} %"
    x, y = WIDTH - RIGHT + 12, TOP + 14 + place * 20
    yield f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{colour}"/><text x="{x + 10}" y="{y}">{label}</text>'


SVG_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="Error of the share of delayed ACKs by poll interval">
<style>
text {{ font: 12px sans-serif; fill: #333 }}
.grid {{ stroke: #8886 }}
.zero {{ stroke: #888; stroke-width: 1.5 }}
.band {{ fill: #8882 }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #ccc }} }}
</style>"""

if __name__ == "__main__":
    main()
