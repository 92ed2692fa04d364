"""The coverage of a report: the window, and what is missing. It is the same in front of each."""

from datetime import UTC, datetime
from typing import Any

from whylat_fleet import __version__
from whylat_fleet.prepare import Coverage, PreparedWindow
from whylat_fleet.report.text import counted, fold

SCHEMA = "whylat.fleet-report/1"
SHOWN = 5


def frame(report: str, prepared: PreparedWindow) -> dict[str, Any]:
    """Returns the beginning of every JSON report."""
    coverage = prepared.coverage
    return {
        "schema": SCHEMA,
        "report": report,
        "version": __version__,
        "window": {"begin_ns": coverage.window.begin_ns, "end_ns": coverage.window.end_ns},
        "bin_us": prepared.grid.bin_us,
        "coverage": as_json(coverage),
    }


def as_json(coverage: Coverage) -> dict[str, Any]:
    """Counts, and names of what is left out."""
    return {
        "hosts": coverage.hosts,
        "left_out_files": [{"path": file.path, "reason": file.reason} for file in coverage.left_out_files],
        "left_out_hosts": coverage.left_out_hosts,
        "partly_watched": coverage.partly_watched,
        "absent": coverage.absent,
        "unplaced": coverage.unplaced,
        "without_delayed_ack": len(coverage.without_delayed_ack),
        "lost_records": coverage.lost_records,
        "slow_polled_connections": coverage.slow_polled,
        "slow_polled": [
            {"host": host, "application": app or None, "connections": count}
            for host, app, count in coverage.slow_polled_of
        ],
        "one_clock": coverage.one_clock,
        "clocks_differ": coverage.clocks_differ,
        "undescribed_connections": coverage.undescribed,
        "simulated_hosts": coverage.simulated,
        "connections": coverage.connections,
        "troubled_connections": coverage.with_problem,
        "counted_connections": coverage.counted,
    }


def when(coverage: Coverage) -> str:
    """The window, or the part of it in which any host was watched."""
    begin, seconds = moment(coverage.window.begin_ns), coverage.window.seconds
    if seconds % 3600 == 0:
        return f"{begin:%Y-%m-%d %H:%M} UTC, {seconds // 3600} h"
    return f"{begin:%Y-%m-%d %H:%M:%S} UTC, {seconds // 60} min {seconds % 60} s watched"


def moment(time_ns: int) -> datetime:
    """A time, to the microsecond."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).replace(microsecond=time_ns % 10**9 // 1000)


def lines(coverage: Coverage) -> list[str]:
    """For people: the window, then what is missing."""
    return [
        f"{when(coverage)}, {counted(coverage.hosts, 'host')}",
        f"{totals(coverage)}",
        *(part for line in gaps(coverage) for part in fold(line, "  ")),
    ]


def totals(coverage: Coverage) -> str:
    """Returns the number of connections. Those with a problem that varies over the window are comparable."""
    connections = counted(coverage.connections, "connection")
    return f"{connections}, {coverage.with_problem:,} with a problem, {coverage.counted:,} comparable"


def gaps(coverage: Coverage) -> list[str]:
    """Returns a text about missing and simulated data."""
    files = coverage.left_out_files
    found = [f"left out: {file.path}: {file.reason}" for file in files[:SHOWN]]
    if len(files) > SHOWN:
        found.append(f"left out: {counted(len(files) - SHOWN, 'more file')} (JSON lists all)")
    for host, reason in list(coverage.left_out_hosts.items())[:SHOWN]:
        found.append(f"left out: host {host}: {reason}")
    if len(coverage.left_out_hosts) > SHOWN:
        found.append(f"left out: {counted(len(coverage.left_out_hosts) - SHOWN, 'more host')} for their clocks")
    undescribed = list(coverage.undescribed.items())
    found += [
        f"left out: problems of {counted(count, 'connection')} of host {host}: the file that describes them is left out"
        for host, count in undescribed[:SHOWN]
    ]
    if len(undescribed) > SHOWN:
        more = counted(len(undescribed) - SHOWN, "more host")
        found.append(f"left out: problems of connections of {more}, for the same reason")
    partly = sorted(coverage.partly_watched.items(), key=lambda item: item[1])
    found += [f"watched for {share:.0%} of the time only: host {host}" for host, share in partly[:SHOWN]]
    if len(partly) > SHOWN:
        found.append(f"watched for a part of the time only: {counted(len(partly) - SHOWN, 'more host')}")
    for count, noun, gap, why in (
        (len(coverage.absent), "host", "not watched", " of topology.json"),
        (len(coverage.unplaced), "host", "not in topology.json", ""),
        (len(coverage.without_delayed_ack), "host", "delayed ACKs not measured", " (detail `stats`)"),
    ):
        if count:
            found.append(f"{gap}: {counted(count, noun)}{why}")
    if coverage.slow_polled:
        found.append(f"left out: {counted(coverage.slow_polled, 'connection')}, read less often than once a bin")
    if coverage.clocks_differ:
        found.append("the hosts' clocks are not synchronised: nothing is compared in time, only who has a problem")
    elif coverage.one_clock and coverage.hosts > 1:
        found.append("all hosts are of one machine: they share its clock")
    found.append(f"lost by the agents: {counted(coverage.lost_records, 'record')}")
    return [*found, f"simulated data: {counted(coverage.simulated, 'host')}"] if coverage.simulated else found
