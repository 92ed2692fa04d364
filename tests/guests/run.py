#!/usr/bin/env python3
"""Boots Debian's kernels, has each run the release binary of whylat, and says for
every kernel and check whether it did what it must. Writes the page (docs/kernels.md) to --output.

A guest is emulated (KVM is not needed), which makes everything in it many times slower than outside. It takes one of
the host's CPUs: as many run at a time as there are. Needs no root.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile
import time

import guest
import images
import machines
import page
import verdicts

# In seconds. A guest that takes longer hangs, however busy the machine is; the whole run is to take the ten minutes of
# CONTRIBUTING.md.
LONGEST, LONGEST_TOGETHER = 3_600, 600

# Kernels that lack what every BPF program of whylat needs.
TOO_OLD = {"5.10"}

# Kernels with guests that have network adapters with timestamps, and their checks.
WITH_ADAPTERS = {"sid-igb"}
ADAPTERS = "adapters"

CHECKS = """
check doctor whylat doctor --json
for detail in stats calls waits messages; do loopback $detail; done
fault messages black_hole
swallowed stats
emulated
for kind in tls smc; do odd_sockets $kind; done
for kind in udp udp6 unix seqpacket; do other_sockets $kind; done
stacks
markers
qdisc_drops netem loss 50%
qdisc_drops fq flow_limit 3 maxrate 8kbit
for trace in functions events; do trace $trace; done
slow_function
categorise
"""


def main():
    options = arguments()
    machines.demand_x86()
    chosen = [name for name in options.kernel or images.KERNELS if is_wanted(name, options)]
    missing = guest.missing({images.KERNELS[name].machine for name in chosen})
    if missing:
        sys.exit(
            f"error: guests need what is not installed: {', '.join(missing)}\n"
            f"hint: apt-get install --no-install-recommends {' '.join(dict.fromkeys(missing.values()))}"
        )
    guests = []
    for name in chosen:
        try:
            made = make(name, options.cached)
        except images.Missing as missing:
            sys.exit(f"error: cannot get kernel {name}: missing: {missing}")
        if made is None:
            print(f"{name}: skipped, no kernel in {images.cache()}: `make kernels` fetches it")
            continue
        guests.append((name, *made))
    demand_guests([name for name, *_ in guests], options)
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as at_a_time:
        results = list(at_a_time.map(lambda it: run(*it, options), guests))
    failed = sum(wrong for wrong, _ in results)
    failed += not in_time(time.monotonic() - started, options.loaded)
    if options.output:
        columns = {name: column for (name, *_), (_, column) in zip(guests, results) if column}
        failed += not write(options.output, columns)
    sys.exit(1 if failed else 0)


def is_wanted(name, options):
    """Whether there is a program for a kernel. Without one, a kernel that was asked for is an error."""
    if program(name, options):
        return True
    if options.kernel:
        sys.exit(
            f"error: kernel {name} needs the program for AArch64\n"
            "hint: scripts/cross packaging/program builds it and prints its path: --arm64 PATH"
        )
    print(f"{name}: skipped, no program for AArch64: --arm64 names it")
    return False


def demand_guests(names, options):
    """Refuses to run no guest, or some of them for a page that has a column for each."""
    if not names:
        sys.exit("error: there is no guest to run\nhint: without --cached, kernels are fetched")
    left_out = sorted(images.KERNELS.keys() - names)
    if options.output and (left_out or options.checks):
        why = f"and {', '.join(left_out)} would have none" if left_out else "which other checks do not give"
        sys.exit(
            f"error: the page has a column for each kernel, {why}\n"
            "hint: --output needs --arm64 PATH, and neither --kernel, --cached nor --checks"
        )


def program(name, options):
    """The program for a kernel's machine, or None."""
    return options.whylat if images.KERNELS[name].machine is images.X86 else options.arm64


def make(name, only_cached):
    """A kernel's version and the guest that runs it; or None, if something is not there and must not be fetched."""
    machine = images.KERNELS[name].machine
    image = images.cached(name) if only_cached else images.fetch(name)
    programs = images.programs(machine, only_cached)
    adapters = images.adapters(only_cached) if name in WITH_ADAPTERS else None
    if image is None or programs is None or (name in WITH_ADAPTERS and adapters is None):
        return None
    folder, version = image
    return version, guest.Guest(machine, folder, programs, adapters)


def in_time(took_s, loaded):
    """Whether all guests took no longer than they may, which is not demanded where others use the machine."""
    print(f"all guests took {took_s:.0f} s", flush=True)
    if took_s <= LONGEST_TOGETHER or loaded:
        return True
    print(f"FAILED: that is more than {LONGEST_TOGETHER} s\nhint: --loaded, if others use the machine", flush=True)
    return False


def write(path, columns):
    """Writes the page, unless a kernel's column would be missing, or why something is off. Whether it did."""
    missing = images.KERNELS.keys() - columns.keys() - WITH_ADAPTERS
    if missing:
        print(f"{path} FAILED: no column for {', '.join(sorted(missing))}", flush=True)
        return False
    try:
        path.write_text(page.text(list(columns.values())))
    except page.UnexplainedError as why:
        print(f"{path} FAILED: {why}", flush=True)
        return False
    return True


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    root = pathlib.Path(__file__).parents[2]
    parser.add_argument("--whylat", type=pathlib.Path, default=root / "target/release/whylat")
    parser.add_argument("--arm64", type=pathlib.Path, help="the program for AArch64; without it, its guests are left out")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--kernel", action="append", choices=images.KERNELS)
    parser.add_argument("--cached", action="store_true", help="only kernels that are there already")
    parser.add_argument(
        "--loaded", action="store_true", help="others use the machine: do not demand that all take ten minutes at most"
    )
    parser.add_argument("--keep", action="store_true", help="keep what guests say even if all is well")
    parser.add_argument("--checks", help="lines of shell for the guest instead")
    return parser.parse_args()


def run(name, version, made, options):
    """How many checks of a kernel fail, and the page's column for it."""
    started = time.monotonic()
    checks = options.checks or (ADAPTERS if made.adapters else CHECKS)
    results, console = guest.run(made, program(name, options), checks, LONGEST)
    took_s = time.monotonic() - started
    failed = 0
    if not results:
        print(f"{version:36} FAILED: the guest did not come to its end")
        failed += 1
    for check, why in verdicts.judge(results, name in TOO_OLD) if results else []:
        failed += why is not None
        print(f"{version:36} {check:24} {'ok' if why is None else 'FAILED: ' + why}", flush=True)
    for path in guest.list_companions(program(name, options)):
        if not path.exists():
            print(f"{version:36} skipped: what needs {path}, which is not built", flush=True)
    for figure in verdicts.figures(results):
        print(f"{version:36} {figure}", flush=True)
    print(f"{version:36} took {took_s:.0f} s", flush=True)
    if failed or options.keep:
        print(f"{version:36} all its output is in {keep(name, results, console)}", flush=True)
    try:
        return failed, (json.loads(results["doctor.out"])["kernel"], verdicts.coverage(results))
    except (KeyError, json.JSONDecodeError):
        # it was not asked for, or it is among the failures
        return failed, None


def keep(name, results, console):
    """Puts a guest's output into a folder, for a closer look."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"whylat-guest-{name}"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for result, text in {**results, "console": console}.items():
        (folder / result).write_text(text)
    return folder


if __name__ == "__main__":
    main()
