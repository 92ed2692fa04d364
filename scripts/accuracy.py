#!/usr/bin/env python3
"""Plants every fault of `whylat lab list`, and its healthy twin, records and diagnoses each, and
counts how often the diagnosis says what was planted, of the connections, requests or processes that it was planted on.

Writes the page (docs/accuracy.md) to --output, every instance to --json. Needs root.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict

# Faults that use up a CPU: nothing else is played beside them.
OF_CPUS = (
    *("starved_server", "starved_reader", "softirq_flood"),
    *("blocked_event_loop", "computes", "cpu_quota", "small_io", "uneven_workers"),
)
# Answers, not problems: never above info. The list is generated: make golden.
ANSWERS = ("local_queue", "path_limited", "reset_by_us", "send_buffer_exceeds_window", "sender_app_limited", "zerocopy_copied")
# Exit status of a report on a recording that is not whole.
EVENTS_LOST = 3


def faults(whylat):
    output = subprocess.run([whylat, "lab", "list", "--json"], check=True, capture_output=True)
    return [json.loads(line) for line in output.stdout.splitlines()]


@functools.cache
def causes(whylat):
    """Names of the faults of requests and programs, for which the congestion control does not matter."""
    return {fault["name"] for fault in faults(whylat) if len(fault["congctls"]) == 1}


def play(whylat, fault, variant, congctl, seed, keep):
    """The ground truth, the report and the score of one instance; one that is wrong is copied to `keep`."""
    with tempfile.TemporaryDirectory() as scratch:
        recording = f"{scratch}/r.whylat"
        words = ["lab", "fault", fault, "--variant", variant, "--congctl", congctl]
        truth = f"{scratch}/truth.json"
        run(whylat, *words, "--seed", str(seed), "--truth", truth, "--record", recording)
        report = f"{scratch}/report.json"
        output = run(whylat, "report", recording, "--format", "json", also=(EVENTS_LOST,))
        pathlib.Path(report).write_text(output)
        score = json.loads(run(whylat, "lab", "score", truth, report))
        score = {name: {(rule, subject) for rule, subject in named} for name, named in score.items()}
        if keep and (score["planted"] != score["found"] or score["beside"]):
            shutil.copytree(scratch, keep / f"{fault}.{variant}.{congctl}.{seed}", dirs_exist_ok=True)
        return json.loads(pathlib.Path(truth).read_text()), json.loads(output), score


def run(*words, also=()):
    """Returns the command's output; ends everything if it failed."""
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if ran.returncode not in (0, *also):
        raise SystemExit(f"error: `{' '.join(words)}` ended with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout


def connections_of(end):
    """Returns the connections of an end; a program that is not the lab's says nothing of them."""
    return end.get("connections", [])


def bytes_per_s(pair, client):
    """How fast a client's work was done; what only goes to the server, to the end of the server's part."""
    sent = sum(connection["send"]["bytes"] for connection in connections_of(client))
    received = sum(connection["recv"]["bytes"] for connection in connections_of(client))
    end_ns = client["end_ns"] if received else max(client["end_ns"], pair["server"]["end_ns"])
    return sent * 1e9 / (end_ns - client["start_ns"])


def estimated(truth, report, planted):
    """Returns the gain that the finding of the planted fault on the first pair had estimated, whether it is a
    lower bound, and the number of the pair's client."""
    pair = truth["roles"][0]
    ends = pair["clients"] + [end for end in (pair["proxy"], pair["server"]) if end]
    of_pair = {connection["cookie"] for end in ends for connection in connections_of(end)}
    for finding in report["findings"]:
        ids = of_pair.intersection(finding["subject"]["ids"])
        if any(rule == finding["rule"] and cookie in ids for rule, cookie in planted):
            win = finding["estimated_win"]
            return win and (win["times_faster"], win["at_least"], client_of(pair, ids))
    return None


def client_of(pair, ids):
    """Number of the client that has one of these connections, or the other end of one."""
    served = {c["remote"] for c in connections_of(pair["server"]) if c["cookie"] in ids}
    for number, client in enumerate(pair["clients"]):
        if any(c["cookie"] in ids or c["local"] in served for c in connections_of(client)):
            return number
    return 0


def instances(whylat, seeds, only):
    """One seed after the other, so that what is played when the time is over is whole."""
    planted = [fault for fault in faults(whylat) if not only or fault["name"] in only]
    for seed in range(1, seeds + 1):
        for fault in planted:
            variants = ("faulty", "healthy", "mended") if fault["mendable"] else ("faulty", "healthy")
            for congctl in fault["congctls"]:
                for variant in variants:
                    yield fault["name"], congctl, variant, seed


def wire_lost(truth):
    """Packets that did not arrive, by the wire's own account: direction and cause."""
    lost = {}
    for direction in ("a_to_b", "b_to_a"):
        wire = truth["wire"][direction]
        by_cause = {cause: dropped["packets"] for cause, dropped in wire["dropped"].items()}
        by_cause["before_wire"] = wire["dropped_before_wire"]
        lost[direction] = {cause: packets for cause, packets in by_cause.items() if packets}
    return lost


def judged(whylat, build, keep, fault, congctl, variant, seed):
    """One instance, played and scored."""
    truth, report, score = play(whylat, fault, variant, congctl, seed, keep)
    planted, found, beside = score["planted"], score["found"], score["beside"]
    return {
        "fault": fault,
        "is_cause": fault in causes(whylat),
        "congctl": congctl,
        "variant": variant,
        "seed": seed,
        "build": build,
        "planted": sorted({rule for rule, _ in planted}),
        "found": sorted({rule for rule, _ in found}),
        "missed": sorted({rule for rule, _ in planted - found}),
        "beside": sorted({rule for rule, _ in beside}),
        "bytes_per_s": [bytes_per_s(truth["roles"][0], client) for client in truth["roles"][0]["clients"]],
        "estimated": estimated(truth, report, planted),
        "undecided": sorted({c for u in report["undecided"] for c in u["candidates"]}),
        "lost": sum(loss["lost_total"] for loss in report["loss"]),
        "paused": paused(truth),
        "wire_lost": wire_lost(truth),
    }


def paused(truth):
    """Returns the longest pause of a CPU, as a share of the play."""
    machine = truth["machine"]
    return max(cpu["paused_ns"] for cpu in machine["cpus"]) / (machine["end_ns"] - machine["start_ns"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whylat", default="target/release/whylat")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=600, help="begin no instance after that")
    parser.add_argument("--jobs", type=int, default=1, help="instances at a time")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--section", action="store_true", help="replace only the section of requests and programs in --output")
    parser.add_argument("--json", type=pathlib.Path, help="each instance, as soon as it is judged; those that are there already are not played again")
    parser.add_argument("--keep", type=pathlib.Path, help="copy the recordings of wrong instances into this folder")
    parser.add_argument("--refresh", action="store_true", help="then record the plays of tests/replay again, and keep those that are right")
    parser.add_argument("--build", default=commit(), help="what the whylat was built from")
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    rows = [json.loads(line) for line in options.json.open()] if options.json and options.json.exists() else []
    played = {(row["fault"], row["congctl"], row["variant"], row["seed"]) for row in rows}
    todo = [one for one in instances(options.whylat, options.seeds, options.only) if one not in played]

    def one(instance):
        if time.monotonic() < until:
            row = judged(options.whylat, options.build, options.keep, *instance)
            rows.append(row)
            report_row(row, len(rows), len(todo) + len(played), options.json)

    for seed in range(1, options.seeds + 1):
        of_seed = [instance for instance in todo if instance[3] == seed]
        alone = [instance for instance in of_seed if instance[0] in OF_CPUS]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(one, [instance for instance in of_seed if instance not in alone]))
        for instance in alone:
            one(instance)
    if options.section:
        text = replaced(options.output.read_text(), rows)
    elif all(row["is_cause"] for row in rows):
        text = "\n".join(cause_lines(rows))
    else:
        text = page(rows)
    if options.output:
        options.output.write_text(text)
    else:
        sys.stdout.write(text)
    if options.refresh:
        refresh()


def refresh():
    """Lets the replayed tests record their faults again (tests/replay/README.md)."""
    words = ["cargo", "test", "--release", "--workspace", "--test", "replay", "--", "--test-threads=1", "faults::"]
    ended = subprocess.run(words, env={**os.environ, "WHYLAT_PLAYS": "refresh"})
    if ended.returncode:
        raise SystemExit("error: not all recordings of faults were refreshed\nhint: refresh those again that failed, by name")


def commit():
    output = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return output.stdout.strip() or "unknown"


def report_row(row, at, of, path):
    wrong = " ".join(["missed " + rule for rule in row["missed"]] + ["beside " + rule for rule in row["beside"]])
    print(f"{at}/{of} {row['fault']} {row['congctl']} {row['variant']} {row['seed']} {wrong or 'right'}", flush=True)
    if path:
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def ratio(part, whole):
    return f"{part / whole:.3f}" if whole else "–"


CAUSES = "## Faults of requests and programs"


def cause_lines(rows):
    """Returns the section of faults of requests and programs: the score by rule, and every miss."""
    rows = [row for row in rows if row.get("is_cause")]
    if not rows:
        return []
    instances = Counter((row["fault"], row["variant"]) for row in rows)
    false = Counter()
    loud = Counter(row["fault"] for row in rows if row["variant"] == "healthy" and row["beside"])
    hit = Counter(row["fault"] for row in rows if row["fault"] in row["found"])
    for row in rows:
        false.update(row["beside"])
    builds = ", ".join(f"{build} ({n})" for build, n in Counter(row["build"] for row in rows).most_common())
    lines = [CAUSES, "", CAUSE_HEAD.format(instances=len(rows), builds=builds)]
    lines += ["| rule | planted | found | recall | precision | twins | of these above info |", "|---|---:|---:|---:|---:|---:|---:|"]
    for rule in sorted({row["fault"] for row in rows}):
        planted, found = instances[rule, "faulty"], hit[rule]
        precision = "–" if rule in ANSWERS else ratio(found, found + false[rule])
        twins = instances[rule, "healthy"]
        lines.append(f"| `{rule}` | {planted} | {found} | {ratio(found, planted)} | {precision} | {twins} | {loud[rule]} |")
    others = {rule: n for rule, n in false.items() if rule not in instances_rules(rows)}
    if others:
        words = ", ".join(f"`{rule}` ({n})" for rule, n in sorted(others.items()))
        lines += ["", f"Other rules that were reported beside these: {words}."]
    wrong = [row for row in rows if row["missed"] or row["beside"]]
    lines += ["", *[f"- {wrong_row(row)}" for row in wrong]]
    return [*lines, ""]


def instances_rules(rows):
    """Returns the rules that are planted."""
    return {row["fault"] for row in rows}


def replaced(text, rows):
    """Returns a page with a new section of requests and programs; one without it gets it before the misses."""
    lines = text.splitlines()
    begin = lines.index(CAUSES) if CAUSES in lines else lines.index("## Misses")
    after = [at for at in range(begin + 1, len(lines)) if lines[at].startswith("## ")]
    end = begin if CAUSES not in lines else after[0]
    return "\n".join(lines[:begin] + cause_lines(rows) + lines[end:]) + "\n"


def page(every):
    """Returns the page: the score by rule, the findings of each fault, and every miss."""
    rows = [row for row in every if not row.get("is_cause")]
    hit, miss, false = Counter(), Counter(), Counter()
    output = defaultdict(Counter)
    for row in rows:
        hit.update(row["found"])
        miss.update(row["missed"])
        false.update(row["beside"])
        what = row["found"] + row["beside"] or ["nothing"]
        output[row["fault"], row["variant"], row["congctl"]].update(what)
    seeds = max(row["seed"] for row in rows)
    times = "once" if seeds == 1 else f"up to {seeds} times"
    paused = statistics.median(row["paused"] for row in rows if row["paused"] is not None)
    kernel = platform.release().split("-")[0]
    builds = ", ".join(f"{build} ({n})" for build, n in Counter(row["build"] for row in rows).most_common())
    lines = [HEAD.format(times=times, instances=len(rows), kernel=kernel, paused=paused, builds=builds)]
    lines += ["| rule | planted | found | precision | recall |", "|---|---:|---:|---:|---:|"]
    for rule in sorted(set(hit) | set(miss) | set(false)):
        planted = hit[rule] + miss[rule]
        precision, recall = ratio(hit[rule], hit[rule] + false[rule]), ratio(hit[rule], planted)
        if rule in ANSWERS:
            precision = "–"
        lines.append(f"| `{rule}` | {planted} | {hit[rule]} | {precision} | {recall} |")
    for rule in ANSWERS:
        del hit[rule], miss[rule]
    planted, found = sum(hit.values()) + sum(miss.values()), sum(hit.values())
    overall = ratio(found, found + sum(false.values())), ratio(found, planted)
    lines.append(f"| **all problems** | {planted} | {found} | **{overall[0]}** | **{overall[1]}** |")
    lines += ["", "## Findings by fault", ""]
    lines += ["| fault | form | congestion control | findings (instances) |", "|---|---|---|---|"]
    for (fault, variant, congctl), what in sorted(output.items()):
        words = ", ".join(f"{rule} ({n})" for rule, n in what.most_common())
        form = "fixed" if variant == "mended" else variant
        lines.append(f"| `{fault}` | {form} | {congctl} | {words} |")
    lines += ["", "## Advice", "", ADVICE]
    lines += wins(rows)
    lines += ["", *cause_lines(every), "## Misses", ""]
    wrong = [row for row in rows if row["missed"] or row["beside"]]
    lines += [f"- {wrong_row(row)}" for row in wrong] or ["None."]
    return "\n".join(lines) + "\n"


def wrong_row(row):
    played = f"{row['fault']} --variant {row['variant']} --congctl {row['congctl']} --seed {row['seed']}"
    paused = row["paused"]
    beside = "" if paused is None else f"; a CPU paused {paused:.1%} of the time"
    lost = row.get("wire_lost", {}).items()
    lost = [f"{n} {direction} ({cause})" for direction, causes in lost for cause, n in causes.items()]
    beside += f"; the wire lost {', '.join(lost)}" if lost else ""
    reason = REASONS.get((row["fault"], row["congctl"], row["variant"], row["seed"]))
    return (
        f"`whylat lab fault {played}`: missed {', '.join(row['missed']) or 'nothing'}, also reported "
        f"{', '.join(row['beside']) or 'nothing'}{beside}. "
        f"{reason or 'Not examined yet.'}"
    )


def wins(rows):
    """Yields a row for each fault with a fix: the estimated and the measured gain."""
    by = {(row["fault"], row["congctl"], row["variant"], row["seed"]): row for row in rows}
    pairs = defaultdict(list)
    for (fault, congctl, variant, seed), row in by.items():
        if variant == "mended":
            faulty = by.get((fault, congctl, "faulty", seed))
            if not faulty:
                continue
            client = faulty["estimated"][2] if faulty["estimated"] else 0
            measured = row["bytes_per_s"][client] / faulty["bytes_per_s"][client]
            pairs[fault, congctl].append((faulty["estimated"], measured))
    for (fault, congctl), wins in sorted(pairs.items()):
        measured = statistics.median(measured for _, measured in wins)
        estimates = [win for win, _ in wins if win]
        if estimates:
            least = "at least " if any(at_least for _, at_least, _ in estimates) else ""
            estimate = f"{least}{statistics.median(times for times, _, _ in estimates):.1f}×"
        else:
            estimate = "none"
        held = sum(agrees(win, measured) for win, measured in wins if win)
        yield f"| `{fault}` | {congctl} | {estimate} | {measured:.1f}× | {held} of {len(estimates)} |"


def agrees(win, measured):
    times, at_least, _ = win
    return measured >= times / 2 and (at_least or measured <= times * 2)


# Why an instance was judged wrongly, found by looking at its recording.
REASONS = {
    ("tiny_send_buffer", "cubic", "faulty", 4): "False, and fixed since: new data began to flow a timeout after the last, but "
    "losses had been recovered meanwhile; that is no pause.",
    ("tiny_send_buffer", "cubic", "faulty", 6): "False, and fixed since: as seed 4.",
    ("tiny_send_buffer", "cubic", "faulty", 8): "False, and fixed since: as seed 4.",
    ("delay_spikes", "bbr", "faulty", 2): "False: the last stall was a late ACK, too, but it came after the end had closed, "
    "where ACKs pass no hook.",
    ("softirq_flood", "bbr", "faulty", 2): "Beside the softirqs: the process waited for its CPU, by its own accounts.",
    ("uneven_workers", "cubic", "healthy", 1): "True of the program: its workers waited for a CPU 28 % of the time. A connection of "
    "half a millisecond was judged apart; since then the score takes the waits of the program.",
    ("udp_drops", "cubic", "healthy", 11): "The server's thread ran for 7.9 ms on one datagram that needs some microseconds, and 25 waited "
    "behind it. What it ran is not known: no sample fell on it.",
    ("incast", "cubic", "faulty", 6): "True of that connection: the receiver delayed the ACK after its timeout.",
}

ADVICE = """The lab follows the first advice of each finding (`--variant mended`). Measured is how
much faster the client's bytes went (of several clients, the one with the connection); estimated is
the gain that the finding had named. They agree within a factor of two; an estimate that is a lower
bound agrees if the measured gain is at least half of it. "None": the finding says that it cannot
estimate. In `path_limited` and `reordering` there is nothing to fix.

| fault | congestion control | estimated, median | measured, median | agree |
|---|---|---:|---:|---:|"""

CAUSE_HEAD = """One fault for each rule on requests and programs, of its name, and a healthy twin: {instances} instances, each with other sizes,
delays, counts and shares. Real programs where they show it best (redis, glibc's resolver, a firewall, a control group), else those
of the lab. Built from (instances): {builds}.

Found: a finding above `info` names the rule and the service (side, address, process) or process on which it was
planted; `reset_by_us` is an answer, at any severity. Precision: of all findings of the rule above `info`, in every
instance here. Twins above info had any such finding. True of a workload, and so not false: `serial_round_trips` of a
client with one request after another. Also `cpu_contention`, `slow_reader` and `remote_slow` of threads that waited
more than 5 % of the time for a CPU.
"""

HEAD = """# Accuracy

How often is the diagnosis right? Every fault of connections of `whylat lab list` is planted {times}, with cubic and
with bbr. Each time has other sizes, delays and losses. With each comes its healthy twin, which differs in nothing but
the fault: {instances} instances. Linux {kernel}, virtual machine of two CPUs on a busy host. Built from (instances):
{builds}. `make accuracy` writes this page.

A fault is found if a finding above `info` names its rule and its socket, while the fault lasted. The finding's
interval then covers half of the planted one or more. `path_limited`, `send_buffer_exceeds_window` and
`sender_app_limited` are answers and no problems, and count at any severity. Healthy twins get them, too, so they have
no precision and are not in the sum. Any other finding above `info`, of any connection, is false. There is one
exception. The machine itself may be too busy. Then the program's own thread waited more than 5 % of the time for a
CPU (the lab reads its schedstat). Then `cpu_contention` of it is true, and so is `slow_reader` of its other end. An
instance counts once for each rule. A paused CPU excuses nothing, but each miss names it. On such a CPU, a thread with
the highest priority was woken a jiffy or more too late. The median of the instances with this measurement is
{paused:.2%} of the time.

What is planted is what the lab can plant so far, by its own programs over its own wire. The score
says nothing of faults that are not in the list.

## SNAP's problems

SNAP (NSDI 2011) describes ten problems in its sections 6.1 to 6.3. The table has the fault that plants each here, and
the finding that names it.

| SNAP | fault | finding |
|---|---|---|
| 6.1 requests spread over several connections | `thin_connections` | `thin_stream_timeouts` |
| 6.1 a burst after idle, with slow start after idle off | `burst_after_idle` | `burst_after_idle` |
| 6.1 a delayed ACK after a timeout | `delayed_ack_after_timeout` | `delayed_ack_after_timeout` |
| 6.2 a send buffer of zero, an odd last segment | `odd_segment` (Linux: only where one segment fills the buffer) | `delayed_ack` |
| 6.2 the logging application | `logging_client` | `nagle_delayed_ack` |
| 6.2 the proxy of one thread | `waiting_proxy`, `head_of_line` | `proxy_stall` |
| 6.3 a switch port that fails | `random_loss`, `burst_loss`, `black_hole`, on one host | `fast_retransmits`, `retransmit_timeouts`; the port is unknown to a single host |
| 6.3 receiver window negotiation | `window_scale_lost` | `receive_buffer_limited` |
| 6.3 a receiver that does not read in time | `slow_reader` | `slow_reader` |
| 6.3 latency by Nagle's algorithm | `write_write_read` | `nagle_delayed_ack` |

How near the share of delayed ACKs is to a packet capture is on [a page of its own](delayed_acks.md).
Where requests' time goes is scored beside [what a request is](requests.md#accuracy).

## Score
"""

if __name__ == "__main__":
    main()
