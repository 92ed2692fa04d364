"""The report of `drill`, and the sections of a culprit in that of `correlate`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from whylat_fleet.algebra import Score
from whylat_fleet.blame import label
from whylat_fleet.drill import Connection, Drill, Member, Moment, Reading
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.report import coverage, svg
from whylat_fleet.report.html import Html, key, lead, page, panel, rows, shares, tag
from whylat_fleet.report.text import Heading, fold, number, percent, table
from whylat_fleet.schema import PROBLEMS, TITLES

STEPS = 120
"""Columns of the figure, at most. A column shows the worst of its bins."""


def as_json(prepared: PreparedWindow, found: Drill) -> dict[str, Any]:
    """The versioned report."""
    return {**coverage.frame("drill", prepared), "culprit": section_json(prepared, found)}


def section_json(prepared: PreparedWindow, found: Drill) -> dict[str, Any]:
    """Returns the detail of one culprit."""
    begin, bin_ns = prepared.coverage.window.begin_ns, prepared.grid.bin_us * 1000
    return {
        "kind": found.kind,
        "name": found.name,
        **score_json(found.score),
        "problems_alone": {
            problem: {"members": members, "coefficient": value} for problem, (members, value) in found.alone.items()
        },
        "counted_connections": found.total,
        "connections": [member_json(member) for member in found.members],
        "struck": [
            {"begin_ns": begin + bin_ * bin_ns, "connections": dict(zip(PROBLEMS, counts, strict=True))}
            for bin_, counts in sorted(found.struck.items())
        ],
        "moments": [
            {
                "conn_id": moment.conn,
                "begin_ns": moment.begin_ns,
                "problem_us": dict(zip(PROBLEMS, moment.problem_us, strict=True)),
                "readings": [asdict(reading) for reading in moment.readings],
            }
            for moment in found.moments
        ],
        "part_of": [{"kind": kind, "name": name} for kind, name in found.shared],
    }


def score_json(score: Score | None) -> dict[str, Any]:
    """A coefficient and its parts."""
    return {
        "coefficient": None if score is None else score.acc,
        "same_time": None if score is None else dict(zip(PROBLEMS, score.same_time, strict=True)),
        "same_problem": None if score is None else score.same_problem,
    }


def member_json(member: Member) -> dict[str, Any]:
    """A connection."""
    known = asdict(member.connection)
    return {
        "conn_id": known.pop("conn"),
        **known,
        "coefficient": member.coefficient,
        "problem_us": dict(zip(PROBLEMS, member.problem_us, strict=True)),
    }


def title(found: Drill) -> str:
    """Returns the culprit's name in reports."""
    return f"connection {found.name}" if found.kind == "conn" else label(found.kind, found.name)


def as_text(prepared: PreparedWindow, found: Drill) -> list[str]:
    """The report for people."""
    window_us = prepared.coverage.window.seconds * 1_000_000
    lines = [*coverage.lines(prepared.coverage), "", Heading(title(found)), *fold(f"  {_sentence(found)}", "  ")]
    lines += [line for sentence in _evidence(found) for line in fold(f"  {sentence}", "  ")]
    if found.members or not found.total:
        lines += ["", Heading("Connections"), *_connections(found.members, window_us)]
    for moment in found.moments:
        lines += ["", *(Heading(line) for line in fold(_moment_title(moment), "  ")), *_readings(moment)]
    if any(moment.readings for moment in found.moments):
        lines += ["", *fold(UNITS, "  ")]
    return lines


def _sentence(found: Drill) -> str:
    if found.kind == "conn":
        places = ", ".join(label(kind, name) for kind, name in found.shared)
        return f"part of {places}" if places else "had no problem that varies in this window"
    if found.score is None:
        return f"comparable connections: {found.total}; a coefficient needs two"
    score = found.score
    return (
        f"coefficient {score.acc:z.3f} over {score.members} comparable connections (same time "
        f"{sum(score.same_time):z.3f}, same problem {score.same_problem:z.3f})"
    )


def _evidence(found: Drill) -> list[str]:
    alone = [
        f"{TITLES[problem]} {value:z.3f} over {members}"
        for problem, (members, value) in sorted(found.alone.items(), key=lambda item: -item[1][1])
    ]
    return [f"each problem alone: {', '.join(alone)}"] if alone else []


def ends(connection: Connection) -> str:
    """Both ends."""
    if connection.local_address is None or connection.peer_address is None:
        return "no file describes it"
    return (
        f"{_place(connection.local_address, connection.local_port)} > "
        f"{_place(connection.peer_address, connection.peer_port)}"
    )


def _place(address: str, port: int | None) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def worst(member: Member, window_us: int) -> str:
    """Its problem of most time, with the share of the window."""
    us, problem = max((us or 0, problem) for us, problem in zip(member.problem_us, PROBLEMS, strict=True))
    return f"{TITLES[problem]} {percent(us / window_us)}" if us else "-"


