"""Small fleets: exact tests name the culprit, whatever the clocks; or the answer says how many connections it needs."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import fleet_files
import pytest
from conftest import BEGIN
from hypothesis import given
from hypothesis import strategies as st

from whylat_fleet.cli import main
from whylat_fleet.null import log_enriched

Answer = tuple[int, dict[str, Any], str]


def ask(root: Path, capsys: pytest.CaptureFixture[str], begin: str = BEGIN) -> Answer:
    """Returns the exit code, the report as JSON, and as text in one line."""
    capsys.readouterr()
    code = main(["correlate", str(root), "--from", begin, "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    main(["correlate", str(root), "--from", begin])
    return code, found, " ".join(capsys.readouterr().out.split())


def named(found: dict[str, Any]) -> list[str]:
    return [f"{one['kind']} {one['name']} {one['problem']}" for one in found["culprits"]]


def simulated(root: Path, hosts: int) -> str:
    """Writes a fleet in which one application has delayed ACKs; returns its name."""
    options = ["--hosts", str(hosts), "--conns", "60", "--plant", "delayed-acks", "--begin", BEGIN]
    assert main(["simulate", str(root), *options]) == 0
    (planted,) = json.loads((root / "truth.json").read_text(encoding="utf-8"))["planted"]
    return f"application {planted['name']} delayed_ack"


def change(root: Path, table: str, columns: str) -> None:
    """Replaces columns in all files of a table."""
    for path in sorted(root.glob(f"{table}/*/*/*.parquet")):
        rows = f"SELECT * REPLACE ({columns}) FROM read_parquet('{path}')"
        metadata = f"{{'whylat.schema': 'whylat.fleet/1', 'whylat.host': '{path.name.split('.')[0]}'}}"
        duckdb.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet, KV_METADATA {metadata})")


@given(st.tuples(*(st.integers(0, 12) for _ in range(4))))
def test_the_chance_is_the_hypergeometric_tail(counts: tuple[int, ...]) -> None:
    hits, misses, other_hits, other_misses = counts
    members, others = hits + misses, other_hits + other_misses
    all_hits, total = hits + other_hits, members + others
    sets = sum(
        math.comb(members, k) * math.comb(others, all_hits - k)
        for k in range(hits, min(members, all_hits) + 1)
        if all_hits - k <= others
    )
    expected = Fraction(sets, math.comb(total, all_hits))
    assert math.exp(log_enriched(hits, members, other_hits, others)) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("hosts", [1, 3])
def test_few_hosts_end_in_the_culprits_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], hosts: int) -> None:
    truth = simulated(tmp_path / "fleet", hosts)
    code, found, shown = ask(tmp_path / "fleet", capsys)
    assert (code, named(found)) == (0, [truth])
    exact = found["culprits"][0]["exact"]
    assert exact["connections"] <= exact["of"]
    assert f"{exact['connections']} of its {exact['of']} connections had it " in shown
    assert f"of the others, {exact['other_connections']} of {exact['of_others']}" in shown


def _without(root: Path) -> str:
    change(root, "fleet_coverage", "CAST(NULL AS BIGINT) AS clock_error_us")
    return "lost by the agents: 0 records"


def _of_one_machine(root: Path) -> str:
    change(root, "fleet_coverage", "CAST(NULL AS BIGINT) AS clock_error_us, 'boot' AS boot_id")
    return "all hosts are of one machine: they share its clock"


def _of_several(root: Path) -> str:
    change(root, "fleet_coverage", "CAST(NULL AS BIGINT) AS clock_error_us")
    return "the hosts' clocks are not synchronised: nothing is compared in time"


@pytest.mark.parametrize(("hosts", "make"), [(1, _without), (3, _of_one_machine), (3, _of_several)])
def test_no_clock_needs_to_be_synchronised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hosts: int, make: Callable[[Path], str]
) -> None:
    truth = simulated(tmp_path / "fleet", hosts)
    sentence = make(tmp_path / "fleet")
    code, found, shown = ask(tmp_path / "fleet", capsys)
    assert (code, named(found)) == (0, [truth])
    assert sentence in shown
    assert found["coverage"]["clocks_differ"] == (make is _of_several)


def tiny(root: Path, slow: int, healthy: int, gap_us: int = 1) -> None:
    """Writes a host with two applications: `slow` connections of one have delayed ACKs, those of the other nothing."""
    begin = fleet_files.BEGIN_NS
    watched = {"host": "a", "begin_ns": begin, "length_us": 3_600_000_000, "detail": "calls", "boot_id": "b"}
    watched |= {"connections": slow + healthy, "poll_gap_us": gap_us, "lost": 0, "dropped_files": 0, "agent": "0.1"}
    fleet_files.write(root, "fleet_coverage", "a", [watched])
    none = {"send_buffer_us": 0, "fast_retransmit_us": 0, "timeout_us": 0, "receiver_window_us": 0}
    problems = [
        {"host": "a", "conn_id": conn, "begin_ns": begin + bin_ * 2 * 10**9, **none, "delayed_ack_us": 1_500_000}
        for conn in range(slow)
        for bin_ in range(1000)
    ]
    fleet_files.write(root, "fleet_problems", "a", problems)
    life = {"host": "a", "time_ns": begin, "first_ns": begin, "local_address": "10.0.0.1", "peer_address": "10.0.0.9"}
    rows = [{**life, "conn_id": conn, "app": "slow" if conn < slow else "fine"} for conn in range(slow + healthy)]
    fleet_files.write(root, "fleet_connections", "a", rows)
    if gap_us > 2_000_000:
        read = [{"host": "a", "conn_id": conn, "begin_ns": begin, "poll_gap_us": gap_us} for conn in range(slow)]
        fleet_files.write(root, "fleet_intervals", "a", read)


def test_too_few_connections_say_how_many_are_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny(tmp_path / "two", 2, 8)
    code, found, shown = ask(tmp_path / "two", capsys, fleet_files.BEGIN)
    assert (code, named(found)) == (0, [])
    # three resources, five problems, six shares; C(10, 5) = 252 sets of five: none of ten is rare enough
    assert found["exact"] == {
        "connections": 10, "with_problem": 2, "tests": 90, "level": 0.05, "least_connections": None,
    }  # fmt: skip
    assert "10 connections are too few to exclude chance" in shown
    tiny(tmp_path / "four", 2, 38)
    _, found, shown = ask(tmp_path / "four", capsys, fleet_files.BEGIN)
    assert named(found) == []
    # C(40, 3) = 9,880 sets of three make 0.0091 by 90 tests, below 0.05 / 2
    assert found["exact"]["least_connections"] == 3
    assert "2 of 40 connections had a problem; to be named, a resource needs 3 that have" in shown
    tiny(tmp_path / "enough", 3, 37)
    assert named(ask(tmp_path / "enough", capsys, fleet_files.BEGIN)[1]) == ["application slow delayed_ack"]


def test_one_application_alone_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny(tmp_path / "alone", 30, 0)
    _, found, shown = ask(tmp_path / "alone", capsys, fleet_files.BEGIN)
    assert named(found) == []
    assert "host a, application slow: all connections, so that no others can be compared with them" in shown
    assert "delayed ACK for more than 25 % of their time: 30 of 30 connections" in shown


def test_connections_that_are_read_seldom_are_named_in_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny(tmp_path / "seldom", 12, 30, gap_us=5_000_000)
    _, found, shown = ask(tmp_path / "seldom", capsys, fleet_files.BEGIN)
    assert found["coverage"]["slow_polled"] == [{"host": "a", "application": "slow", "connections": 12}]
    # who has a problem needs no bins
    assert named(found) == ["application slow delayed_ack"]
    assert "12 connections had no part in coefficients, read less often than once a bin: slow on host a (12)" in shown
