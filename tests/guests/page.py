"""The page of what works on which kernel, from what `whylat doctor` said on each."""

HEAD = """# Kernels

whylat asks each kernel what it has, and loads what it lets load: a probe is on, falls back to another
way, or is off, by what is there and never by a version. `whylat doctor` says which; every recording
says it, too.

This is what it said on Debian's kernels for virtual machines. There, too, a client that stalls on
Nagle's algorithm was recorded at every detail, and a path that swallowed everything for a second: the
counts had to be exact, and the causes found, or the missing probe named. On a path that netem makes
longer, round trips had to be as long, and calls as many as a kprobe counted; and functions that the
kernel's own tracer (function_graph) saw had to be the causes of the messages that they delayed.
`make kernels` does all this in emulated guests and writes this page. In one more, with network adapters
that stamp packets, it looks at the stamps of messages (`messages.nic`, docs/messages.md).

"""

WORDS = {"on": "on", "fallback": "falls back", "off": "off"}


def text(columns):
    """The page for (kernel, coverage) each."""
    kernels = [kernel.split()[0] for kernel, _ in columns]
    probes = list(dict.fromkeys(probe for _, coverage in columns for probe in coverage))
    # what belongs to the machine, not to the kernel
    probes = [probe for probe in probes if probe not in ("itt", "clock.ptp", "messages.nic")]
    lines = [row(["probe", *kernels]), row(["---"] * (len(kernels) + 1))]
    notes = []
    for probe in probes:
        cells = [cell(state(coverage, probe), notes) for _, coverage in columns]
        lines.append(row([f"`{probe}`", *cells]))
    lines.append("")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return HEAD + "\n".join(lines) + "\n"


def row(cells):
    return f"| {' | '.join(cells)} |"


def state(coverage, name):
    """A probe's state. A part of a probe that is not named by itself works as the whole does."""
    return coverage.get(name) or coverage.get(name.rpartition(".")[0])


def cell(probe, notes):
    """State of a probe, with the number of the note that says why."""
    if probe is None:
        return "off"
    note = reason(probe)
    if note is None:
        return WORDS[probe["state"]]
    if note not in notes:
        notes.append(note)
    return f"{WORDS[probe['state']]} ({notes.index(note) + 1})"


def reason(probe):
    """Why a probe is not simply on."""
    if probe["state"] == "fallback":
        return f"{probe['which']}: {probe['why']}"
    if probe["state"] == "off":
        return f"{probe['why']}: {probe['remedy']}"
    return None
