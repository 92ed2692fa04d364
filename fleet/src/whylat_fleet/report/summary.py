"""The report of `summary`."""

from dataclasses import asdict
from typing import Any

from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.report import coverage, svg
from whylat_fleet.report.html import Html, lead, page, panel, rows, tag
from whylat_fleet.report.text import Heading, bytes_, counted, fold, number, percent, table
from whylat_fleet.schema import SIZES, TITLES
from whylat_fleet.summary import HISTOGRAM, SHARES, LimitedShare, Summary, quantiles

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
ALPHA = 0.4
"""SNAP's threshold of the coefficient (section 4.1)."""
NAMES = TITLES | {"sender_app": "sender app limited", "congestion": "congestion"}
WRITES = ("up to 64 B", "65 - 512 B", "513 B - 4 kB", "4 - 32 kB", "32 - 256 kB", "more")
LIFE = (">0", ">25%", ">50%", ">75%", ">99.9%")


def as_json(prepared: PreparedWindow, found: Summary) -> dict[str, Any]:
    """The versioned report."""
    return {
        **coverage.frame("summary", prepared),
        "connections": found.connections,
        "connections_without_totals": found.without_totals,
        "applications": found.applications,
        "limited": [_limited_json(line) for line in found.limited],
        "send_buffers_by_connections": [asdict(entry) for entry in found.send_buffers],
        "losses": {"step_s": found.step_s, "steps": [asdict(step) for step in found.losses]},
        "rates": [asdict(rate) for rate in found.rates],
        "host_coefficients": found.coefficients,
        "connections_per_host": [{"connections": size, "hosts": hosts} for size, hosts in found.host_sizes],
        "median_writes": {SIZES[size]: {"connections": n, "writes": m} for size, (n, m) in found.writes.items()},
        "versions": [
            {"agent": agent, "kernel": kernel, "detail": detail, "hosts": hosts}
            for agent, kernel, detail, hosts in found.versions
        ],
        "agents": None if found.agents is None else asdict(found.agents),
    }


def _limited_json(line: LimitedShare) -> dict[str, Any]:
    return {
        "problem": line.problem,
        "measured_connections": line.measured,
        "life_over": [
            {"share": share, "connections": all_, "delay_sensitive": sensitive}
            for share, all_, sensitive in zip(SHARES, line.connections, line.sensitive_connections, strict=True)
        ],
        "applications_over": [
            {"share": share, "applications": all_, "delay_sensitive": sensitive}
            for share, all_, sensitive in zip((0.05, 0.5), line.applications, line.sensitive_applications, strict=True)
        ],
    }


def as_text(prepared: PreparedWindow, found: Summary) -> list[str]:
    """The report for people."""
    lines = coverage.lines(prepared.coverage)
    for title, headings, body, note, left in _tables(found):
        lines += [
            "",
            Heading(title),
            *(table(headings, body, left) if body else []),
            *(fold(f"  {note}", "  ") if note else []),
        ]
    return lines


Table = tuple[str, tuple[str, ...], list[list[str]], str, int]


def _tables(found: Summary) -> list[Table]:
    """Title, headings, rows, note, and how many columns are words."""
    return [
        _table_4(found),
        _send_buffers(found),
        _losses(found),
        _rates(found),
        _coefficients(found),
        _host_sizes(found),
        _writes(found),
        _agents(found),
    ]


def _table_4(found: Summary) -> Table:
    body = []
    for line in found.limited:
        body.append(_limited_row(NAMES[line.problem], line.connections, line.applications, line.measured))
        if line.problem == "delayed_ack":
            name = " - delay-sensitive apps"
            body.append(_limited_row(name, line.sensitive_connections, line.sensitive_applications, line.measured))
    late = f" {found.without_totals} connections are too new for totals." if found.without_totals else ""
    note = (
        f"Share of {found.connections:,} connections with the problem for more than this share of their duration. "
        f"Number of {found.applications:,} applications with it for more than this share of their connections' "
        f"time.{late}"
    )
    return "Limited connections", ("problem", *LIFE, "apps >5%", ">50%"), body, note, 1


def _limited_row(name: str, counts: tuple[int, ...], apps: tuple[int, ...], measured: int) -> list[str]:
    shares = [percent(count / measured) if measured else "-" for count in counts]
    return [name, *shares, *(str(count) if measured else "-" for count in apps)]


def _send_buffers(found: Summary) -> Table:
    body = [
        [
            f"{entry.least} or more" if entry.least else "none at an interval's end",
            number(entry.hosts),
            number(entry.connections),
            percent(entry.limited / entry.connections),
            percent(entry.share),
        ]
        for entry in found.send_buffers
    ]
    headings = ("connections of a host", "hosts", "connections", "ever limited", "share of time")
    note = "Connections of a host: the most that were open at the end of an interval."
    return "Send buffers by connections of a host", headings, body, note, 1


def _losses(found: Summary) -> Table:
    watched = [step for step in found.losses if step.hosts]
    body = [
        [
            f"{coverage.moment(step.begin_ns):%d %H:%M:%S}",
            number(step.hosts),
            number(step.fast_per_s),
            number(step.timeouts_per_s),
            percent(step.retransmitted),
        ]
        for step in sorted(watched, key=lambda step: -((step.fast_per_s or 0) + (step.timeouts_per_s or 0)))[:5]
    ]
    body.sort()
    note = (
        f"The worst of {len(watched)} watched steps of {found.step_s} s; JSON and HTML have all. "
        "A retransmission is fast if no timeout began it."
    )
    return "Losses over time", ("step", "hosts", "fast/s", "timeouts/s", "retransmitted"), body, note, 1


