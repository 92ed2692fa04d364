"""Checks of a guest's results. In: each result's text, by its name. Out: for each check what is
wrong with it, or nothing."""

import csv
import json
import re

# Probes that may be off: what depends on the machine. The kernel of an emulated one may find that the CPU's counter does not
# agree with another timer, and no longer trust it.
NOT_OF_THE_KERNEL = {"itt", "clock.perf", "clock.ptp", "messages.nic"}

# Probes that may be off if the remedy says so: at hooks that only newer kernels have, and written for one architecture.
OF_SOME_KERNELS = {"drops.icmp": "newer", "waits.python": "on x86-64"}

# Exit code of whylat when records were lost: a check of its own.
RECORDS_LOST = 3

# What the stalling client of `loopback` does; it meets a stall in all but a few of its rounds.
ROUNDS = 41
SENDS = 2 * ROUNDS
BYTES = 50 * SENDS
STALLS_LEAST = ROUNDS - 4

# Linux 7.2 preempts a thread inside a tracepoint's program, too, and then does not run it for another
# thread on that CPU: a record is lost, and counted. An emulated guest is slow enough to see it.
LOST_MOST = {"reentered": 5}

# Lines of a trace that `import` may leave out.
NO_ACTIVITY = {"blank", "comments and headings", "events that are no activity"}

# What each kind of recording must find, where the kernel lets it measure.
FINDINGS = {
    "loopback": "nagle_delayed_ack",
    "black_hole": "retransmit_timeouts",
    "swallowed": "retransmit_timeouts",
}
# The same where drops of this host are recorded: its own netem drops there.
FINDINGS_OF_DROPS = FINDINGS | {"swallowed": "packet_dropped_here"}

# Those that polls leave undecided, as detail `stats` must (docs/findings/nagle_delayed_ack.md).
UNDECIDED = {"loopback"}

# Those with a path that loses data for longer than a retransmission timeout.
LOSSY = {"black_hole", "swallowed"}

# Of these, polls alone meet the connection by chance: it is in a namespace of its own, and they look for new
# ones every 5 s (REFRESH_EVERY_NS).
SEEN_BY_CHANCE = {"black_hole"}

# Probes that are nothing without programs in the kernel, by the detail that begins to ask for them.
BY_PROGRAMS = {
    "stats": ["inventory", "failed_connects", "tcp_events", "drops"],
    "calls": ["calls", "tcp_stages", "zerocopy"],
    "waits": ["waits", "dns_waits", "preemptions", "spins", "on_cpu_samples", "unix_sockets", "udp_flows"],
    "messages": ["messages"],
}

# What `odd_sockets` sends and receives at either end, and what the kernel adds: to each record of TLS its header, nonce
# and tag; for SMC the client's one message that says that it falls back, which the server looks at before it takes it.
ODD_BYTES, TLS_BYTES, SMC_BYTES = 100, 5 + 8 + 16, 28
ODD_STREAMS = {
    "tls": {"client": ROUNDS * (ODD_BYTES + TLS_BYTES), "server": ROUNDS * (ODD_BYTES + TLS_BYTES)},
    "smc": {"client": ROUNDS * ODD_BYTES + SMC_BYTES, "server": ROUNDS * ODD_BYTES},
}
ODD_CALLS = {
    "tls": {"client": (ROUNDS, ROUNDS), "server": (ROUNDS, ROUNDS)},
    "smc": {"client": (ROUNDS + 1, ROUNDS), "server": (ROUNDS, ROUNDS + 2)},
}

# Sockets that are no TCP: `odd_sockets` makes a pair of each.
OTHER_KINDS = ("udp", "udp6", "unix", "seqpacket")

# Qdiscs that drop packets here: see `qdisc_drops` in `init`.
QDISCS = ("netem", "fq")

# The round trip of the path that netem makes: twice its delay.
EMULATED_RTT_US = 2 * 20_000

# How many of the messages that an adapter sends it must stamp.
STAMPED_LEAST, MESSAGES_LEAST = 0.9, 97

