"""A culprit's connections and what their sockets did, against the rows."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import conftest
import pytest
from fleet_files import BEGIN, BEGIN_NS, HOSTILE, Row, write

from whylat_fleet.cli import main
from whylat_fleet.drill import parse, quote_culprit
from whylat_fleet.schema import BIN_NS, PROBLEMS

Few = tuple[Path, dict[str, list[Row]]]


def drilled(root: Path, out: Path, *culprit: str) -> dict[str, Any]:
    options = ["--from", BEGIN, "--connections", "99", "--format", "json", "-o", str(out), "--force"]
    assert main(["drill", str(root), *culprit, *options]) == 3
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))["culprit"]
    return found


@pytest.mark.parametrize("culprit", [("host", "host-04"), ("application", HOSTILE), ("host", "host-03")])
def test_connections_and_moments_are_those_of_the_rows(few: Few, tmp_path: Path, culprit: tuple[str, str]) -> None:
    root, rows = few
    found = drilled(root, tmp_path / "d.json", *culprit)
    of = {row["conn_id"]: row for row in rows["fleet_connections"] if row["time_ns"] < BEGIN_NS + 3600 * 10**9}
    mine = {conn for conn, row in of.items() if culprit[1] in (row["host"], row["app"])}
    suffered: dict[int, dict[int, Row]] = {}
    for row in rows["fleet_problems"]:
        if row["conn_id"] in mine and any(row[f"{problem}_us"] for problem in PROBLEMS):
            suffered.setdefault(row["conn_id"], {})[row["begin_ns"]] = row
    assert found["counted_connections"] == len(suffered) == len(found["connections"]) > 20
    for one in found["connections"]:
        bins = suffered[one["conn_id"]].values()
        # host-03 does not measure delayed ACKs: that is not none
        assert one["problem_us"] == {
            p: None if one["host"] == "host-03" and p == "delayed_ack" else sum(row[f"{p}_us"] or 0 for row in bins)
            for p in PROBLEMS
        }
        assert one["peer_port"] == of[one["conn_id"]]["peer_port"]
    coefficients = [one["coefficient"] for one in found["connections"]]
    assert coefficients == sorted(coefficients, reverse=True)
    assert [moment["conn_id"] for moment in found["moments"]] == [one["conn_id"] for one in found["connections"][:3]]
    for moment in found["moments"]:
        bins = suffered[moment["conn_id"]].values()
        most = max(sum(row[f"{p}_us"] or 0 for p in PROBLEMS) for row in bins)
        assert sum(us or 0 for us in moment["problem_us"].values()) == most
        near = range(moment["begin_ns"] - BIN_NS, moment["begin_ns"] + 2 * BIN_NS)
        readings = [r for r in rows["fleet_details"] if r["conn_id"] == moment["conn_id"] and r["time_ns"] in near]
        expected = sorted((r["time_ns"], r["retrans"], r["stage"]) for r in readings)
        assert [(r["time_ns"], r["retrans"], r["stage"]) for r in moment["readings"]] == expected
        assert len(expected) >= 4
    struck = {entry["begin_ns"]: entry["connections"] for entry in found["struck"]}
    for begin, counts in struck.items():
        at = [bins[begin] for bins in suffered.values() if begin in bins]
        assert counts == {p: sum((row[f"{p}_us"] or 0) > 0 for row in at) for p in PROBLEMS}


def test_one_connection_and_what_it_has_a_part_in(few: Few, tmp_path: Path) -> None:
    root, rows = few
    row = next(row for row in rows["fleet_problems"] if row["host"] == "host-02" and row["timeout_us"])
    found = drilled(root, tmp_path / "c.json", "conn", str(row["conn_id"]))
    assert [one["conn_id"] for one in found["connections"]] == [row["conn_id"]]
    assert {"kind": "host", "name": "host-02"} in found["part_of"]
    bins = [other for other in rows["fleet_problems"] if other["conn_id"] == row["conn_id"]]
    assert len(found["moments"]) == min(3, sum(any(other[f"{p}_us"] for p in PROBLEMS) for other in bins))


def test_what_a_report_says_can_be_drilled_and_nothing_else(few: Few, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(few[0])
    assert main(["drill", root, "host", "host-01", "(as the peer)", "--from", BEGIN]) == 3
    assert "host host-01 (as the peer)" in capsys.readouterr().out
    assert main(["drill", root, "host", "host-O1", "--from", BEGIN]) == 1
    assert re.search("hint: did you mean .*host-01", capsys.readouterr().err)
    assert main(["drill", root, "link", "a>b", "--from", BEGIN]) == 1
    assert "topology.json" in capsys.readouterr().err
    assert main(["drill", root, "conn", "7", "--from", BEGIN]) == 1
    assert main(["drill", root, "planet", "earth", "--from", BEGIN]) == 2


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("host", "h1"),
        ("peer", "h1"),
        ("link", "tor-000>agg-01"),
        ("link", "a>b|a>c"),
        ("application", "it's $HOME; `x`"),
        ("application", "--force"),
        ("conn", "-42"),
    ],
)
def test_what_a_shell_makes_of_a_quoted_culprit_is_the_culprit(kind: str, name: str) -> None:
    shell = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {quote_culprit(kind, name)}"], capture_output=True, text=True, check=True
    )
    words = shell.stdout.split("\0")[:-1]
    assert parse(words) == (kind, name)
    assert [word for word in words if word.startswith("--")] == []


def test_the_command_of_every_culprit_drills_into_it(racks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    window = ["--from", conftest.BEGIN, "--hours", "1"]
    assert main(["correlate", str(racks), *window]) == 0
    printed = re.findall(r"^\d+\. (.*?): |^   drill: (.*)$", capsys.readouterr().out, re.MULTILINE)
    titles, commands = [title for title, _ in printed if title], [command for _, command in printed if command]
    assert len(titles) == len(commands) >= 3
    assert [title for title in titles if ">" in title]
    for title, command in zip(titles, commands, strict=True):
        program, *words = shlex.split(command)
        assert program == "whylat-fleet"
        assert f"--from {conftest.BEGIN}" in command
        assert main(words) == 0
        assert f"\n{title}\n" in capsys.readouterr().out


def test_hints_for_names_can_be_copied(racks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def errors(*culprit: str) -> str:
        assert main(["drill", str(racks), *culprit]) == 1
        return capsys.readouterr().err

    assert "hint: that link is judged as host 'h00065 (as the peer)'\n" in errors("link", "tor-001>h00065")
    assert "hint: that link is judged as host h00065\n" in errors("link", "h00065>tor-001")
    # what is left of it where the shell took the rest for a file
    assert re.search(r"hint: did you mean link 'tor-000>agg-01'; quote_culprit, as", errors("link", "tor-000"))
    assert "there is no host h99999 (as the peer) in this window\n" in errors("host", "h99999 (as the peer)")
    assert "hint: did you mean host 'h00065 (as the peer)'" in errors("host", "h0065 (as the peer)")


@pytest.mark.parametrize("option", ["--connections", "--moments"])
def test_fewer_than_none_is_refused(few: Few, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["drill", str(few[0]), "host", "host-04", "--from", BEGIN, option, "-3"]) == 2
    assert f"error: {option} -3: the number must be 0 or more\nhint: {option} 0" in capsys.readouterr().err


@pytest.mark.parametrize("format_", ["text", "html"])
def test_no_connections_asked_for_are_not_none_that_count(
    few: Few, capsys: pytest.CaptureFixture[str], format_: str
) -> None:
    words = ["drill", str(few[0]), "host", "host-04", "--from", BEGIN, "--format", format_]
    assert main([*words, "--connections", "0"]) == 3
    printed = capsys.readouterr().out
    assert "comparable connections" in printed
    assert "no comparable connection" not in printed
    assert "Connections of host" not in printed
    assert "\nConnections\n" not in printed


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("connections", [1, 3])
def test_as_many_are_listed_as_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], problem: str, connections: int
) -> None:
    root = tmp_path / "dataset"
    coverage = {"length_us": 60_000_000, "poll_gap_us": 1, "clock_error_us": 1, "detail": "calls", "lost": 0}
    for host, peer, described in (("a", "10.0.0.2", True), ("b", "10.0.0.1", False)):
        own = "10.0.0.1" if host == "a" else "10.0.0.2"
        ids = [{"host": host, "conn_id": 10 * (host == "b") + number} for number in range(connections)]
        ends = {"local_address": own, "local_port": 1, "peer_address": peer, "peer_port": 2, "app": "shop"}
        if described:
            rows = [one | ends | {"time_ns": BEGIN_NS + 9, "first_ns": BEGIN_NS} for one in ids]
            write(root, "fleet_connections", host, rows)
        us = {f"{name}_us": 1234 if name == problem else 0 for name in PROBLEMS} | {"sender_app_us": 0}
        bins = [one | us | {"begin_ns": BEGIN_NS + (4 + place) * BIN_NS} for place, one in enumerate(ids)]
        write(root, "fleet_problems", host, bins)
        times = [{"host": host, "begin_ns": BEGIN_NS + at * 60 * 10**9, **coverage} for at in range(60)]
        write(root, "fleet_coverage", host, times)
    write(root, "fleet_connections", "c", [ends | {"host": "c", "conn_id": 99, "time_ns": BEGIN_NS + 9, "app": "calm"}])
    write(root, "fleet_coverage", "c", [{"host": "c", "begin_ns": BEGIN_NS, **coverage}])
    # an application without a problem is no unknown one
    assert main(["drill", str(root), "application", "calm", "--from", BEGIN, "--format", "json"]) == 0
    calm = json.loads(capsys.readouterr().out)["culprit"]
    assert (calm["counted_connections"], calm["connections"], calm["struck"]) == (0, [], [])
    # no file describes those of host b: they have a part in their host alone
    culprits: list[tuple[str, str]] = [("host", "a"), ("host", "b"), ("application", "shop")]
    for culprit in culprits:
        options = ["--from", BEGIN, "--connections", "99", "--moments", "99"]
        assert main(["drill", str(root), *culprit, *options, "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)["culprit"]
        listed = found["connections"]
        assert found["counted_connections"] == len(listed) == len(found["moments"]) == connections
        assert [one["problem_us"][problem] for one in listed] == [1234] * connections
        assert sum(step["connections"][problem] for step in found["struck"]) == connections
        assert all((one["coefficient"] is None) == (connections == 1) for one in listed)
        assert {one["host"] for one in listed} == {"b" if culprit[1] == "b" else "a"}
        assert {one["peer_address"] for one in listed} == {None if culprit[1] == "b" else "10.0.0.2"}
        if problem == PROBLEMS[0]:
            assert main(["drill", str(root), *culprit, *options, "--format", "html"]) == 0
            assert main(["drill", str(root), "conn", str(listed[0]["conn_id"]), "--from", BEGIN]) == 0
            assert f"conn {listed[0]['conn_id']}" in capsys.readouterr().out
