"""The table of docs/reliability.md: a row a fault. In: what was seen of one, or why its test failed. Out: the page,
changed between its two marks.
"""

import re

from harness import Wrong

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
HEAD = ("| fault | what was done | threshold | seen |", "|---|---|---|---|")
# Longest reason in a row, characters.
REASON_MOST = 300


def put(path, row):
    """Puts a row in the place of the one that its fault has; those of others stay. One of a longer run stays, too.
    Whether the row was put.
    """
    head, rows, tail = _read(path)
    if row.minutes is not None and row.minutes < _minutes(rows.get(row.fault)):
        return False
    rows[row.fault] = [row.done, row.threshold, row.seen]
    _write(path, head, rows, tail)
    return True


def reason(error):
    """Why a test failed."""
    return str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"


def put_failure(path, fault, error, minutes=None):
    """Writes that a fault's test failed, whatever the row had before. A short run does not replace a long one: the row
    says how long the next must be.
    """
    head, rows, tail = _read(path)
    before = rows.get(fault, ["", "", ""])
    after = "" if minutes is None else f" after {minutes:g} min"
    owed = "" if (minutes or 0) >= _minutes(before) else f", and stays until {_minutes(before):g} min are passed"
    rows[fault] = [*before[:2], f"FAILED{after}{owed}: {_cell(reason(error))}"]
    _write(path, head, rows, tail)


def _cell(text):
    """On one line, without what would end a cell or be markup."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    line = line if len(line) <= REASON_MOST else f"{line[:REASON_MOST]}…"
    return re.sub(r"([\\|`*_\[])", r"\\\1", line).replace("<", "&lt;")


def _minutes(cells):
    """For how long a row's run went on, or must go on; 0 when it does not say."""
    stated = re.match(r"FAILED[^:]*:|[\d.]+ min\b", cells[2]) if cells else None
    return max((float(number) for number in re.findall(r"([\d.]+) min\b", stated.group())), default=0) if stated else 0


def _read(path):
    """Returns the text before the table, its rows by fault, and the text after it."""
    head, _, rest = path.read_text().partition(BEGIN)
    lines, _, tail = rest.partition(END)
    rows = {}
    for line in lines.strip().splitlines()[len(HEAD) :]:
        fault, *cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        rows[fault] = cells
    return head, rows, tail


def _write(path, head, rows, tail):
    lines = [f"| {' | '.join([fault, *cells])} |" for fault, cells in rows.items()]
    path.write_text("\n".join([f"{head}{BEGIN}", *HEAD, *lines, f"{END}{tail}"]))
