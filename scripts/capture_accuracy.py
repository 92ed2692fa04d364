#!/usr/bin/env python3
"""Plants the TCP faults of `whylat lab list`, captures each with tcpdump at both ends and at a router between them, beside a
live recording. Counts how often `whylat import pcap` leads to the finding that was planted: at the sender of the data, at
its receiver, between them, and live.

Writes the table to --output, every instance to --json. Needs root and tcpdump; with tshark, its expert information
is beside.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections import Counter, defaultdict

# Faults that lie in the path or in TCP. Others are of CPUs, threads and programs, which no packet shows.
FAULTS = (
    "write_write_read", "tiny_receive_buffer", "slow_reader", "random_loss", "reordering", "tail_loss", "black_hole",
    "syn_loss", "delay_spikes", "thin_connections", "burst_after_idle", "delayed_ack_after_timeout", "incast", "path_limited",
    "window_scale_lost", "burst_loss",
)
ANSWERS = ("path_limited", "reset_by_us", "send_buffer_exceeds_window", "sender_app_limited")
# Exit status of a report on a recording that is not whole.
EVENTS_LOST = 3
PLACES = ("live", "sender", "receiver", "between")
# Faults behind a place that no packet shows there: SYNs that were lost before it, and a window scale that is changed behind it.
BEHIND = ("syn_loss", "window_scale_lost")


def run(*words, also=()):
    ran = subprocess.run(words, capture_output=True, text=True, timeout=180)
    if ran.returncode not in (0, *also):
        raise SystemExit(f"error: `{' '.join(words)}` ended with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout


def ends(truth):
    """Yields every end of a connection that the lab knows, with the side that it is on."""
    for pair in truth["roles"]:
        for side, roles in (("client", pair["clients"]), ("server", [pair["server"]])):
            for role in roles:
                for connection in role["connections"]:
                    yield side, connection


def sender(truth):
    """Returns the side that sent more."""
    sent = Counter()
    for side, connection in ends(truth):
        sent[side] += connection["send"]["bytes"]
    return "client" if sent["client"] >= sent["server"] else "server"


def is_hidden(truth, place):
    """Whether no packet at this place shows the fault. The sender's end is the client's."""
    if truth["fault"] not in BEHIND:
        return False
    if truth["fault"] == "window_scale_lost" and not truth["wire"]["b_to_a"]["window_scales_changed"]:
        return False
    return place == "receiver" or place == "between" and truth["fault_side"] == "client"


def as_live(report, truth, ahead_ns):
    """The report of a capture with the lab's cookies and the lab's clock. `ahead_ns`: CLOCK_REALTIME less CLOCK_MONOTONIC."""
    cookies = {(it["local"], it["remote"]): it["cookie"] for _, it in ends(truth)}
    of = {it["id"]: cookies.get((it["local"], it["remote"])) for it in report["connections"]}
    shift = report["host"]["started_realtime_ns"] - report["host"]["started_ns"] - ahead_ns
    for finding in report["findings"]:
        finding["subject"]["ids"] = [of[id] for id in finding["subject"]["ids"] if of.get(id)]
        finding["from_ns"] += shift
        finding["until_ns"] += shift
    for connection in report["connections"]:
        connection["id"] = of[connection["id"]] or 0
    return report


def score(whylat, scratch, truth, report):
    path = scratch / "scored.json"
    path.write_text(json.dumps(report))
    named = json.loads(run(whylat, "lab", "score", truth, str(path)))
    return {name: sorted({rule for rule, _ in named}) for name, named in named.items()}


def expert(path):
    """Returns tshark's errors, warnings and notes: each message with its number; `None`: it is not installed."""
    if not shutil.which("tshark"):
        return None
    counts = Counter()
    text = run("tshark", "-r", str(path), "-q", "-z", "expert")
    for line in text.partition("\nChats")[0].splitlines():
        words = line.split(None, 3)
        if len(words) == 4 and words[0].isdigit() and words[2] == "TCP" and "connection closing" not in words[3]:
            counts[words[3].partition("(#")[0].strip()] += int(words[0])
    return counts


def play(whylat, fault, variant, congctl, seed, keep):
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        recording, truth_path = f"{name}/live.whylat", f"{name}/truth.json"
        ahead_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        words = ["lab", "fault", fault, "--variant", variant, "--congctl", congctl, "--seed", str(seed)]
        words += ["--captures", name, "--truth", truth_path]
        run(whylat, "run", "--output", recording, "--", whylat, *words)
        truth = json.loads(pathlib.Path(truth_path).read_text())
        live = json.loads(run(whylat, "report", recording, "--format", "json", also=(EVENTS_LOST,)))
        row = {"fault": fault, "variant": variant, "congctl": congctl, "seed": seed}
        row["live"] = score(whylat, scratch, truth_path, live)
        at = sender(truth)
        row["expert"] = expert(scratch / f"{at}.pcap")
        sides = {"sender": at, "receiver": "server" if at == "client" else "client", "between": "between"}
        for place, side in sides.items():
            imported = f"{name}/{side}.whylat"
            run(whylat, "import", "pcap", f"{name}/{side}.pcap", "-o", imported)
            report = json.loads(run(whylat, "report", imported, "--format", "json", also=(EVENTS_LOST,)))
            row[place] = score(whylat, scratch, truth_path, as_live(report, truth, ahead_ns))
            if is_hidden(truth, place):
                row[place]["hidden"], row[place]["planted"] = row[place]["planted"], []
        wrong = any(row[place]["planted"] != row[place]["found"] or row[place]["beside"] for place in PLACES)
        if keep and wrong:
            shutil.copytree(scratch, keep / f"{fault}.{variant}.{congctl}.{seed}", dirs_exist_ok=True)
        return row


