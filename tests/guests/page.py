"""The page of the features by kernel, from the output of `whylat doctor` on each."""

from verdicts import NOT_OF_THE_KERNEL

HEAD = """# Kernels

whylat asks each kernel what it has, and loads what it lets load. A probe is on, uses another method, or is off. The
kernel's functions decide this, never its version. `whylat doctor` says which; every recording says it, too.

The table has the output of `whylat doctor` on Debian's kernels for virtual machines, of x86-64 and of AArch64.
`make kernels` boots them in emulated guests and writes this page. On each kernel it also checks recordings:

* Three stalls at every detail. A client stalls on Nagle's algorithm. A path drops everything for a second, and loopback
  for two. Counts must be exact, and reports must name the causes. Polls do not show these causes, so detail
  `stats` must say that, and what would show them.
* BPF programs do not load on 5.10. Every report must name each missing probe, the reason and the fix. Counts that need
  programs must be absent. The kernel itself counts the segments that it retransmits on loopback. The report must say that
  a timer may have sent them, and what would show it.
* netem delays a path: round trips must be as long. The number of calls must be that of a kprobe.
* A thread waits in three chains of functions: it must have three stacks, with the functions of each.
* The kernel's own tracer (function_graph) sees functions: these must be the causes of the messages that they delayed.

Kernels from 5.11 to 6.0 are not tested. Ubuntu 22.04 has 5.15, and RHEL 9 has 5.14 with backports. `whylat doctor` says
what works there.

One more guest has network adapters with timestamps. There, `make kernels` checks the timestamps of messages
(`messages.nic`, [messages.md](messages.md)).

"""

WORDS = {"on": "on", "fallback": "falls back", "off": "off"}

# What is left of `tcp_stats` where programs do not load.
POLLED = "tcp_stats.without_bpf"


class UnexplainedError(Exception):
    """A probe is not simply on, and nothing says why."""


def text(columns):
    """The page for (kernel, coverage) each."""
    kernels = [kernel.split()[0] for kernel, _ in columns]
    probes = list(dict.fromkeys(probe for _, coverage in columns for probe in coverage))
    probes = [probe for probe in probes if probe not in NOT_OF_THE_KERNEL]
    lines = [row(["probe", *kernels]), row(["---"] * (len(kernels) + 1))]
    notes = []
    for probe in probes:
        cells = [cell(probe, state(coverage, probe), notes) for _, coverage in columns]
        lines.append(row([f"`{probe}`", *cells]))
    lines.append("")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return HEAD + "\n".join(lines) + "\n"


def row(cells):
    return f"| {' | '.join(cells)} |"


def state(coverage, name):
    """A probe's state. A part of a probe that is not named by itself works as the whole does, and statistics are polled
    where the programs that read them do not load: all or none of them do, `inventory` among them."""
    known = coverage.get(name) or coverage.get(name.rpartition(".")[0])
    if known or name != "tcp_stats":
        return known
    if coverage[POLLED]["state"] == "off":
        return coverage[POLLED]
    return {"state": "fallback", "which": f"by polls (`{POLLED}`)", "why": coverage["inventory"]["why"]}


def cell(name, probe, notes):
    """State of a probe, with the number of the note that says why."""
    if probe is None:
        raise UnexplainedError(f"{name} is off, and doctor does not name it")
    note = reason(name, probe)
    if note is None:
        return WORDS[probe["state"]]
    if note not in notes:
        notes.append(note)
    return f"{WORDS[probe['state']]} ({notes.index(note) + 1})"


def reason(name, probe):
    """Why a probe is not simply on."""
    if probe["state"] == "on":
        return None
    if not probe["why"]:
        raise UnexplainedError(f"{name} is {probe['state']}, and doctor does not say why")
    if probe["state"] == "fallback":
        return f"{probe['which']}: {probe['why']}"
    return ": ".join(part for part in (probe["why"], probe["remedy"]) if part)
