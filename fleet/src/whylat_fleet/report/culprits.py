"""The report of `correlate`: coverage first, then the culprits with their evidence."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from whylat_fleet.blame import LEAST_MEMBERS, Culprit, Evidence, Verdict
from whylat_fleet.drill import Drill
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.report import chains, coverage
from whylat_fleet.report.drill import ends, member_json, score_json, section
from whylat_fleet.report.html import Html, lead, page, panel, tag
from whylat_fleet.report.text import Heading, counted, fold
from whylat_fleet.schema import TITLES

EXAMPLES = 3
"""Connections named in text; JSON has more."""
WHEN = {"same time": "at the same time", "same problem": "at different times"}


def as_json(prepared: PreparedWindow, verdict: Verdict, drills: list[Drill]) -> dict[str, Any]:
    """The versioned report. `drills` holds the culprits' connections, in their order."""
    null = verdict.null
    return {
        **coverage.frame("correlate", prepared),
        "judged": verdict.judged,
        "null": None if null is None else {"coefficient": asdict(null.whole), "same_time": asdict(null.timed)},
        "culprits": [_culprit(culprit, drill) for culprit, drill in zip(verdict.culprits, drills, strict=True)],
        "pipelines": [chains.as_json(pipeline) for pipeline in verdict.pipelines],
    }


def _culprit(culprit: Culprit, drill: Drill) -> dict[str, Any]:
    return {
        **_evidence(culprit.first),
        "problems": [_evidence(one) for one in culprit.evidence],
        "same_connections": culprit.same,
        "ruled_out": culprit.ruled_out,
        "ruled_out_more": culprit.ruled_out_more,
        "connections": [member_json(member) for member in drill.members],
    }


def _evidence(one: Evidence) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "name": one.name,
        "problem": one.problem,
        "when": one.when,
        **score_json(one.score),
        "members": one.score.members,
        "explained": one.explained,
        "expected_by_chance": one.probability,
    }


def as_text(
    prepared: PreparedWindow, verdict: Verdict, drills: list[Drill], command: Callable[[str, str], str]
) -> list[str]:
    """The report for people. `command` returns the command that drills into a culprit of this kind and name."""
    lines = [*coverage.lines(prepared.coverage), ""]
    if reason := _without_culprit(verdict):
        lines.append(reason)
    for number, (culprit, drill) in enumerate(zip(verdict.culprits, drills, strict=True), 1):
        lines.append(Heading(f"{number}. {_title(culprit)}"))
        lines += [line for sentence in _sentences(culprit) for line in fold(f"   {sentence}", "     ")]
        for member in drill.members[:EXAMPLES]:
            one = member.connection
            lines += fold(f"   example: conn {one.conn}, host {one.host}, {ends(one)}", "     ")
        # one line, however long, so that it can be copied
        lines.append(f"   drill: {command(culprit.first.kind, culprit.first.name)}")
    for pipeline in verdict.pipelines:
        title, *sentences = chains.as_lines(pipeline)
        lines.append(Heading(title))
        lines += [line for sentence in sentences for line in fold(f"   {sentence}", "     ")]
    return lines


def _without_culprit(verdict: Verdict) -> str | None:
    if verdict.null is None:
        return "undecided: too few connections had a problem to exclude chance"
    if not verdict.culprits:
        return f"no culprit among {verdict.judged} resources with {LEAST_MEMBERS} or more comparable connections"
    return None


def _title(culprit: Culprit) -> str:
    if len(culprit.evidence) == 1:
        return f"{culprit.label}: {TITLES[culprit.first.problem]}, {WHEN[culprit.first.when]}"
    return f"{culprit.label}: {', '.join(dict.fromkeys(TITLES[one.problem] for one in culprit.evidence))}"


def _sentences(culprit: Culprit) -> list[str]:
    lines = []
    for one in culprit.evidence:
        lines += _facts_of(one, _heading(culprit, one) if len(culprit.evidence) > 1 else "")
    if culprit.same:
        lines.append(f"holds the same connections: {', '.join(culprit.same)}")
    if culprit.ruled_out:
        more = f" and {culprit.ruled_out_more} more" if culprit.ruled_out_more else ""
        lines.append(f"ruled out, explained by it: {', '.join(culprit.ruled_out)}{more}")
    return lines


def _heading(culprit: Culprit, one: Evidence) -> str:
    """Returns the name of one of several problems, and its end where the culprit is blamed as both."""
    end = " (as the peer)" if one.kind == "peer" and not culprit.label.endswith(" (as the peer)") else ""
    return f"{TITLES[one.problem]}{end}, {WHEN[one.when]}: "


def _facts_of(one: Evidence, heading: str) -> list[str]:
    score = one.score
    return [
        f"{heading}explains {counted(one.explained, 'connection')}; coefficient {score.acc:z.3f} over "
        f"{score.members:,} comparable ones (same time {sum(score.same_time):z.3f}, same problem "
        f"{score.same_problem:z.3f})",
        f"expected by chance in the whole fleet: {one.probability:.1e}",
    ]


def as_html(prepared: PreparedWindow, verdict: Verdict, drills: list[Drill]) -> str:
    """One page: the culprits, then a section with the connections of each."""
    parts = [lead(prepared.coverage)]
    if reason := _without_culprit(verdict):
        parts.append(panel("Culprits", tag("p", reason)))
    else:
        items = [
            tag("li", tag("a", _title(culprit), href=f"#culprit-{number}"), _facts(culprit))
            for number, culprit in enumerate(verdict.culprits, 1)
        ]
        parts.append(panel("Culprits", tag("ol", *items, class_="culprits")))
    for pipeline in verdict.pipelines:
        title, *sentences = chains.as_lines(pipeline)
        parts.append(panel(title, tag("ul", *(tag("li", sentence) for sentence in sentences), class_="facts")))
    for number, drill in enumerate(drills, 1):
        parts += section(prepared, drill, f"culprit-{number}")
    return page("Culprits", coverage.when(prepared.coverage), parts)


def _facts(culprit: Culprit) -> Html:
    return tag("ul", *(tag("li", sentence) for sentence in _sentences(culprit)), class_="facts")
