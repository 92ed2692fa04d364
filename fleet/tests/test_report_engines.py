"""The reports of every engine are those of DuckDB (`make fleet-engines`)."""

import json
from pathlib import Path
from typing import Any

import pytest
from fleet_files import BEGIN, HOSTILE, Row

from whylat_fleet.cli import main

pytestmark = pytest.mark.engines
COMMANDS = {
    "summary": ["summary", "{root}", "--from", BEGIN],
    "drill": ["drill", "{root}", "application", HOSTILE, "--from", BEGIN],
    "conn": ["drill", "{root}", "conn", "{conn}", "--from", BEGIN],
    "compare": ["compare", "{root}", "--before", BEGIN, "--after", BEGIN],
}


def same(one: Any, other: Any) -> None:
    """Equal but for the last digits of real numbers."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            same(value, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for value, another in zip(one, other, strict=True):
            same(value, another)
    elif isinstance(one, float):
        # single connections' coefficients are summed as they come
        assert one == pytest.approx(other, abs=1e-9)
    else:
        assert one == other


def reports(arguments: list[str], engine: str, directory: Path, status: int) -> list[Any]:
    """Returns the reports of DuckDB and of another engine."""
    found = []
    for name in ("duckdb", engine):
        out = directory / f"{name}.json"
        assert main([*arguments, "--engine", name, "--format", "json", "-o", str(out)]) == status
        found.append(json.loads(out.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("engine", ["chdb", "datafusion", "spark"])
def test_reports_are_those_of_duckdb(
    few: tuple[Path, dict[str, list[Row]]], tmp_path: Path, engine: str, command: str
) -> None:
    root, rows = few
    conn = next(row["conn_id"] for row in rows["fleet_problems"] if row["timeout_us"])
    arguments = [word.replace("{root}", str(root)).replace("{conn}", str(conn)) for word in COMMANDS[command]]
    same(*reports(arguments, engine, tmp_path, 3))


@pytest.mark.parametrize("engine", ["chdb", "datafusion", "spark"])
def test_culprits_are_those_of_duckdb(racks: Path, tmp_path: Path, engine: str) -> None:
    """Blame in rounds, background, what is rarer elsewhere, pipelines: whole."""
    same(*reports(["correlate", str(racks)], engine, tmp_path, 0))
