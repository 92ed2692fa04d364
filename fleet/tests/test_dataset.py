"""Files that are read, and the reasons for those that are not."""

import re
from pathlib import Path

import duckdb
import fleet_files
import pytest

from whylat_fleet.dataset import HOUR_NS, SECOND_NS, Dataset, Selection
from whylat_fleet.engine.duckdb import DuckDb
from whylat_fleet.errors import FleetError, UsageError
from whylat_fleet.prepare import prepare
from whylat_fleet.report.coverage import when
from whylat_fleet.schema import ADDED, SCHEMA, TABLES

# 2026-11-23 05:00 UTC
HOUR_BEGIN_NS = 1_795_410_000 * 1_000_000_000
FOLDER = "fleet_problems/date=2026-11-23/hour=05"


def write(root: Path, name: str, begin_ns: int = HOUR_BEGIN_NS, schema: str = SCHEMA, host: str = "a") -> Path:
    """A file of one row, as an agent writes it."""
    path = root / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    row = ", ".join(
        f"CAST({begin_ns if column == 'begin_ns' else repr(host) if kind == 'VARCHAR' else 7} AS {kind}) AS {column}"
        for column, kind in TABLES["fleet_problems"].items()
    )
    metadata = f"{{'whylat.schema': '{schema}', 'whylat.rows': '1', 'whylat.host': '{host}'}}"
    duckdb.sql(f"COPY (SELECT {row}) TO '{path}' (FORMAT parquet, COMPRESSION zstd, KV_METADATA {metadata})")
    return path


def select(root: Path) -> Selection:
    """The files of the hour."""
    dataset = Dataset(root)
    return dataset.select(["fleet_problems"], dataset.window("2026-11-23T05:00", 1))


def names(selection: Selection) -> list[str]:
    """Names of the files that are read."""
    return sorted(Path(path).name for path in selection.files["fleet_problems"])


def reasons(selection: Selection) -> dict[str, str]:
    """Reasons of those that are left out, by name."""
    return {Path(one.path).name: one.reason for one in selection.left_out}


def test_hours_file_replaces_its_minutes(tmp_path: Path) -> None:
    for name in ("a.00000001.0500.parquet", "a.00000001.0501.parquet", "a.00000001.05.parquet"):
        write(tmp_path, name)
    # another boot, and another host, have minutes of their own
    write(tmp_path, "a.00000002.0502.parquet", HOUR_BEGIN_NS + 1)
    write(tmp_path, "b.00000003.0500.parquet", host="b")
    selection = select(tmp_path)
    assert names(selection) == ["a.00000001.05.parquet", "a.00000002.0502.parquet", "b.00000003.0500.parquet"]
    assert (selection.superseded, selection.left_out) == (2, [])


def test_what_cannot_be_believed_is_named_and_changes_nothing_else(tmp_path: Path) -> None:
    good = write(tmp_path, "a.00000001.0500.parquet")
    cut = write(tmp_path, "a.00000001.0501.parquet", HOUR_BEGIN_NS + 1)
    cut.write_bytes(cut.read_bytes()[:-40])
    (cut.parent / "a.00000001.0502.parquet").write_bytes(good.read_bytes())
    write(tmp_path, "a.00000001.0503.parquet", HOUR_BEGIN_NS + 2, schema="whylat.fleet/2")
    write(tmp_path, "a.00000001.0504.parquet", HOUR_BEGIN_NS + 2 * HOUR_NS)
    write(tmp_path, "a.00000001.0505.parquet", HOUR_BEGIN_NS + 3, host="other")
    (cut.parent / "notes.txt").write_text("not ours")
    selection = select(tmp_path)
    assert names(selection) == [good.name]
    why = reasons(selection)
    assert "not a whole Parquet file" in why["a.00000001.0501.parquet"]
    assert why["a.00000001.0502.parquet"] == f"a copy of {good.name}"
    assert why["a.00000001.0503.parquet"] == "its schema is whylat.fleet/2, this version reads whylat.fleet/1"
    assert "hour" in why["a.00000001.0504.parquet"]
    assert why["a.00000001.0505.parquet"] == "it was written by other"
    assert why["notes.txt"] == "its name is not one that an agent gives"


def test_a_directory_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="not a dataset"):
        Dataset(tmp_path)
    write(tmp_path, "a.00000001.0500.parquet")
    with pytest.raises(UsageError, match="whole hour"):
        Dataset(tmp_path).window("2026-11-23T05:30", 1)


