"""HTML reports: one file, no script, no network. Everything that is not markup of ours is escaped where it enters.

`Html` is markup; a plain `str` comes from outside, and `tag` escapes it. The page's policy lets nothing in but
its own style, so that even markup that slipped through would do nothing.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from whylat_fleet.prepare import Coverage
from whylat_fleet.report.coverage import gaps, totals
from whylat_fleet.report.text import clean, counted
from whylat_fleet.schema import PROBLEMS


class Html(str):
    """Markup that is safe to write as it is."""

    __slots__ = ()


COLOURS = {
    "send_buffer": "#009e73",
    "fast_retransmit": "#f0ad85",
    "timeout": "#d55e00",
    "delayed_ack": "#e69f00",
    "receiver_window": "#cc79a7",
    "hosts": "light-dark(#0072b2, #3a94d4)",
}
"""Of series; those of problems are the viewer's (web/src/theme/palette.ts), and a test compares them."""


def tag(name: str, *children: str, **attributes: str) -> Html:
    """An element. `class_` is the attribute `class`; `_` in other names is written as `-`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(value))}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Html:
    """Markup of several; what is no markup is escaped."""
    return Html("".join(child if isinstance(child, Html) else escape(clean(child)) for child in children))


def panel(title: str, *children: str, id_: str | None = None) -> Html:
    """A section with a heading."""
    attributes = {"class_": "panel"} | ({"id_": id_} if id_ else {})
    return tag("section", tag("header", tag("h2", title)), *children, **attributes)


def rows(headings: Sequence[str], body: Iterable[Sequence[str]], left: int = 1) -> Html:
    """A table; the first `left` columns are words, the others numbers. A cell may be markup."""

    def line(cell: str, cells: Sequence[str]) -> Html:
        return tag(
            "tr",
            *(
                tag(cell, value, **({"class_": "number"} if column >= left else {}))
                for column, value in enumerate(cells)
            ),
        )

    return tag(
        "div",
        tag("table", tag("thead", line("th", headings)), tag("tbody", *(line("td", cells) for cells in body))),
        class_="wide",
    )


def key(series: str, words: str) -> Html:
    """A word with its colour."""
    return tag("span", tag("i", class_=f"key f-{series}"), words, class_="keyed")


def lead(coverage: Coverage) -> Html:
    """Returns the coverage, in front of everything."""
    return tag(
        "section",
        tag(
            "p",
            f"{counted(coverage.hosts, 'host')}, {totals(coverage)}.",
        ),
        *(tag("p", line, class_="soft") for line in gaps(coverage)),
        class_="lead",
    )


@cache
def _style() -> str:
    theme = files("whylat_fleet.report").joinpath("theme")
    own = [theme.joinpath(name).read_text(encoding="utf-8") for name in ("base.css", "report.css")]
    for name, colour in COLOURS.items():
        own.append(f".f-{name} {{ fill: {colour}; background: {colour}; }}\n.s-{name} {{ stroke: {colour}; }}\n")
    return "".join(own)


def page(report: str, window: str, parts: Iterable[str]) -> str:
    """The file."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    top = tag(
        "header",
        tag("span", "whylat-fleet", class_="name"),
        tag("span", f"{report} · {window}", class_="of"),
        class_="top",
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"{tag('title', f'{report} · {window}')}\n"
        f'<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n'
        f"{top}\n{tag('main', *parts)}\n</body>\n</html>\n"
    )


def shares(us: Sequence[int | None], window_us: int) -> Html:
    """A bar of the shares of a window that each problem took, with the numbers as its title; None is not measured."""
    parts: list[Html] = []
    left = 0.0
    words = ", ".join(
        f"{problem} {value / window_us:.1%}" for problem, value in zip(PROBLEMS, us, strict=True) if value
    )
    for problem, value in zip(PROBLEMS, us, strict=True):
        width = 120 * min(1.0, (value or 0) / window_us)
        if width:
            shape = {"x": f"{left:.1f}", "y": "0", "width": f"{max(width, 1):.1f}", "height": "12"}
            parts.append(tag("rect", class_=f"f-{problem}", **shape))
        left += width
    back = tag("rect", class_="back", x="0", y="0", width="120", height="12", rx="3")
    return tag("svg", tag("title", words), back, *parts, class_="bar", width="120", height="12", viewBox="0 0 120 12")
