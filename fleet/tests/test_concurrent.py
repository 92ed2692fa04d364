"""Reads while agents write: no error, no row twice, none missing."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from fleet_files import BEGIN, BEGIN_NS, Row, write

from whylat_fleet.dataset import SECOND_NS, Dataset, Window, _paths
from whylat_fleet.engine.duckdb import DuckDb
from whylat_fleet.errors import FleetError
from whylat_fleet.prepare import PreparedWindow, ask

ROUNDS, HOSTS_A_ROUND, MINUTES = 6, 2, 4


def rows(host: int, minute: int) -> dict[str, list[Row]]:
    """A minute of one host."""
    begin = BEGIN_NS + minute * 60 * SECOND_NS
    name = f"h{host:03}"
    return {
        "fleet_problems": [
            {
                "host": name, "conn_id": host * 1000 + minute, "begin_ns": begin, "send_buffer_us": 5,
                "fast_retransmit_us": 0, "timeout_us": 0, "receiver_window_us": 0,
            }
        ],
        "fleet_coverage": [
            {
                "host": name, "begin_ns": begin, "length_us": 60_000_000, "detail": "calls", "connections": 1,
                "poll_gap_us": 1, "clock_error_us": 1, "lost": 0, "dropped_files": 0,
            }
        ],
    }  # fmt: skip


def merge(root: Path, host: int) -> None:
    """As an agent does: the hour's file is renamed into place, then the minutes' are removed."""
    for table in ("fleet_problems", "fleet_coverage"):
        every = [row for minute in range(MINUTES) for row in rows(host, minute)[table]]
        path = write(root, table, f"h{host:03}", every)
        for minute in path.parent.glob(f"h{host:03}.0badcafe.05??.parquet"):
            minute.unlink()


def agents(root: Path, go: Connection) -> None:
    """Merges some hosts whenever a read begins, and adds a minute of another."""
    for turn in range(ROUNDS):
        go.recv()
        for host in range(turn * HOSTS_A_ROUND, (turn + 1) * HOSTS_A_ROUND):
            merge(root, host)
        for table, part in rows(900, turn).items():
            write(root, table, "h900", part, minute=turn)


def test_every_row_is_read_once_while_hours_are_merged(tmp_path: Path) -> None:
    for host in range(ROUNDS * HOSTS_A_ROUND):
        for minute in range(MINUTES):
            for table, part in rows(host, minute).items():
                write(tmp_path, table, f"h{host:03}", part, minute=minute)
    everything = {host * 1000 + minute for host in range(ROUNDS * HOSTS_A_ROUND) for minute in range(MINUTES)}
    dataset = Dataset(tmp_path)
    window = dataset.window(BEGIN, 1)

    def question(prepared: PreparedWindow) -> list[int]:
        return [row[0] for row in prepared.engine.rows("SELECT p.conn_id FROM fleet_problems AS p")]

    ours, theirs = multiprocessing.Pipe()
    writer = multiprocessing.get_context("spawn").Process(target=agents, args=(tmp_path, theirs))
    writer.start()
    engine = DuckDb()
    seen = 0
    try:
        for turn in range(ROUNDS + 1):
            if turn < ROUNDS:
                ours.send("go")
            else:
                writer.join()
            found = ask(question, engine, dataset, window, tables=("fleet_problems", *_OTHERS))
            added = {conn for conn in found if conn >= 900_000}
            assert len(found) == len(set(found))
            assert set(found) - added == everything
            assert len(added) >= seen
            seen = len(added)
    finally:
        engine.close()
        writer.join(timeout=60)
    assert (writer.exitcode, seen) == (0, ROUNDS)


def minutes(root: Path) -> tuple[Dataset, Window, list[int]]:
    """Returns a dataset of one host with an hour that is not merged yet, and the connections of its rows."""
    for minute in range(MINUTES):
        for table, part in rows(1, minute).items():
            write(root, table, "h001", part, minute=minute)
    dataset = Dataset(root)
    return dataset, dataset.window(BEGIN, 1), [1000 + minute for minute in range(MINUTES)]


def conns(prepared: PreparedWindow) -> list[int]:
    return sorted(row[0] for row in prepared.engine.rows("SELECT p.conn_id FROM fleet_problems AS p"))


def test_an_hour_merged_between_opening_and_reading_is_read_once(tmp_path: Path) -> None:
    dataset, window, everything = minutes(tmp_path)
    asked: list[int] = []

    def question(prepared: PreparedWindow) -> list[int]:
        if not asked:
            merge(tmp_path, 1)
        asked.append(prepared.coverage.superseded_files)
        return conns(prepared)

    engine = DuckDb()
    try:
        assert ask(question, engine, dataset, window) == everything
    finally:
        engine.close()
    # the minutes were gone at the first question; at the second there was the hour alone
    assert asked == [0, 0]


def test_an_hour_merged_between_listing_and_footers_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, window, everything = minutes(tmp_path)
    listed = []

    def merged_after(folder: Path) -> list[Path]:
        paths = _paths(folder)
        listed.append(len(paths))
        if len(listed) == 1:
            merge(tmp_path, 1)
        return paths

    monkeypatch.setattr("whylat_fleet.dataset._paths", merged_after)
    engine = DuckDb()
    try:
        assert ask(conns, engine, dataset, window) == everything
    finally:
        engine.close()
    # the first list had the minutes, the next the hour
    assert listed[:2] == [MINUTES, 1]


def test_an_hour_not_merged_whole_is_read_once(tmp_path: Path) -> None:
    """The agent ended between its rename and the removal of the last minutes."""
    dataset, window, everything = minutes(tmp_path)
    for table in ("fleet_problems", "fleet_coverage"):
        write(tmp_path, table, "h001", [row for minute in range(MINUTES) for row in rows(1, minute)[table]])
        next((tmp_path / table).glob("*/*/h001.0badcafe.0501.parquet")).unlink()
    engine = DuckDb()
    try:
        assert ask(conns, engine, dataset, window) == everything
    finally:
        engine.close()


_OTHERS = ("fleet_intervals", "fleet_connections", "fleet_coverage")


def test_a_dataset_that_never_holds_still_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "fleet_problems", "h001", rows(1, 0)["fleet_problems"], minute=0)
    dataset = Dataset(tmp_path)
    monkeypatch.setattr("whylat_fleet.dataset._paths", lambda folder: [path.with_name("h001.0badcafe.0501.parquet")])
    with pytest.raises(FleetError, match="vanish") as raised:
        dataset.select(["fleet_problems"], dataset.window(BEGIN, 1))
    assert raised.value.hint