def _connections(members: Sequence[Member], window_us: int) -> list[str]:
    lines = []
    for member in members:
        one = member.connection
        with_ = "" if member.coefficient is None else f"  {member.coefficient:z.3f}"
        lines.append(f"  conn {one.conn}{with_}  {worst(member, window_us)}")
        lines += fold(f"    {one.host}  {ends(one)}  {_owner(one)}", "      ")
    return lines or ["  no comparable connection"]


def _owner(one: Connection) -> str:
    app = one.app or "no application"
    return f"{app} ({one.process}, pid {one.pid})" if one.process else app


def _moment_title(moment: Moment) -> str:
    struck = ", ".join(
        f"{TITLES[problem]} {us / 1e6:.2f} s" for problem, us in zip(PROBLEMS, moment.problem_us, strict=True) if us
    )
    return f"conn {moment.conn} at {coverage.moment(moment.begin_ns):%H:%M:%S}: {struck}"


def _readings(moment: Moment) -> list[str]:
    if not moment.readings:
        return ["  no readings are stored"]
    headings = ("time", "stage", "writes", "written", "queue", "flight/cwnd", "window", "rtt", "retr.")
    return table(headings, [_reading(reading) for reading in moment.readings], 2, " ")


UNITS = (
    "written, queue (not acknowledged yet) and window (the peer's receive window) in bytes; flight/cwnd: segments in "
    "flight, and the congestion window; rtt in ms; retr.: retransmitted segments"
)


def _reading(reading: Reading) -> list[str]:
    return [
        f"{coverage.moment(reading.time_ns):%M:%S.%f}"[:7],
        reading.stage or "-",
        number(reading.writes),
        _size(reading.written_bytes),
        _size(reading.send_queue_bytes),
        f"{reading.unacked_segs}/{reading.cwnd_segs}",
        _size(reading.snd_wnd_bytes),
        "-" if reading.srtt_us is None else f"{reading.srtt_us / 1000:.3g}",
        number(reading.retrans),
    ]


def _size(value: int | None) -> str:
    if value is None or value < 10_000:
        return "-" if value is None else str(value)
    return f"{value / 1e3:.0f}k" if value < 10_000_000 else f"{value / 1e6:.0f}M"


def as_html(prepared: PreparedWindow, found: Drill) -> str:
    """One page."""
    parts = [lead(prepared.coverage), *section(prepared, found, None)]
    return page(title(found), coverage.when(prepared.coverage), parts)


def section(prepared: PreparedWindow, found: Drill, anchor: str | None) -> list[Html]:
    """A culprit's panels."""
    window_us = prepared.coverage.window.seconds * 1_000_000
    facts = [tag("p", sentence) for sentence in (_sentence(found), *_evidence(found))]
    return [
        panel(title(found), *facts, _figure(prepared, found), id_=anchor),
        *(
            [panel(f"Connections of {title(found)}", _connections_html(found, window_us), _legend())]
            if found.members or not found.total
            else []
        ),
        *(panel(_moment_title(moment), _readings_html(moment)) for moment in found.moments),
    ]


def _legend() -> Html:
    return tag("ul", *(tag("li", key(problem, TITLES[problem])) for problem in PROBLEMS), class_="legend")


def _connections_html(found: Drill, window_us: int) -> Html:
    body = [
        [
            f"conn {member.connection.conn}",
            member.connection.host,
            ends(member.connection),
            _owner(member.connection),
            shares(member.problem_us, window_us),
            "-" if member.coefficient is None else f"{member.coefficient:z.3f}",
            percent(max(us or 0 for us in member.problem_us) / window_us),
        ]
        for member in found.members
    ]
    if not body:
        return tag("p", "no comparable connection", class_="soft")
    headings = ("connection", "host", "from > to", "owner", "problems", "coefficient", "worst")
    return rows(headings, body, 5)


def _readings_html(moment: Moment) -> Html:
    if not moment.readings:
        return tag("p", "no readings are stored", class_="soft")
    headings = ("time", "stage", "writes", "written, B", "queue, B", "flight/cwnd", "window, B", "rtt, ms", "retr.")
    return rows(headings, [_reading(reading) for reading in moment.readings], 2)


def _figure(prepared: PreparedWindow, found: Drill) -> Html:
    if not found.struck:
        return Html("")
    bins = prepared.grid.bins
    step = -(-bins // STEPS)
    peaks = [[0] * len(PROBLEMS) for _ in range(-(-bins // step))]
    for bin_, counts in found.struck.items():
        column = peaks[bin_ // step]
        for index, count in enumerate(counts):
            column[index] = max(column[index], count)
    begin, step_ns = prepared.coverage.window.begin_ns, step * prepared.grid.bin_us * 1000
    names = [f"{coverage.moment(begin + index * step_ns):%H:%M}" for index in range(len(peaks))]
    series = [
        svg.Series(TITLES[problem], problem, [float(column[index]) for column in peaks])
        for index, problem in enumerate(PROBLEMS)
        if any(column[index] for column in peaks)
    ]
    return svg.bars("Connections with the problem in a bin", names, series, stacked=True)
