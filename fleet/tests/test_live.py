"""Numbers of the reports against those that the programs themselves counted, of a kept dataset.

`python tests/live/first.py WHYLAT --hosts 3 --seconds 24 --pull --keep tests/data/first` records another: three network
namespaces, an agent in each, three applications, and a cable that is pulled out for three seconds.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from whylat_fleet.cli import main
from whylat_fleet.dataset import Dataset

ROOT = Path(__file__).with_name("data") / "first"
Socket = dict[str, Any]


@pytest.fixture(scope="module")
def sockets() -> list[Socket]:
    """Returns the counts of the programs themselves, a row for each socket."""
    rows: list[Socket] = json.loads((ROOT / "counted.json").read_text(encoding="utf-8"))
    return rows


def ask(capsys: pytest.CaptureFixture[str], command: str, *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([command, str(ROOT / "dataset"), *arguments, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def ends(one: dict[str, Any]) -> tuple[Any, ...]:
    return one["local_address"], one["local_port"], one["peer_address"], one["peer_port"]


def test_summary_counts_what_the_programs_did(sockets: list[Socket], capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(capsys, "summary")
    covered = found["coverage"]
    assert found["connections"] == covered["connections"] == len(sockets)
    assert covered["counted_connections"] <= covered["troubled_connections"] <= len(sockets)
    assert (covered["hosts"], covered["lost_records"], found["applications"]) == (3, 0, 3)
    # all sends have 512 bytes
    assert found["median_writes"] == {
        "to_512": {
            "connections": sum(one["writes"] > 0 for one in sockets),
            "writes": sum(one["writes"] for one in sockets),
        }
    }
    timeouts = sum(one["timeouts"] for one in sockets)
    assert timeouts > sum(one["retrans"] for one in sockets) > 0
    assert sum(rate["timeouts"] for rate in found["rates"]) == timeouts
    for rate in found["rates"]:
        assert 0 <= rate["more_timeouts"] <= rate["with_loss"] <= rate["intervals"]
        assert rate["fast"] >= 0
    assert sum(rate["fast"] for rate in found["rates"]) <= sum(one["retrans"] for one in sockets)


def test_losses_over_time_are_those_of_the_kernel(sockets: list[Socket], capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(capsys, "summary")
    losses, window = found["losses"], found["window"]
    assert losses["step_s"] == 10
    lengths = [min(losses["step_s"], (window["end_ns"] - step["begin_ns"]) / 1e9) for step in losses["steps"]]
    timeouts = sum(step["timeouts_per_s"] * length for step, length in zip(losses["steps"], lengths, strict=True))
    assert timeouts == pytest.approx(sum(one["timeouts"] for one in sockets))
    assert min(step["fast_per_s"] for step in losses["steps"]) >= 0
    assert all(step["hosts"] for step in losses["steps"])


def test_hosts_and_shares_of_life_are_of_all_connections(
    sockets: list[Socket], capsys: pytest.CaptureFixture[str]
) -> None:
    found = ask(capsys, "summary")
    # `chat` and `ledger` keep 20 connections from each host and 20 to it; those of `ring` come and go
    assert sum(entry["hosts"] for entry in found["connections_per_host"]) == 3
    assert all(80 <= entry["connections"] <= 83 for entry in found["connections_per_host"])
    (buffers,) = found["send_buffers_by_connections"]
    assert (buffers["least"], buffers["hosts"], buffers["connections"]) == (50, 3, len(sockets))
    for line in found["limited"]:
        counts = [entry["connections"] for entry in line["life_over"]]
        assert line["measured_connections"] == len(sockets)
        assert counts == sorted(counts, reverse=True)
        assert counts[0] <= len(sockets)
    # who asked `ledger` waited for its ACKs
    delayed = next(line for line in found["limited"] if line["problem"] == "delayed_ack")
    assert delayed["life_over"][1]["connections"] >= 60


def test_correlate_and_drill_name_the_sockets_of_the_culprit(
    sockets: list[Socket], capsys: pytest.CaptureFixture[str]
) -> None:
    found = ask(capsys, "correlate")
    first = found["culprits"][0]
    assert (first["kind"], first["name"], first["problem"]) == ("application", "ledger", "delayed_ack")
    of_app: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
    for one in sockets:
        of_app[one["app"]].add(tuple(one["ends"]))
    assert first["exact"]["of"] == len(of_app["ledger"]) == 120
    assert first["exact"]["of"] + first["exact"]["of_others"] == len(sockets)
    assert found["exact"]["connections"] == len(sockets)
    drilled = ask(capsys, "drill", "application", "ledger", "--connections", "1000")["culprit"]
    assert drilled["counted_connections"] == len(drilled["connections"]) >= first["explained"]
    assert {ends(one) for one in drilled["connections"]} <= of_app["ledger"]


def test_compare_has_the_time_of_the_same_connections(
    sockets: list[Socket], capsys: pytest.CaptureFixture[str]
) -> None:
    hour = f"{Dataset(ROOT / 'dataset').hours()[-1]:%Y-%m-%dT%H:00}"
    found = ask(capsys, "compare", "--before", hour, "--after", hour)
    for side in ("before", "after"):
        assert found[side]["coverage"]["connections"] == len(sockets)
    assert found["changes"]
    assert all(one["before"] == one["after"] and one["culprit"] is None for one in found["changes"])
    assert all(0 < one["before"] <= 1 and one["hosts"] == 3 for one in found["changes"] if one["before"])
    assert (found["culprits"]["gone"], found["culprits"]["new"]) == ([], [])


def test_drill_shows_only_what_the_programs_counted(sockets: list[Socket], capsys: pytest.CaptureFixture[str]) -> None:
    counted = {tuple(one["ends"]): one for one in sockets}
    seen: dict[str, set[tuple[Any, ...]]] = {"timeout": set(), "fast_retransmit": set()}
    for app in ("chat", "ledger", "ring"):
        drilled = ask(capsys, "drill", "application", app, "--connections", "1000")["culprit"]
        of_id = {one["conn_id"]: counted[ends(one)] for one in drilled["connections"]}
        assert len(of_id) == drilled["counted_connections"] > 0
        assert {one["app"] for one in of_id.values()} <= {app}
        for problem, those in seen.items():
            with_it = [one for one in drilled["connections"] if one["problem_us"][problem]]
            those.update(ends(one) for one in with_it)
            assert all(step["connections"][problem] <= len(with_it) for step in drilled["struck"])
        for moment in drilled["moments"]:
            own, readings = of_id[moment["conn_id"]], moment["readings"]
            assert sum(one["writes"] or 0 for one in readings) <= own["writes"]
            assert sum(one["written_bytes"] or 0 for one in readings) <= own["written"]
            assert sum(one["timeouts"] or 0 for one in readings) <= own["timeouts"]
    assert seen["timeout"] <= {place for place, one in counted.items() if one["timeouts"]}
    assert seen["fast_retransmit"] <= {place for place, one in counted.items() if one["retrans"]}
    assert seen["timeout"]


def test_compare_counts_the_connections_of_its_culprits(
    sockets: list[Socket], capsys: pytest.CaptureFixture[str]
) -> None:
    hour = f"{Dataset(ROOT / 'dataset').hours()[-1]:%Y-%m-%dT%H:00}"
    found = ask(capsys, "compare", "--before", hour, "--after", hour)
    assert (found["only_before"], found["only_after"]) == ([], [])
    assert found["before"]["coverage"] == found["after"]["coverage"]
    assert found["before"]["coverage"]["lost_records"] == 0
    still = {(one["kind"], one["name"]): one for one in found["culprits"]["still"]}
    assert still["application", "ledger"]["explained"] <= sum(one["app"] == "ledger" for one in sockets)
    assert {one["application"] for one in found["changes"]} - {None} <= {one["app"] for one in sockets}
