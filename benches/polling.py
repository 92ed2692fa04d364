#!/usr/bin/env python3
"""CPU time that polling takes for each socket, beside `ss -tinO` over the same sockets.

In: numbers of established sockets, opened in a network namespace of its own by the probe's
example `poll_speed`. Out: its table, and whether it keeps the budget.
"""

import re
import subprocess

import machine
import programs

LIMIT_US = 0.5
COLUMNS = ["idle", "every_row", "unaided", "ss"]
CELL = re.compile(r"([\d.]+) \(([\d.]+) – ([\d.]+)\)")


def parse(line):
    """One line of `poll_speed`: sockets, four spreads; None for its headings."""
    cells = CELL.findall(line)
    if len(cells) != len(COLUMNS):
        return None
    result = {"sockets": int(line.split()[0])}
    for name, cell in zip(COLUMNS, cells):
        result[name] = dict(zip(("median", "min", "max"), map(float, cell)))
    return result


def measure():
    """One row for each number of sockets."""
    options = machine.arguments(
        __doc__,
        lambda parser: parser.add_argument(
            "sockets", nargs="*", type=int, default=[1_000, 10_000, 50_000]
        ),
    )
    poll_speed = programs.example("whylat-probe", "poll_speed")
    before = machine.facts()
    output = subprocess.run(
        [poll_speed, *map(str, options.sockets)], check=True, text=True, stdout=subprocess.PIPE
    ).stdout
    sizes = [row for row in map(parse, output.splitlines()) if row]
    if len(sizes) != len(options.sockets):
        raise machine.BenchError(f"poll_speed printed something else:\n{output}")
    machine.head("polling: CPU µs for each socket and poll, median (least–most)", before)
    rows = [
        [
            row["sockets"],
            *(machine.show(row[name]) for name in COLUMNS),
            f"{row['ss']['median'] / row['idle']['median']:.1f}",
        ]
        for row in sizes
    ]
    machine.table(
        ["sockets", "idle", "every sample a row", "idle, without BPF", "ss -tinO", "ss / idle"], rows
    )
    for row in sizes:
        machine.verdict(f"{row['sockets']} sockets, idle", row["idle"]["median"], LIMIT_US, "µs")
    machine.write_json(options.json, before, {"polling_us": sizes})


if __name__ == "__main__":
    machine.main(measure)
