"""What a report speaks of and what it cannot, the same in front of each."""

from datetime import UTC, datetime
from typing import Any

from whylat_fleet import __version__
from whylat_fleet.prepare import Coverage, Prepared
from whylat_fleet.report.text import folded

SCHEMA = "whylat.fleet-report/1"
SHOWN = 5


def frame(report: str, prepared: Prepared) -> dict[str, Any]:
    """What every JSON report begins with."""
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
        "undescribed_connections": coverage.undescribed,
        "simulated_hosts": coverage.simulated,
        "connections": coverage.connections,
        "troubled_connections": coverage.troubled,
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
        f"{when(coverage)}, {coverage.hosts} hosts",
        f"{coverage.connections} connections, {coverage.troubled} with a problem, {coverage.counted} count",
        *(part for line in gaps(coverage) for part in folded(line, "  ")),
    ]


def gaps(coverage: Coverage) -> list[str]:
    """What is missing, and what is not real."""
    said = [f"left out: {file.path}: {file.reason}" for file in coverage.left_out_files]
    for host, reason in list(coverage.left_out_hosts.items())[:SHOWN]:
        said.append(f"left out: host {host}: {reason}")
    if len(coverage.left_out_hosts) > SHOWN:
        said.append(f"left out: {len(coverage.left_out_hosts) - SHOWN} more hosts for their clocks")
    undescribed = list(coverage.undescribed.items())
    said += [
        f"left out: problems of {count} connections of host {host}: the file that tells whose they are is left out"
        for host, count in undescribed[:SHOWN]
    ]
    if len(undescribed) > SHOWN:
        said.append(f"left out: problems of connections of {len(undescribed) - SHOWN} more hosts, for the same reason")
    partly = sorted(coverage.partly_watched.items(), key=lambda item: item[1])
    said += [f"watched for {share:.0%} of the time only: host {host}" for host, share in partly[:SHOWN]]
    if len(partly) > SHOWN:
        said.append(f"{len(partly) - SHOWN} more hosts were watched for a part of the time only")
    for count, what in (
        (len(coverage.absent), "hosts of topology.json were not watched at all"),
        (len(coverage.unplaced), "hosts are not in topology.json"),
        (len(coverage.without_delayed_ack), "hosts did not measure delayed ACKs (detail `stats`)"),
        (coverage.slow_polled, "connections left out: read more seldom than a bin is long"),
    ):
        if count:
            said.append(f"{count} {what}")
    said.append(f"{coverage.lost_records} records lost by the agents")
    return [*said, f"simulated data: {coverage.simulated} hosts"] if coverage.simulated else said