def ratio(part, whole):
    return f"{part / whole:.2f}" if whole else "–"


def page(rows):
    """Returns the tables of docs/captures.md."""
    hit, miss, false, hidden = (defaultdict(Counter) for _ in range(4))
    seen = defaultdict(Counter)
    for row in rows:
        for place in PLACES:
            named = row[place]
            hit[place].update(named["found"])
            miss[place].update(set(named["planted"]) - set(named["found"]))
            false[place].update(named["beside"])
            hidden[place].update(named.get("hidden", []))
        if row["variant"] == "faulty" and row["expert"]:
            seen[row["fault"]].update(row["expert"].keys())
    rules = sorted({rule for place in PLACES for rule in (*hit[place], *miss[place], *false[place])})
    lines = ["| rule | planted | " + " | ".join(f"{place}: recall | precision" for place in PLACES) + " |"]
    lines.append("|---|---:|" + "---:|---:|" * len(PLACES))
    sums = defaultdict(lambda: [0, 0, 0])
    for rule in rules:
        cells = []
        for place in PLACES:
            found, missed, beside = hit[place][rule], miss[place][rule], false[place][rule]
            precision = "–" if rule in ANSWERS else ratio(found, found + beside)
            cells += [ratio(found, found + missed), precision]
            if rule not in ANSWERS:
                sums[place] = [a + b for a, b in zip(sums[place], (found, missed, beside))]
        planted = hit["live"][rule] + miss["live"][rule]
        lines.append(f"| `{rule}` | {planted} | " + " | ".join(cells) + " |")
    cells = []
    for place in PLACES:
        found, missed, beside = sums[place]
        cells += [f"**{ratio(found, found + missed)}**", f"**{ratio(found, found + beside)}**"]
    planted = sum(sums["live"][:2])
    lines.append(f"| **all problems** | {planted} | " + " | ".join(cells) + " |")
    for place in PLACES:
        for rule, count in sorted(hidden[place].items()):
            hidden_line = f"At the place {place}, no packet shows {count} instances of `{rule}`. They do not count there."
            lines += ["", hidden_line]
    if seen:
        played = Counter(row["fault"] for row in rows if row["variant"] == "faulty")
        lines += ["", "| fault | what `tshark -z expert` says of the capture at the sender (instances) |", "|---|---|"]
        for fault, counts in sorted(seen.items()):
            named = ", ".join(f"{message} ({n} of {played[fault]})" for message, n in counts.most_common(6))
            lines.append(f"| `{fault}` | {named} |")
    return "\n".join(lines) + "\n"


def write(path, text):
    """Puts the tables between the marks of the page."""
    begin, end = "<!-- begin: make accuracy -->\n", "<!-- end -->"
    old = path.read_text() if path.exists() else begin + end
    before, rest = old.split(begin, 1)
    path.write_text(before + begin + text + end + rest.split(end, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whylat", default="target/release/whylat")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60, help="begin no instance after that")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--congctl", nargs="*", default=["cubic"])
    parser.add_argument("--output", type=pathlib.Path, help="page with marks between which the tables go")
    parser.add_argument("--json", type=pathlib.Path, help="each instance; those that are there are not played again")
    parser.add_argument("--keep", type=pathlib.Path, help="copy the files of wrong instances into this folder")
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    rows = [json.loads(line) for line in options.json.open()] if options.json and options.json.exists() else []
    played = {(row["fault"], row["variant"], row["congctl"], row["seed"]) for row in rows}
    for seed in range(1, options.seeds + 1):
        for fault in options.only or FAULTS:
            for congctl in options.congctl:
                for variant in ("faulty", "healthy"):
                    key = (fault, variant, congctl, seed)
                    if key in played or time.monotonic() > until:
                        continue
                    row = play(options.whylat, *key, options.keep)
                    rows.append(row)
                    print(*key, *(f"{place}: {row[place]['found']} beside {row[place]['beside']}" for place in PLACES), flush=True)
                    if options.json:
                        with options.json.open("a") as file:
                            file.write(json.dumps(row) + "\n")
    text = page(rows)
    if options.output:
        write(options.output, text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
