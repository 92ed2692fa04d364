"""The report of `correlate`: coverage first, then the culprits with their evidence."""

from dataclasses import asdict
from typing import Any

from whylat_fleet.blame import LEAST_MEMBERS, Culprit, Verdict, said
from whylat_fleet.prepare import Prepared
from whylat_fleet.report import coverage
from whylat_fleet.schema import PROBLEMS, TITLES


def as_json(prepared: Prepared, verdict: Verdict) -> dict[str, Any]:
    """The versioned report."""
    null = verdict.null
    return {
        **coverage.frame("correlate", prepared),
        "judged": verdict.judged,
        "null": None if null is None else {"coefficient": asdict(null.whole), "same_time": asdict(null.timed)},
        "culprits": [_culprit(culprit) for culprit in verdict.culprits],
    }


def _culprit(culprit: Culprit) -> dict[str, Any]:
    score = culprit.score
    return {
        "kind": culprit.kind,
        "name": culprit.name,
        "problem": culprit.problem,
        "when": culprit.when,
        "coefficient": score.acc,
        "same_time": dict(zip(PROBLEMS, score.same_time, strict=True)),
        "same_problem": score.same_problem,
        "members": score.members,
        "explained": culprit.explained,
        "expected_by_chance": culprit.probability,
        "same_connections": culprit.same,
        "ruled_out": culprit.ruled_out,
        "ruled_out_more": culprit.ruled_out_more,
    }


def as_text(prepared: Prepared, verdict: Verdict) -> list[str]:
    """The report for people."""
    lines = coverage.lines(prepared.coverage)
    lines.append("")
    if verdict.null is None:
        lines.append("cannot tell: too few connections had a problem to know what comes by chance")
    elif not verdict.culprits:
        lines.append(f"no culprit among {verdict.judged} resources with {LEAST_MEMBERS} connections or more that count")
    for number, culprit in enumerate(verdict.culprits, 1):
        lines += _lines(number, culprit)
    return lines


def _lines(number: int, culprit: Culprit) -> list[str]:
    score = culprit.score
    lines = [
        f"{number}. {said(culprit.kind, culprit.name)}: {TITLES[culprit.problem]}, {culprit.when}",
        f"   explains {culprit.explained} connections; coefficient {score.acc:.3f} over {score.members} that count "
        f"(same time {sum(score.same_time):.3f}, same problem {score.same_problem:.3f})",
        f"   expected by chance in the whole fleet: {culprit.probability:.1e}",
    ]
    if culprit.same:
        lines.append(f"   not to be told from: {', '.join(culprit.same)}")
    if culprit.ruled_out:
        more = f" and {culprit.ruled_out_more} more" if culprit.ruled_out_more else ""
        lines.append(f"   ruled out, explained by it: {', '.join(culprit.ruled_out)}{more}")
    return lines
