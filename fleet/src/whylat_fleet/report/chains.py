"""Pipelines in the report of `correlate`."""

from dataclasses import asdict
from typing import Any

from whylat_fleet.pipelines import Pipeline
from whylat_fleet.report.text import counted

SHOWN = 5


def as_json(pipeline: Pipeline) -> dict[str, Any]:
    """A pipeline in the versioned report."""
    return asdict(pipeline)


def as_lines(pipeline: Pipeline) -> list[str]:
    """A pipeline for people."""
    name = f"{pipeline.process} " if pipeline.process else ""
    lines = [f"pipeline in process {name}({pipeline.pid}) on host {pipeline.host}"]
    for pair in pipeline.pairs[:SHOWN]:
        lines.append(
            f"delayed ACKs on {pair.conn_name} hold up {pair.held_name}: {pair.idle_s:+.2f} s idle at lag "
            f"{pair.lag_s:g} s, {counted(pair.onsets, 'time')}"
        )
    if len(pipeline.pairs) > SHOWN:
        lines.append(f"{counted(len(pipeline.pairs) - SHOWN, 'more pair')} of connections (JSON lists all)")
    return [*lines, f"expected by chance in the whole fleet: {pipeline.pairs[0].probability:.1e}"]