# The chains of functions in which `call_chain` waits, innermost first, and how often in each, in `stacks`.
CHAINS = (("take", "first", "main"), ("take", "second", "main"), ("signed_wait", "outer", "main"))
CHAIN_WAITS = 17

# How much of the functions' own time must have a cause.
CATEGORISED_LEAST = 0.95

# What the long call of the reader in `slow_function` calls, the messages that wait for it, and of how many of them
# it must be the first cause: of 2,003, each 29th.
SLOW_FUNCTIONS, SLOW_LEAST, RIGHT_LEAST = ("read_zero()", "read_iter_zero()"), 50, 0.95


class Wrong(Exception):
    """A result is not what it must be."""


def demand(condition, why):
    """Says why, unless the condition holds."""
    if not condition:
        raise Wrong(why)


def coverage(results):
    """The probes as `whylat doctor` found them: state and reason by name."""
    probes = json.loads(results["doctor.out"])["probes"]
    return {probe["probe"]: probe for probe in probes}


def judge(results, without_bpf):
    """(check, what is wrong or None) each; `without_bpf`: this kernel is known to be too old."""
    checks = [("doctor", lambda: doctor(results, without_bpf))] * ("doctor.code" in results)
    names = [name.removesuffix(".record.code") for name in results if name.endswith(".record.code")]
    for name in names:
        detail, scene = name.split(".")
        checks.append((name, lambda d=detail, s=scene: recording(results, d, s, without_bpf)))
    checks += [("emulated", lambda: emulated(results, without_bpf))] * ("emulated.code" in results)
    odd = [kind for kind in ODD_CALLS if f"odd.{kind}.run.code" in results]
    checks += [(f"odd_sockets.{kind}", lambda k=kind: odd_sockets(results, k, without_bpf)) for kind in odd]
    other = [kind for kind in OTHER_KINDS if f"other.{kind}.run.code" in results]
    checks += [(f"other_sockets.{kind}", lambda k=kind: other_sockets(results, k, without_bpf)) for kind in other]
    checks += [("stacks", lambda: stacks(results, without_bpf))] * ("stacks.run.code" in results)
    checks += [("markers", lambda: markers(results, without_bpf))] * ("markers.run.code" in results)
    qdiscs = [kind for kind in QDISCS if f"qdisc.{kind}.run.code" in results]
    checks += [(f"qdisc_drops.{kind}", lambda k=kind: qdisc_drops(results, k, without_bpf)) for kind in qdiscs]
    traces = [name.split(".")[1] for name in results if re.fullmatch(r"trace\.\w+\.import\.code", name)]
    checks += [(f"trace.{trace}", lambda t=trace: imported(results, t)) for trace in traces]
    checks += [("adapters.doctor", lambda: enabled(results))] * ("adapters.enabled.code" in results)
    for name, ends in (("adapters.new", 1), ("adapters.open", 2)):
        checks += [(name, lambda n=name, e=ends: stamped(results, n, e))] * (f"{name}.code" in results)
    checks += [("slow_function", lambda: slow_function(results, without_bpf))] * ("slow.run.code" in results)
    checks += [("causes", lambda: causes(results))] * ("causes.code" in results)
    return [(name, wrong(check)) for name, check in checks]


def figures(results):
    """Lines of what was measured."""
    if results.get("causes.code", "").strip() != "0":
        return
    causes = json.loads(results["causes.out"])
    worst = ", ".join(name for name, _ in causes["worst"][:8]) or "none"
    milliseconds = causes["functions_ns"] / 1e6
    yield f"{causes['categorised']:.2%} of {milliseconds:.0f} ms in functions has a cause; without: {worst}"


def wrong(check):
    """Why a check fails, or None."""
    try:
        check()
    except Wrong as why:
        return str(why)
    except (IndexError, KeyError, TypeError, ValueError) as missing:
        return f"no result: {missing!r}"
    return None


