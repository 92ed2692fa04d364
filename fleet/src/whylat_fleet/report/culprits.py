"""The report of `correlate`: coverage first, then the culprits with their evidence."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from whylat_fleet.blame import LEAST_MEMBERS, Culprit, Evidence, Verdict, label
from whylat_fleet.drill import Drill
from whylat_fleet.exact import Counts, ExactAnswer
from whylat_fleet.null import LEAST_DRAWS
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.report import chains, coverage
from whylat_fleet.report.drill import ends, member_json, score_json, section
from whylat_fleet.report.html import Html, lead, page, panel, tag
from whylat_fleet.report.text import Heading, counted, fold
from whylat_fleet.schema import TITLES

EXAMPLES = 3
"""Connections named in text; JSON has more."""
LEAST_COMPARABLE = LEAST_MEMBERS * LEAST_DRAWS
"""Comparable connections that random sets are drawn from."""
WHEN = {"same time": "at the same time", "same problem": "at different times"}


def as_json(prepared: PreparedWindow, verdict: Verdict, drills: list[Drill]) -> dict[str, Any]:
    """The versioned report. `drills` holds the culprits' connections, in their order."""
    null = verdict.null
    return {
        **coverage.frame("correlate", prepared),
        "judged": verdict.judged,
        "null": None if null is None else {"coefficient": asdict(null.whole), "same_time": asdict(null.timed)},
        "exact": _exact(verdict),
        "culprits": [_culprit(culprit, drill) for culprit, drill in zip(verdict.culprits, drills, strict=True)],
        "pipelines": [chains.as_json(pipeline) for pipeline in verdict.pipelines],
    }


def _culprit(culprit: Culprit, drill: Drill) -> dict[str, Any]:
    return {
        **_evidence(culprit.first),
        "problems": [_evidence(one) for one in culprit.evidence],
        "same_connections": culprit.same,
        "meets": culprit.meets,
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
        "members": one.score.members if one.score else one.counts.members if one.counts else 0,
        "explained": one.explained,
        "expected_by_chance": one.probability,
        "exact": None if one.counts is None else _counts(one.counts),
    }


def _counts(counts: Counts) -> dict[str, Any]:
    """Returns the connections with the problem for more than `life_over` of their life."""
    return {
        "life_over": counts.share,
        "connections": counts.hits,
        "of": counts.members,
        "other_connections": counts.other_hits,
        "of_others": counts.others,
    }


def _exact(verdict: Verdict) -> dict[str, Any] | None:
    exact = verdict.exact
    if exact is None:
        return None
    return {
        "connections": exact.connections,
        "with_problem": exact.with_problem,
        "tests": exact.tests,
        "level": exact.level,
        "least_connections": exact.least_members,
    }


def as_text(
    prepared: PreparedWindow, verdict: Verdict, drills: list[Drill], command: Callable[[str, str], str]
) -> list[str]:
    """The report for people. `command` returns the command that drills into a culprit of this kind and name."""
    lines = [*coverage.lines(prepared.coverage), ""]
    for sentence in _answer(prepared, verdict):
        lines += fold(sentence, "  ")
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


def _answer(prepared: PreparedWindow, verdict: Verdict) -> list[str]:
    """Says why there is no culprit, how many connections one would need, and which connections it leaves out."""
    sentences = [] if verdict.culprits else _without_culprit(verdict)
    covered = prepared.coverage
    if covered.slow_polled:
        named = [
            f"{app or 'no application'} on host {host} ({count:,})"
            for host, app, count in covered.slow_polled_of[: coverage.SHOWN]
        ]
        more = len(covered.slow_polled_of) - len(named)
        most = f" and {counted(more, 'more application')}" if more > 0 else ""
        sentences.append(
            f"{counted(covered.slow_polled, 'connection')} had no part in coefficients, read less often than once a "
            f"bin: {', '.join(named)}{most}"
        )
        sentences.append("hint: a higher [watch] cpu_high in agent.toml lets the agent read them more often")
    return sentences


def _without_culprit(verdict: Verdict) -> list[str]:
    exact = verdict.exact
    if exact is None:
        if verdict.null is None:
            return [f"undecided: random sets of connections need {LEAST_COMPARABLE} comparable ones"]
        return [f"no culprit among {verdict.judged} resources with {LEAST_MEMBERS} or more comparable connections"]
    if not exact.with_problem:
        return [f"no culprit: none of {counted(exact.connections, 'connection')} had a problem"]
    everywhere = [
        f"{TITLES[problem]} {_life(counts.share)}: {counts.hits:,} of {counted(counts.members, 'connection')}"
        for problem, counts in exact.everywhere
    ]
    return ["no culprit", *everywhere, *_needs(exact)]


def _needs(exact: ExactAnswer) -> list[str]:
    """How many connections a culprit needs, and how many there are."""
    sentences = []
    if exact.shared_by_all:
        names = ", ".join(label(*name) for name in exact.shared_by_all)
        sentences.append(f"{names}: all connections, so that no others can be compared with them")
    least = exact.least_members
    if least is None:
        return [*sentences, f"{counted(exact.connections, 'connection')} are too few to exclude chance, whoever has it"]
    sentences.append(
        f"{exact.with_problem:,} of {counted(exact.connections, 'connection')} had a problem; to be named, a resource "
        f"needs {least:,} that have a problem which no other connection has"
    )
    if exact.nearest:
        name = label(*exact.nearest_name)
        sentences.append(
            f"nearest: {name}, {TITLES[exact.nearest.problem]}; by chance, {exact.nearest.chance:.2g} such resources "
            f"are expected, and the limit is {exact.level:.2g}"
        )
    return sentences


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
    if culprit.meets:
        lines.append(
            f"only the connections that it shares with {', '.join(culprit.meets)} suffer: either may be at fault"
        )
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
    if one.counts is not None or score is None:
        return _exact_facts(one, heading)
    return [
        f"{heading}explains {counted(one.explained, 'connection')}; coefficient {score.acc:z.3f} over "
        f"{score.members:,} comparable ones (same time {sum(score.same_time):z.3f}, same problem "
        f"{score.same_problem:z.3f})",
        f"expected by chance in the whole fleet: {one.probability:.1e}",
    ]


def _exact_facts(one: Evidence, heading: str) -> list[str]:
    """The sentences of an exact test."""
    counts = one.counts
    if counts is None:
        return []
    facts = [
        f"{heading}{counts.hits:,} of its {counted(counts.members, 'connection')} had it {_life(counts.share)}; of the "
        f"others, {counts.other_hits:,} of {counts.others:,}",
        f"expected by chance in the whole fleet: {one.probability:.1e} (exact test)",
    ]
    if one.score:
        facts.insert(1, f"coefficient {one.score.acc:z.3f} over {one.score.members:,} comparable ones")
    return facts


def _life(share: float) -> str:
    """Returns a share of a connection's life in words."""
    return f"for more than {share * 100:g} % of their time" if share else "at any time, of those that were always there"


def as_html(prepared: PreparedWindow, verdict: Verdict, drills: list[Drill]) -> str:
    """One page: the culprits, then a section with the connections of each."""
    parts = [lead(prepared.coverage)]
    if sentences := _answer(prepared, verdict):
        parts.append(panel("Answer", *(tag("p", sentence) for sentence in sentences)))
    if verdict.culprits:
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