def _rates(found: Summary) -> Table:
    body = [
        [
            f"{bytes_(rate.least)}/s or more" if rate.least else "nothing",
            number(rate.intervals),
            number(rate.with_loss),
            number(rate.fast),
            number(rate.timeouts),
            percent(rate.more_timeouts / rate.with_loss) if rate.with_loss else "-",
        ]
        for rate in found.rates
    ]
    headings = ("rate of a connection", "intervals", "with loss", "fast", "timeouts", "more timeouts")
    return "Fast retransmissions against timeouts", headings, body, "", 1


def _coefficients(found: Summary) -> Table:
    values = found.coefficients
    above = sum(value > ALPHA for value in values)
    note = (
        f"{counted(len(values), 'host')} with ten or more comparable connections; the mean coefficient of {above} "
        f"({percent(above / len(values))}) is above {ALPHA}."
        if values
        else "undecided: no host has ten comparable connections"
    )
    body = []
    if values:
        picks = quantiles([(index, 1) for index in range(len(values))], QUANTILES)
        body = [[f"{values[index]:.3f}" for index in picks]]
    return "Correlation of the connections of a host", _quantile_names(), body, note, 0


def _quantile_names() -> tuple[str, ...]:
    return ("min", *(f"p{100 * share:.0f}" for share in QUANTILES[1:-1]), "max")


def _host_sizes(found: Summary) -> Table:
    body = [[number(size) for size in quantiles(found.host_sizes, QUANTILES)]] if found.host_sizes else []
    return "Connections of a host", _quantile_names(), body, "", 0


def _writes(found: Summary) -> Table:
    total = sum(connections for connections, _ in found.writes.values())
    body = [
        [WRITES[size], number(connections), percent(connections / total), number(writes)]
        for size, (connections, writes) in sorted(found.writes.items())
    ]
    note = "" if total else "no agent counted calls"
    return "Writes", ("median write", "connections", "share", "writes"), body, note, 1


def _agents(found: Summary) -> Table:
    agents = found.agents
    body = [[version[0], version[1], version[2], number(version[3])] for version in found.versions[: coverage.SHOWN]]
    if agents is None:
        return "Agents", ("agent", "kernel", "detail", "hosts"), body, "", 3
    bpf = "not measured" if agents.bpf_median is None else percent(agents.bpf_median)
    note = (
        f"CPU of one core: p50 {percent(agents.cpu_median)} (BPF programs {bpf}), max {percent(agents.cpu_most)} "
        f"on {agents.cpu_most_host}; memory at most {bytes_(agents.rss_most_bytes)}; {agents.polls:,} readings, "
        f"{agents.rows:,} rows; {counted(agents.lost, 'record')} lost; "
        f"{counted(agents.dropped_files, 'file')} dropped on {counted(agents.dropping_hosts, 'host')}."
    )
    return "Agents", ("agent", "kernel", "detail", "hosts"), body, note, 3


def as_html(prepared: PreparedWindow, found: Summary) -> str:
    """One page."""
    tables = {title: (headings, body, note, left) for title, headings, body, note, left in _tables(found)}
    figures = {
        "Losses over time": _losses_figure(found),
        "Fast retransmissions against timeouts": _rates_figure(found),
        "Correlation of the connections of a host": _coefficients_figure(found),
        "Connections of a host": _host_sizes_figure(found),
    }
    parts = [lead(prepared.coverage)]
    for title, (headings, body, note, left) in tables.items():
        content = [figures[title]] if title in figures else []
        content += [rows(headings, body, left)] if body else []
        parts.append(panel(title, *content, *([tag("p", note, class_="note")] if note else [])))
    return page("Summary", coverage.when(prepared.coverage), parts)


def _losses_figure(found: Summary) -> Html:
    times = [f"{coverage.moment(step.begin_ns):%H:%M}" for step in found.losses]
    return svg.lines(
        "Retransmissions a second",
        times,
        [
            svg.Series("fast retransmissions", "fast_retransmit", [step.fast_per_s for step in found.losses]),
            svg.Series("timeouts", "timeout", [step.timeouts_per_s for step in found.losses]),
        ],
    )


def _rates_figure(found: Summary) -> Html:
    return svg.bars(
        "Retransmissions by the rate of a connection",
        [f"{bytes_(rate.least)}/s" if rate.least else "0" for rate in found.rates],
        [
            svg.Series("fast retransmissions", "fast_retransmit", [float(rate.fast) for rate in found.rates]),
            svg.Series("timeouts", "timeout", [float(rate.timeouts) for rate in found.rates]),
        ],
    )


def _coefficients_figure(found: Summary) -> Html:
    counts: dict[int, int] = {}
    for value in found.coefficients:
        index = round(value // HISTOGRAM)
        counts[index] = counts.get(index, 0) + 1
    span = range(min(counts, default=0), max(counts, default=0) + 1)
    values = [float(counts.get(index, 0)) for index in span]
    names = [f"{index * HISTOGRAM:.2f}" for index in span]
    return svg.bars("Hosts by coefficient", names, [svg.Series("hosts", "hosts", values)])


def _host_sizes_figure(found: Summary) -> Html:
    total = sum(hosts for _, hosts in found.host_sizes)
    seen, points = 0, []
    for size, hosts in found.host_sizes:
        seen += hosts
        points.append((float(size), seen / total))
    return svg.distribution("Share of hosts with at most this number of connections", points)