def doctor(results, without_bpf):
    """Every probe works or falls back; or all that need BPF are off, and say what would fix it."""
    probes = coverage(results)
    reasoned(probes.values())
    off = {name for name, probe in probes.items() if probe["state"] == "off"} - NOT_OF_THE_KERNEL
    if without_bpf:
        polled = probes["tcp_stats.without_bpf"]
        demand(polled["state"] != "off", "not even statistics are polled")
        remedies = {probes[name]["remedy"] for name in off}
        demand(all("newer" in remedy for remedy in remedies), f"odd remedies: {remedies}")
    else:
        off -= {name for name, remedy in OF_SOME_KERNELS.items() if name in off and remedy in probes[name]["remedy"]}
        demand(not off, "; ".join(f"{name} is off: {probes[name]['why']}" for name in off))


def reasoned(rows):
    """A probe that is not simply on says why, and by what means it works or what fixes it."""
    for row in rows:
        probe, state = row["probe"], row["state"]
        if state != "on":
            demand(row["why"], f"{probe} is {state}, and nothing says why")
            means = row["which"] if state == "fallback" else row["remedy"]
            demand(means or probe in NOT_OF_THE_KERNEL, f"{probe} is {state}, and nothing says what to do: {row}")


def recording(results, detail, scene, without_bpf):
    """A recording is whole, counts what happened, and finds the cause."""
    name = f"{detail}.{scene}"
    for step in ("record", "validate", "report"):
        output = results[f"{name}.{step}.err"].strip().splitlines()
        demand(int(results[f"{name}.{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output[-1:]}")
    report = json.loads(results[f"{name}.report.out"])
    demand(not report["problems"], f"problems: {report['problems']}")
    reasoned(report["coverage"])
    lost = losses(report)
    if without_bpf:
        missing_named(results, name, report)
        polled(report, detail, scene)
        # it did, half of the time; polls alone do not show it
        demand("did not hold" not in results[f"{name}.record.out"], "a claim that nobody can make")
        return
    concluded(report, detail, scene)
    if scene == "loopback":
        counts(report, detail, lost.get("calls", 0))
    if scene in LOSSY:
        sent_again(report)
    if detail in ("waits", "messages"):
        demand(waited(json.loads(results[f"{name}.waits.out"])), "no wait on a connection")
    if detail == "messages" and scene == "loopback":
        messages(json.loads(results[f"{name}.messages.out"]), lost)


def concluded(report, detail, scene):
    """The cause is found; or, where polls do not show it, left undecided, with what would show it."""
    has_drops = any(row["probe"] == "drops" and row["state"] != "off" for row in report["coverage"])
    cause, found = (FINDINGS_OF_DROPS if has_drops else FINDINGS)[scene], rules(report)
    if detail != "stats" or scene not in UNDECIDED:
        demand(cause in found, f"found {found or 'nothing'}, not {cause}")
        return
    demand(cause not in found, f"{cause} is found, but polls do not show it")
    left = doubts(report, cause)
    demand(left, f"{cause} is neither found nor left undecided")
    for doubt in left:
        demand(doubt["candidates"] == [cause], f"{cause} is one of {doubt['candidates']}")
        would_show(doubt, ["`--detail calls`"])


def rules(report):
    """Returns the findings."""
    return {finding["rule"] for finding in report["findings"]}


def doubts(report, cause):
    """Returns the undecided problems that may have this cause."""
    return [doubt for doubt in report["undecided"] if cause in doubt["candidates"]]


def would_show(doubt, means):
    """An undecided problem says why, and that each of these would decide it."""
    demand(doubt["why"], f"undecided without a reason: {doubt['candidates']}")
    for one in means:
        known = any(one in line for line in doubt["would_help"])
        demand(known, f"{doubt['candidates']} does not name {one}: {doubt['would_help']}")


def lacking(detail):
    """Probes that a recording with this detail has to do without on a kernel that is too old."""
    levels = list(BY_PROGRAMS)
    asked = levels[: levels.index(detail) + 1]
    return [probe for level in asked for probe in BY_PROGRAMS[level]]


def missing_named(results, name, report):
    """Coverage names every probe that the kernel is too old for, and so do reports of what these record."""
    rows = {row["probe"]: row for row in report["coverage"]}
    for probe in lacking(name.split(".")[0]):
        row = rows.get(probe, {"state": "not named"})
        demand(row["state"] == "off" and "newer" in row["remedy"], f"coverage of {probe}: {row}")
    demand(rows["tcp_stats"]["state"] != "off", "not even statistics are polled")
    for part in ("waits", "messages"):
        output = results[f"{name}.{part}.err"].strip()
        # of what was not asked for it says how to ask
        row = rows.get(part)
        reasons = [row["why"], f"hint: {row['remedy']}"] if row else [f"--detail {part}"]
        demand(all(reason in output for reason in reasons), f"report of {part}: {output}")


def polled(report, detail, scene):
    """The kernel's own counts are there; counts that need programs are not, and have no finding."""
    connections = report["connections"]
    demand(connections or scene in SEEN_BY_CHANCE, "no connection was polled")
    for one in connections:
        totals = one["totals"]
        counted = [name for name in ("send_calls", "receive_calls", "nagle_holds") if totals[name] is not None]
        demand(not counted, f"{counted} are counted without programs: {totals}")
        if scene == "loopback" and not one["not_judged"]:
            demand(0 < totals["bytes_sent"] <= BYTES, f"{totals['bytes_sent']} bytes sent, of {BYTES}")
    demand(FINDINGS[scene] not in rules(report), f"{FINDINGS[scene]} is found, but polls do not show it")
    if scene in LOSSY - SEEN_BY_CHANCE:
        sent_again(report)
    for one in lossy(report):
        left = [doubt for doubt in doubts(report, "retransmit_timeouts") if one["id"] in doubt["subject"]["ids"]]
        demand(left, f"{one['totals']['retransmits']} segments were retransmitted, and nothing reports it")
        for doubt in left:
            would_show(doubt, [f"Turn on {probe}: " for probe in lacking(detail)])


def lossy(report):
    """Returns the connections with retransmitted segments."""
    return [one for one in report["connections"] if one["totals"]["retransmits"]]


def sent_again(report):
    """Segments were retransmitted, some of them by a timer, where the kernel counts that."""
    timeouts = [one["totals"]["timeouts"] for one in lossy(report)]
    demand(timeouts, "no segment was counted as retransmitted")
    demand(any(count is None or count > 0 for count in timeouts), f"timeouts: {timeouts}")


def emulated(results, without_bpf):
    """The path is as long as netem makes it, and there are as many sends as a kprobe counted."""
    for step in ("emulated", "emulated.validate", "emulated.report"):
        output = results[f"{step}.err"].strip().splitlines()
        demand(int(results[f"{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output[-1:]}")
    report = json.loads(results["emulated.report.out"])
    lost = losses(report)
    demand(report["connections"], "no connection was recorded")
    rtts = [one["tcp"]["min_rtt_us"] for one in report["connections"]]
    demand(any(rtts), f"no round-trip time: {rtts}")
    demand(all(rtt >= EMULATED_RTT_US for rtt in rtts if rtt), f"round trips of {rtts} us over netem")
    if not without_bpf:
        sends, counted = int(results["emulated.sends"]), [one["totals"]["send_calls"] for one in report["connections"]]
        demand(near(sum(counted), sends, lost.get("calls", 0)), f"{counted} sends, not {sends}")


def odd_sockets(results, kind, without_bpf):
    """Both ends of the connection are there, with the bytes and the calls that were made."""
    for step in ("run", "validate", "report"):
        output = results[f"odd.{kind}.{step}.err"].strip().splitlines()
        demand(int(results[f"odd.{kind}.{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output[-1:]}")
    if without_bpf:
        # polls see such a short connection by chance
        return
    report = json.loads(results[f"odd.{kind}.report.out"])
    demand(not report["problems"], f"problems: {report['problems']}")
    lost = losses(report).get("calls", 0)
    ends = {one["role"]: one for one in report["connections"]}
    demand(sorted(ends) == ["client", "server"] and len(report["connections"]) == 2, f"not both ends: {list(ends)}")
    for role, end in ends.items():
        totals, sent = end["totals"], ODD_STREAMS[kind][role]
        above = end["tcp"].get("ulp")
        demand(above == ("tls" if kind == "tls" else None), f"protocol above TCP: {above}")
        demand(totals["bytes_sent"] == sent, f"the {role} sent {totals['bytes_sent']} bytes, not {sent}")
        seen, true = (totals["send_calls"], totals["receive_calls"]), ODD_CALLS[kind][role]
        demand(near(sum(seen), sum(true), lost), f"{seen} calls of the {role}, not {true}")


def other_sockets(results, kind, without_bpf):
    """Each call that moved bytes over sockets that are no TCP is a row, at either end."""
    for step in ("run", "validate"):
        output = results[f"other.{kind}.{step}.err"].strip().splitlines()
        demand(int(results[f"other.{kind}.{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output[-1:]}")
    report = json.loads(results[f"other.{kind}.report.out"])
    demand(not report["problems"], f"problems: {report['problems']}")
    if without_bpf:
        return
    lost = losses(report).get("calls", 0)
    rows = list(csv.DictReader(results[f"other.{kind}.calls.out"].splitlines()))
    for is_send in ("true", "false"):
        seen = sum(row["is_send"] == is_send and row["result"] == str(ODD_BYTES) for row in rows)
        demand(near(seen, 2 * ROUNDS, lost), f"{seen} calls with is_send {is_send}, not {2 * ROUNDS}")


def stacks(results, without_bpf):
    """The waits of each chain of functions are of one stack, and its frames are those functions. Those at one place are of one
    stack, whatever registers hold."""
    for step in ("run", "validate", "busy") if without_bpf else ("run", "validate", "busy", "report", "busy.waits"):
        output = results[f"stacks.{step}.err"].strip().splitlines()
        demand(int(results[f"stacks.{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output[-1:]}")
    if without_bpf:
        return
    report = json.loads(results["stacks.report.out"])
    demand(not report["problems"], f"problems: {report['problems']}")
    lost = losses(report).get("waits", 0)
    for chain in CHAINS:
        seen = [group["count"] for group in report["groups"] if functions(group)[: len(chain)] == chain]
        there = ", ".join(" < ".join(map(str, functions(group))) for group in report["groups"])
        demand(len(seen) == 1, f"{len(seen)} stacks begin with {' < '.join(chain)}: {there}")
        demand(near(seen[0], CHAIN_WAITS, lost), f"{seen[0]} waits in {' < '.join(chain)}, not {CHAIN_WAITS}")
    sleeps = [row for row in csv.DictReader(results["stacks.busy.waits.out"].splitlines()) if row["kind"] == "sleep"]
    numbers = {row["stack"] for row in sleeps}
    demand(len(sleeps) > 1 and len(numbers) == 1 and all(numbers), f"{len(sleeps)} sleeps have stacks {numbers}")


def markers(results, without_bpf):
    """Each value and each task that the program reported is a row."""
    for step in ("run", "validate"):
        output = results[f"markers.{step}.err"].strip().splitlines()
        demand(int(results[f"markers.{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output[-1:]}")
    if without_bpf:
        return
    values = [int(row["value_s64"]) for row in csv.DictReader(results["markers.counters.out"].splitlines())]
    demand(values == list(range(CHAIN_WAITS)), f"values {values}, not 0 to {CHAIN_WAITS - 1}")
    tasks = list(csv.DictReader(results["markers.tasks.out"].splitlines()))
    ended = [row for row in tasks if int(row["end_ns"]) > int(row["begin_ns"])]
    demand(len(ended) == len(tasks) == CHAIN_WAITS, f"{len(ended)} of {len(tasks)} tasks end, not {CHAIN_WAITS}: {tasks[:2]}")


def functions(group):
    """Names of the functions of a group's stack, innermost first."""
    return tuple(frame["function"] for frame in group["stack"]["frames"])


def qdisc_drops(results, kind, without_bpf):
    """Each packet that the qdisc dropped, by its own count, is a row that names it."""
    for step in ("run", "validate") if without_bpf else ("run", "validate", "drops"):
        output = results[f"qdisc.{kind}.{step}.err"].strip().splitlines()
        demand(int(results[f"qdisc.{kind}.{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output[-1:]}")
    dropped = int(re.search(r"dropped (\d+)", results[f"qdisc.{kind}.shown"])[1])
    demand(dropped > 0, f"{kind} dropped nothing: {results[f'qdisc.{kind}.shown']}")
    if without_bpf:
        return
    rows = list(csv.DictReader(results[f"qdisc.{kind}.drops.out"].splitlines()))
    named = [row for row in rows if (row["qdisc"], row["device"]) == (kind, "v0")]
    demand(len(named) == dropped, f"{len(named)} packets of {kind}, not {dropped}: {rows[:2]}")


def imported(results, trace):
    """Every line of the kernel's own trace was understood, and every call in it is a row."""
    for step in ("import", "validate"):
        output = results[f"trace.{trace}.{step}.err"].strip()
        demand(int(results[f"trace.{trace}.{step}.code"]) == 0, f"{step}: {output}")
    output = results[f"trace.{trace}.import.err"] + results[f"trace.{trace}.import.out"]
    reasons = set(re.findall(r"\d+ ([a-z ]+?)(?:;|$)", output.split("used;")[1].splitlines()[0]))
    demand(reasons <= NO_ACTIVITY, f"lines not used: {reasons - NO_ACTIVITY}")
    rows, calls = int(re.search(r"imported (\d+) rows", output)[1]), int(results[f"trace.{trace}.calls"])
    demand(rows >= max(calls, 1), f"{rows} rows of {calls} calls")


def enabled(results):
    """Adapters with timestamps are seen; enabled timestamps are read, unless a daemon reads them."""
    before, steered, after = (
        next(probe for probe in json.loads(results[f"adapters.{name}.out"])["probes"] if probe["probe"] == "messages.nic")
        for name in ("disabled", "steered", "enabled")
    )
    demand("hwstamp_ctl -i eth0 -t 1" in before.get("remedy", ""), f"before they were enabled: {before}")
    demand("steers /dev/ptp1" in steered.get("why", ""), f"while another steers one: {steered}")
    demand(after["state"] == "on", f"after they were enabled: {after}")


def stamped(results, name, ends):
    """Nearly all messages between two adapters have a stamp, and each lies where it must: after the driver had
    the message, before it was acknowledged."""
    for step in (name, f"{name}.validate", f"{name}.report"):
        output = results[f"{step}.err"].strip().splitlines()
        demand(int(results[f"{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output[-1:]}")
    report = json.loads(results[f"{name}.report.out"])
    for loss in report["loss"]:
        demand(loss["residual"] == 0, f"{loss['residual']} records of {loss['probe']} unaccounted for")
    # a call without a seen end takes the next one's times
    mixed = sum(loss["lost_total"] for loss in report["loss"] if loss["probe"] == "messages.sent")
    sent = [group for group in report["groups"] if group["direction"] == "sent"]
    demand(len(sent) == ends, f"{len(sent)} connections sent, not {ends}")
    for group in sent:
        count, stamps = group["count"], group["stamped"] or {"count": 0}
        demand(count >= MESSAGES_LEAST, f"only {count} messages")
        demand(stamps["count"] >= STAMPED_LEAST * count, f"{stamps['count']} of {count} messages stamped")
        demand(stamps["unplaced"] == 0, f"stamps that cannot be converted: {stamps}")
        mixed -= stamps["impossible"]
        demand(mixed >= 0, f"stamps that cannot be: {stamps}")
        times = sum(part["count"] for part in group["parts"] if part["part"] == "nic")
        known = stamps["count"] - stamps["impossible"] - group["unseen"] - group["disordered"]
        demand(times >= known, f"{times} messages have a time of {stamps}")


def slow_function(results, without_bpf):
    """The function that the kernel's own tracer saw is the first cause of the messages that it delayed; without the
    trace, the call is."""
    if without_bpf:
        demand("has no CPU activity" in results["slow.import.err"], "functions without a place")
        return
    for step in ("run", "import", "validate", "tail", "without"):
        output = results[f"slow.{step}.err"].strip()
        demand(int(results[f"slow.{step}.code"]) in (0, RECORDS_LOST), f"{step}: {output}")
    demand(first_causes(results["slow.without.out"], ["read()"]) >= RIGHT_LEAST, "without the trace: not the call")
    share = first_causes(results["slow.tail.out"], SLOW_FUNCTIONS)
    demand(share >= RIGHT_LEAST, f"first cause of {share:.1%} of the messages only")


def first_causes(text, parts):
    """Returns the share of the reader's slow messages with one of these as a part of the first cause."""
    groups = json.loads(text)["groups"]
    reader = [group for group in groups if (group["application"], group["direction"]) == ("slow_messages", "received")]
    demand(len(reader) == 1, f"{len(reader)} groups of the reader's messages")
    explained = [message for message in reader[0]["explained"] if message["causes"]]
    demand(len(explained) >= SLOW_LEAST, f"{len(explained)} slow messages are explained")
    names = [{part["name"] for part in cause["parts"]} for cause in reader[0]["causes"]]
    right = [message for message in explained if names[message["causes"][0]["cause"]] & set(parts)]
    return len(right) / len(explained)


def causes(results):
    """Nearly all of the time that the kernel's functions took has a cause."""
    for step in ("causes.import", "causes"):
        output = results[f"{step}.err"].strip()
        demand(int(results[f"{step}.code"]) == 0, f"{step}: {output}")
    causes = json.loads(results["causes.out"])
    demand(causes["functions_ns"] > 0, "no function took any time")
    share, worst = causes["categorised"], causes["worst"][:8]
    demand(share >= CATEGORISED_LEAST, f"only {share:.2%} of functions' time has a cause; without: {worst}")


def losses(report):
    """Records lost, by probe; at most the unavoidable ones, and each accounted for."""
    lost = {}
    for loss in report["loss"]:
        demand(loss["residual"] == 0, f"{loss['residual']} records of {loss['probe']} unaccounted for")
        for cause, count in loss["lost"].items():
            demand(count <= LOST_MOST.get(cause, 0), f"{count} records of {loss['probe']} lost: {cause}")
            lost[loss["probe"]] = count
    return lost


def counts(report, detail, lost):
    """The client's connection counts exactly what the client did."""
    client = next(one for one in report["connections"] if one["role"] == "client")
    totals = client["totals"]
    demand(totals["bytes_sent"] == BYTES, f"{totals['bytes_sent']} bytes sent, not {BYTES}")
    if detail == "stats":
        return
    seen = totals["send_calls"], totals["receive_calls"]
    demand(near(sum(seen), SENDS + ROUNDS, lost), f"{seen} calls, not {(SENDS, ROUNDS)}")
    demand(totals["nagle_holds"] >= STALLS_LEAST, f"only {totals['nagle_holds']} stalls")


def near(seen, true, lost):
    """Whether a count is the true one, but for what was lost."""
    return true - lost <= seen <= true


def waited(report):
    """Whether a thread waited for a connection."""
    return any(group["kind"] == "connection" for group in report["groups"])


def messages(report, lost):
    """Every message that the client sent and received is there."""
    seen = {group["direction"]: group["count"] for group in report["groups"]}
    for direction, probe, true in (
        ("sent", "messages.sent", SENDS),
        ("received", "messages", ROUNDS),
    ):
        count = seen.get(direction, 0)
        demand(near(count, true, lost.get(probe, 0)), f"{count} messages {direction}, not {true}")
