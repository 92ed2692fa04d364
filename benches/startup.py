#!/usr/bin/env python3
"""How long the client of `whylat lab fault vtune_startup` starts up: as it is, and with each fix.

The recipe's own figure (docs/recipes/inefficient-tcp-synchronisation.md): more than five times
faster. All forms are played in turn in each round, without a recorder; a round's ratios are to the
faulty form of the same round.
"""

import json
import subprocess

import machine

CONGCTLS = ("cubic", "bbr")
FAULT = "vtune_startup"


def fixes():
    output = subprocess.run([machine.WHYLAT, "lab", "list", "--json"], check=True, capture_output=True, text=True)
    faults = map(json.loads, output.stdout.splitlines())
    return [fix["name"] for fault in faults if fault["name"] == FAULT for fix in fault["cures"]]


def startup_ms(congctl, seed, words):
    """From the first command to the answer of the last."""
    command = [machine.WHYLAT, "lab", "fault", FAULT, "--congctl", congctl, "--seed", str(seed), *words]
    output = subprocess.run(command, capture_output=True, text=True)
    if output.returncode:
        raise machine.BenchError(f"{' '.join(map(str, command))}: {output.stderr}")
    return json.loads(output.stdout)["roles"][0]["clients"][0]["startup_ns"] / 1e6


def rounds(congctl, forms, seeds):
    """Milliseconds of each form, round by round."""
    took_ms = {form: [] for form in forms}
    for seed in seeds:
        for form, words in forms.items():
            took_ms[form].append(startup_ms(congctl, seed, words))
    return took_ms


def measure():
    options = machine.arguments(
        __doc__,
        lambda parser: (
            parser.add_argument("--rounds", type=int, default=5),
            parser.add_argument("--seed", type=int, default=1, help="the path and the commands; of all rounds"),
        ),
    )
    before = machine.facts()
    forms = {"faulty": [], "healthy": ["--variant", "healthy"]}
    forms |= {fix: ["--variant", "mended", "--cure", fix] for fix in fixes()}
    figures = {}
    for congctl in CONGCTLS:
        took_ms = rounds(congctl, forms, [options.seed] * options.rounds)
        for form, values in took_ms.items():
            ratios = [faulty / value for faulty, value in zip(took_ms["faulty"], values)]
            figures[f"{form} {congctl}"] = {
                "startup_ms": machine.spread(values),
                "times_faster": machine.spread(ratios),
            }
    machine.head(f"Start-up of {FAULT}, {options.rounds} rounds: median (least–most)", before)
    show = machine.show
    rows = [
        (form, show(it["startup_ms"], 0), f"{it['startup_ms']['n']}", show(it["times_faster"], 1))
        for form, it in figures.items()
    ]
    machine.table(("form", "start-up ms", "rounds", "times faster"), rows)
    least = min(
        it["times_faster"]["median"]
        for form, it in figures.items()
        if form.split()[0] in ("writev", "nodelay", "quickack")
    )
    print(f"  least of writev, nodelay and quickack: {least:.1f} times faster; the recipe says more than 5")
    machine.write_json(options.json, before, figures)


if __name__ == "__main__":
    machine.main(measure)
