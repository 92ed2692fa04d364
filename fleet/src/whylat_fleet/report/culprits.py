"""The report of `correlate`: coverage first, then the culprits with their evidence."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from whylat_fleet import __version__
from whylat_fleet.blame import LEAST_MEMBERS, Culprit, Verdict, said
from whylat_fleet.prepare import Coverage, Prepared
from whylat_fleet.schema import PROBLEMS, TITLES

SCHEMA = "whylat.fleet-report/1"
SHOWN = 5


def as_json(prepared: Prepared, verdict: Verdict) -> dict[str, Any]:
    """The versioned report."""
    coverage = prepared.coverage
    null = verdict.null
    return {
        "schema": SCHEMA,
        "report": "correlate",
        "version": __version__,
        "window": {"begin_ns": coverage.window.begin_ns, "end_ns": coverage.window.end_ns},
        "bin_us": prepared.grid.bin_us,
        "coverage": {
            "hosts": coverage.hosts,
            "left_out_files": [{"path": file.path, "reason": file.reason} for file in coverage.left_out_files],
            "left_out_hosts": coverage.left_out_hosts,
            "partly_watched": coverage.partly_watched,
            "absent": coverage.absent,
            "unplaced": coverage.unplaced,
            "without_delayed_ack": coverage.without_delayed_ack,
            "lost_records": coverage.lost_records,
            "slow_polled_connections": coverage.slow_polled,
            "connections": coverage.connections,
            "troubled_connections": coverage.troubled,
            "counted_connections": coverage.counted,
        },
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


def as_text(prepared: Prepared, verdict: Verdict) -> str:
    """The report for people."""
    lines = _coverage(prepared.coverage)
    lines.append("")
    if verdict.null is None:
        lines.append("cannot tell: too few connections had a problem to know what comes by chance")
    elif not verdict.culprits:
        lines.append(f"no culprit among {verdict.judged} resources with {LEAST_MEMBERS} connections or more that count")
    for number, culprit in enumerate(verdict.culprits, 1):
        lines += _lines(number, culprit)
    return "\n".join(lines) + "\n"


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


def _coverage(coverage: Coverage) -> list[str]:
    begin = datetime.fromtimestamp(coverage.window.begin_ns // 10**9, UTC)
    lines = [
        f"{begin:%Y-%m-%d %H:%M} UTC, {coverage.window.seconds // 3600} h, {coverage.hosts} hosts; "
        f"{coverage.connections} connections, {coverage.troubled} with a problem, {coverage.counted} count"
    ]
    lines += [f"left out: {file.path}: {file.reason}" for file in coverage.left_out_files]
    for host, reason in list(coverage.left_out_hosts.items())[:SHOWN]:
        lines.append(f"left out: host {host}: {reason}")
    if len(coverage.left_out_hosts) > SHOWN:
        lines.append(f"left out: {len(coverage.left_out_hosts) - SHOWN} more hosts for their clocks")
    partly = sorted(coverage.partly_watched.items(), key=lambda item: item[1])
    lines += [f"watched for {share:.0%} of the time only: host {host}" for host, share in partly[:SHOWN]]
    for count, what in (
        (len(coverage.absent), "hosts of topology.json were not watched at all"),
        (len(coverage.unplaced), "hosts are not in topology.json"),
        (coverage.without_delayed_ack, "hosts did not measure delayed ACKs (detail `stats`)"),
        (coverage.slow_polled, "connections left out: read more seldom than a bin is long"),
    ):
        if count:
            lines.append(f"{count} {what}")
    lines.append(f"{coverage.lost_records} records lost by the agents")
    return lines
