"""The report of `compare`."""

from typing import Any

from whylat_fleet import __version__
from whylat_fleet.blame import Evidence, label
from whylat_fleet.compare import Change, Comparison, Side
from whylat_fleet.report import coverage
from whylat_fleet.report.html import page, panel, rows, tag
from whylat_fleet.report.text import Heading, counted, fold, percent, table
from whylat_fleet.schema import TITLES

SHOWN = 20
"""Applications named in text and HTML; JSON has all."""


def as_json(before: Side, after: Side, found: Comparison) -> dict[str, Any]:
    """The versioned report."""
    return {
        "schema": coverage.SCHEMA,
        "report": "compare",
        "version": __version__,
        "before": _side_json(before),
        "after": _side_json(after),
        "only_before": found.only_before,
        "only_after": found.only_after,
        "changes": [_change_json(change) for change in found.changes],
        "culprits": {
            "gone": [_culprit_json(one) for one in found.gone],
            "new": [_culprit_json(one) for one in found.new],
            "still": [_culprit_json(one) for one in found.still],
        },
    }


def _side_json(side: Side) -> dict[str, Any]:
    window = side.coverage.window
    return {
        "window": {"begin_ns": window.begin_ns, "end_ns": window.end_ns},
        "bin_us": side.bin_us,
        "coverage": coverage.as_json(side.coverage),
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "application": change.application,
        "problem": change.problem,
        "before": change.before,
        "after": change.after,
        "hosts": change.hosts,
        "probability": change.probability,
        "most_different_host": change.most_host,
        "verdict": change.verdict,
        "culprit": change.culprit,
    }


def _culprit_json(one: Evidence) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "name": one.name,
        "problem": one.problem,
        "explained": one.explained,
        "expected_by_chance": one.probability,
    }


def as_text(before: Side, after: Side, found: Comparison) -> list[str]:
    """The report for people."""
    lines = [*_side("before: ", before), *_side("after:  ", after), *_unpaired_hosts(found)]
    fleet, apps, quiet = _parts(found)
    lines += ["", Heading("Share of the connections' time"), *table(_HEADINGS, [_row(one) for one in fleet])]
    lines += ["", Heading("Applications")]
    lines += table(("application", *_HEADINGS), [_row(one) for one in apps], 2) if apps else []
    lines += fold(f"  {quiet}", "  ")
    lines += ["", Heading("Culprits"), *(f"  {line}" for line in _culprits(found))]
    return lines


def _side(name: str, side: Side) -> list[str]:
    first, *others = coverage.lines(side.coverage)
    return [f"{name}{first}", *(f"{' ' * len(name)}{line}" for line in others)]


def _unpaired_hosts(found: Comparison) -> list[str]:
    unpaired = [(len(found.only_before), "before"), (len(found.only_after), "after")]
    return [
        f"not compared: {counted(count, 'host')} that only the window {which} has" for count, which in unpaired if count
    ]


_HEADINGS = ("problem", "before", "after", "hosts", "chance", "verdict")
_SHORT = {"no difference beyond noise": "noise", "cannot tell": "undecided"}


def _row(change: Change) -> list[str]:
    return [
        *([change.application] if change.application is not None else []),
        TITLES[change.problem],
        percent(change.before),
        percent(change.after),
        str(change.hosts),
        f"{change.probability:.1g}",
        _verdict(change),
    ]


def _verdict(change: Change) -> str:
    """Returns better or worse where many hosts agree, else the culprit that came or went."""
    if change.verdict in ("better", "worse") or change.culprit is None:
        return _SHORT.get(change.verdict, change.verdict)
    return f"culprit {change.culprit}"


def _parts(found: Comparison) -> tuple[list[Change], list[Change], str]:
    """Changes of the fleet, those of applications that are beyond noise, and a sentence on the others."""
    fleet = [one for one in found.changes if one.application is None]
    apps = [one for one in found.changes if one.application is not None]
    loud = [one for one in apps if one.verdict in ("better", "worse") or one.culprit]
    noise = sum(one.verdict == "no difference beyond noise" for one in apps if one not in loud)
    more = f"{len(loud) - SHOWN} more are in JSON; " if len(loud) > SHOWN else ""
    return (
        fleet,
        loud[:SHOWN],
        (
            f"{more}of {len(apps)} pairs of application and problem, {noise} do not differ beyond noise; "
            f"{len(apps) - noise - len(loud)} are undecided, on too few hosts."
        ),
    )


def _culprits(found: Comparison) -> list[str]:
    lines = [
        f"{which}: {label(one.kind, one.name)}: {TITLES[one.problem]}, {counted(one.explained, 'connection')}"
        for which, culprits in (("gone", found.gone), ("new", found.new), ("still", found.still))
        for one in culprits
    ]
    if not lines:
        return ["none in either window"]
    return lines if found.gone or found.new else ["none new, none gone", *lines]


def as_html(before: Side, after: Side, found: Comparison) -> str:
    """One page."""
    fleet, apps, quiet = _parts(found)
    sides = [
        tag("p", line, **({} if line.startswith(name) else {"class_": "soft"}))
        for name, side in (("before: ", before), ("after: ", after))
        for line in _side(name, side)
    ]
    body = [
        tag("section", *sides, *(tag("p", line, class_="soft") for line in _unpaired_hosts(found)), class_="lead"),
        panel("Share of the connections' time", rows(_HEADINGS, [_mark_cells(one) for one in fleet])),
        panel(
            "Applications",
            *([rows(("application", *_HEADINGS), [_mark_cells(one) for one in apps], 2)] if apps else []),
            tag("p", quiet, class_="note"),
        ),
        panel("Culprits", tag("ul", *(tag("li", line) for line in _culprits(found)), class_="facts")),
    ]
    return page("Comparison", f"{coverage.when(before.coverage)} and {coverage.when(after.coverage)}", body)


def _mark_cells(change: Change) -> list[str]:
    *cells, verdict = _row(change)
    mark = change.verdict if change.verdict in ("better", "worse") else "soft"
    return [*cells, tag("span", verdict, class_=mark)]
