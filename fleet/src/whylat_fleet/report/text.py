"""Text reports: 80 columns, readable without colour. Names come from hosts: nothing in them reaches the terminal as a
control character."""

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

WIDTH = 80


class Heading(str):
    """A line that is drawn bold where there is colour."""

    __slots__ = ()


def clean(text: str) -> str:
    """Control characters, also those that turn the direction of writing, as `\\x1b`."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def is_coloured(stream: TextIO) -> bool:
    """Whether bold may be written: to a terminal, unless NO_COLOR is set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render(lines: Iterable[str], colour: bool) -> str:
    """The report, every line cleaned."""
    out = []
    for line in lines:
        shown = clean(line)
        out.append(f"\x1b[1m{shown}\x1b[0m" if colour and isinstance(line, Heading) else shown)
    return "\n".join(out) + "\n"


def fold(line: str, indent: str = "   ") -> list[str]:
    """A sentence in lines of 80 columns at most, the others indented."""
    return textwrap.wrap(
        clean(line), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, indent: str = "  ") -> list[str]:
    """Columns; the first `left` are words, the others numbers. Words are cut where the line would be too long."""
    cells = [list(headings), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    over = len(indent) + sum(widths) + 2 * (len(widths) - 1) - WIDTH
    for column in sorted(range(left), key=lambda index: -widths[index]):
        # words are the only cells that can be cut; numbers never are
        cut = min(max(over, 0), max(widths[column] - 12, 0))
        widths[column] -= cut
        over -= cut
    return [
        (
            indent
            + "  ".join(
                _truncate(cell, width).ljust(width) if column < left else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        ).rstrip()
        for row in cells
    ]


def _truncate(word: str, width: int) -> str:
    return word if len(word) <= width else word[: width - 1] + "…"


def percent(share: float | None) -> str:
    """A share as people read it: what is not zero never looks like it."""
    if share is None:
        return "-"
    if 0 < share < 0.0001:
        return "<0.01%"
    if 0.9999 < share < 1:
        return ">99.99%"
    return f"{share:.2%}"


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun, in the plural where it is not one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number(value: float | None) -> str:
    """A count, or a rate to three digits. `-` is not measured."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bytes_(value: float) -> str:
    """Bytes with a decimal prefix."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"