def test_columns_are_those_that_agents_declare() -> None:
    page = (Path(__file__).parents[2] / "docs/fleet/tables.md").read_text(encoding="utf-8")
    arrow = {"utf8": "VARCHAR", "int64": "BIGINT", "int32": "INTEGER", "uint32": "UINTEGER", "boolean": "BOOLEAN"}
    declared: dict[str, dict[str, str]] = {}
    for section in page.split("\n## ")[1:]:
        fields = re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.MULTILINE)
        declared[section.split("\n")[0]] = {name: arrow[kind] for name, kind in fields}
    assert declared == {table: columns | ADDED.get(table, {}) for table, columns in TABLES.items()}


def test_only_bins_in_which_a_host_was_watched_count(tmp_path: Path) -> None:
    minutes = [
        {"host": "a", "begin_ns": fleet_files.BEGIN_NS + minute * 60 * SECOND_NS, "length_us": 60_000_000}
        | {"detail": "calls", "connections": 1, "poll_gap_us": 1, "clock_error_us": 1, "lost": 0, "dropped_files": 0}
        for minute in range(10, 20)
    ]
    fleet_files.write(tmp_path, "fleet_coverage", "a", minutes)
    engine, dataset = DuckDb(), Dataset(tmp_path)
    try:
        prepared = prepare(engine, dataset, dataset.window(fleet_files.BEGIN, 1))
    finally:
        engine.close()
    assert prepared.grid.bins == 300
    assert when(prepared.coverage) == "2026-11-23 05:10:00 UTC, 10 min 0 s watched"
    assert prepared.coverage.partly_watched == {}


@pytest.mark.parametrize("added", [(True, False), (False, True)])
def test_files_of_older_agents_are_read_beside_newer_ones(tmp_path: Path, added: tuple[bool, bool]) -> None:
    begin = fleet_files.BEGIN_NS
    for host, has_pods in zip(("a", "b"), added, strict=True):
        connection = {"host": host, "conn_id": ord(host), "time_ns": begin, "app": "shop", "pod": "web-0"}
        fleet_files.write(tmp_path, "fleet_connections", host, [connection], added=has_pods)
    dataset = Dataset(tmp_path)
    selection = dataset.select(["fleet_connections"], dataset.window(fleet_files.BEGIN, 1))
    assert selection.left_out == []
    engine = DuckDb()
    try:
        engine.open("fleet_connections", selection.files["fleet_connections"], TABLES["fleet_connections"])
        assert sorted(engine.rows("SELECT host, app FROM fleet_connections")) == [("a", "shop"), ("b", "shop")]
    finally:
        engine.close()


def test_connections_that_another_file_describes_stay(tmp_path: Path) -> None:
    """A minute's file is cut: connections of other minutes are still known; problems of the rest do not count."""
    begin = fleet_files.BEGIN_NS
    watched = {"host": "a:b", "begin_ns": begin, "length_us": 3_600_000_000, "detail": "calls", "connections": 1}
    watched |= {"poll_gap_us": 1, "clock_error_us": 1, "lost": 0, "dropped_files": 0}
    fleet_files.write(tmp_path, "fleet_coverage", "a:b", [watched])
    problem = {"host": "a:b", "send_buffer_us": 5, "fast_retransmit_us": 0, "timeout_us": 0, "receiver_window_us": 0}
    rows = [{**problem, "conn_id": conn, "begin_ns": begin} for conn in (1, 2, 3)]
    fleet_files.write(tmp_path, "fleet_problems", "a:b", rows)
    for minute, conns in ((0, (1,)), (1, (2, 3)), (2, (2,))):
        known = [{"host": "a:b", "conn_id": conn, "time_ns": begin + minute * 60 * SECOND_NS} for conn in conns]
        path = fleet_files.write(tmp_path, "fleet_connections", "a:b", known, minute=minute)
        if minute == 1:
            path.write_bytes(path.read_bytes()[:-9])
    engine, dataset = DuckDb(), Dataset(tmp_path)
    try:
        prepared = prepare(engine, dataset, dataset.window(fleet_files.BEGIN, 1))
        left = sorted(row[0] for row in engine.rows("SELECT DISTINCT c.conn FROM cells AS c"))
    finally:
        engine.close()
    assert left == [1, 2]
    assert prepared.coverage.undescribed == {"a:b": 1}
