"""Differences between two windows: those that chance can explain, and others."""

import json
import random
from itertools import product
from pathlib import Path

import fleet_files
import pytest
from conftest import BEGIN as CENTER_BEGIN
from fleet_files import BEGIN, BEGIN_NS, HOSTILE, Row

from whylat_fleet.blame import Verdict
from whylat_fleet.cli import main
from whylat_fleet.compare import EXACT, Side, Sums, compare, side, sign_flip
from whylat_fleet.dataset import HOUR_NS, Dataset, Window
from whylat_fleet.engine.duckdb import DuckDb
from whylat_fleet.prepare import Coverage, ask

Few = tuple[Path, dict[str, list[Row]]]


def test_the_chance_of_a_sum_is_that_of_all_signs() -> None:
    generator = random.Random(3)
    for count in range(1, 12):
        d = [float(generator.choice([1, 2, 2, 5]) * generator.choice([1, 1, 1, -1])) for _ in range(count)]
        sums = [abs(sum(s * v for s, v in zip(signs, d, strict=True))) for signs in product((1, -1), repeat=count)]
        # a sum of 0 lies on both sides
        expected = min(1.0, sum(value >= abs(sum(d)) for value in sums) * (2 if sum(d) == 0 else 1) / 2**count)
        assert sign_flip(d)[0] == pytest.approx(expected)
    assert sign_flip([0.0, 0.0]) == (1.0, 0.5)


def test_the_bound_for_many_hosts_is_never_below_the_chance() -> None:
    generator = random.Random(5)
    for shift in (0.0, 0.5, 1.0, 3.0):
        d = [generator.gauss(shift, 1) for _ in range(EXACT)]
        exact = sign_flip(d)[0]
        twice = sign_flip([*d, 1e-9])[0]
        assert exact <= twice <= 1


def a_side(shares: list[float], app: str = "shop") -> Side:
    sums = {f"h{n}": Sums(1, 3.6e9, (0, int(share * 3.6e9), 0, 0, 0)) for n, share in enumerate(shares)}
    return Side(Coverage(Window(0, HOUR_NS)), 2_000_000, {app: sums}, Verdict([], {}, None, 0, 0))


def test_what_got_better_on_most_hosts_is_beyond_noise() -> None:
    generator = random.Random(7)
    before = [generator.uniform(0.02, 0.08) for _ in range(40)]
    halved = compare(a_side(before), a_side([share * generator.uniform(0.3, 0.7) for share in before]))
    assert [(change.application, change.verdict) for change in halved.changes] == [(None, "better"), ("shop", "better")]
    assert halved.changes[0].before > 1.5 * halved.changes[0].after
    shuffled = compare(a_side(before), a_side([share * generator.uniform(0.5, 1.5) for share in before]))
    assert {change.verdict for change in shuffled.changes} == {"no difference beyond noise"}


def test_one_host_alone_is_no_trend_and_few_are_undecided() -> None:
    same = [0.05] * 40
    one = compare(a_side(same), a_side([0.9, *same[1:]])).changes[0]
    assert one.after > one.before
    assert (one.verdict, one.most_host) == ("no difference beyond noise", "h0")
    few = compare(a_side([0.05] * 4), a_side([0.5] * 4)).changes[0]
    assert few.verdict == "cannot tell"


def test_times_of_hosts_and_applications_are_those_of_the_rows(few: Few) -> None:
    root, rows = few
    engine, dataset = DuckDb(), Dataset(few[0])
    try:
        found = ask(side, engine, dataset, dataset.window(BEGIN, 1))
    finally:
        engine.close()
    latest: dict[int, Row] = {}
    for row in sorted(rows["fleet_connections"], key=lambda row: row["time_ns"]):
        if row["time_ns"] < BEGIN_NS + HOUR_NS:
            latest[row["conn_id"]] = row
    assert root.exists()
    for host, app in (("host-03", "shop"), (fleet_files.HOSTS[-1], HOSTILE), ("host-05", "")):
        mine = {conn: row for conn, row in latest.items() if row["host"] == host and (row["app"] or "") == app}
        alive = sum(
            max(0, min(row["closed_ns"] or BEGIN_NS + HOUR_NS, BEGIN_NS + HOUR_NS) - max(row["first_ns"], BEGIN_NS))
            / 1000
            for row in mine.values()
        )
        sums = found.sums[app][host]
        # an agent that watched half of the time saw half of it
        assert sums.us == pytest.approx(alive * (0.5 if host == "host-05" else 1), rel=1e-9)
        assert sums.connections == len(mine) > 0
        problems = [row for row in rows["fleet_problems"] if row["conn_id"] in mine]
        assert sums.problem_us[3] == sum(row["delayed_ack_us"] or 0 for row in problems)
        assert sums.problem_us[0] == sum(row["send_buffer_us"] for row in problems)


def test_hosts_that_did_not_measure_a_problem_are_not_healthy() -> None:
    before, after = a_side([0.05] * 40), a_side([0.05] * 40)
    for one in (before, after):
        one.sums["shop"] |= {f"stats{n}": Sums(1, 3.6e9, (0, 0, 0, 0, 0)) for n in range(40)}
        one.sums["shop"] |= {f"h{n}": Sums(1, 3.6e9, (0, 0, 0, 36_000_000, 0)) for n in range(40)}
    assert compare(before, after).changes[0].before == pytest.approx(0.005)
    after.without_delayed_ack = frozenset(f"stats{n}" for n in range(40))
    change = compare(before, after).changes[0]
    assert change.hosts == 40
    assert change.before == pytest.approx(0.01)


def test_report_names_culprits_that_stay_and_says_none_came_or_went(
    racks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(racks), str(racks)]) == 0
    printed = capsys.readouterr().out.split("\nCulprits\n")[1].splitlines()
    assert printed[0] == "  none new, none gone"
    assert len(printed) > 3
    assert [line for line in printed[1:] if not line.startswith("  still: ")] == []


def test_a_share_that_fell_with_its_culprit_is_no_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three hosts are too few to agree on anything; the application that is gone says why the share fell."""
    for name, plants in (("before", ["delayed-acks"]), ("after", ["none"])):
        options = ["--hosts", "3", "--conns", "60", "--begin", CENTER_BEGIN, *(f"--plant={plant}" for plant in plants)]
        assert main(["simulate", str(tmp_path / name), *options]) == 0
    (truth,) = json.loads((tmp_path / "before" / "truth.json").read_text(encoding="utf-8"))["planted"]
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one["name"]) for one in found["culprits"]["gone"]] == [("application", truth["name"])]
    changes = {(one["application"], one["problem"]): one for one in found["changes"]}
    for application in (None, truth["name"]):
        change = changes[application, "delayed_ack"]
        assert (change["verdict"], change["culprit"]) == ("cannot tell", "gone")
        assert change["after"] < change["before"]
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown if line.endswith("culprit gone")] == ["delayed", truth["name"]]


def test_a_side_without_data_is_named(racks: Path, few: Few, capsys: pytest.CaptureFixture[str]) -> None:
    empty = "2020-01-01T00:00"
    for option in ("--before", "--after"):
        assert main(["compare", str(racks), str(racks), option, empty]) == 1
        expected = f"error: {option[2:]}: no host was watched in this window\nhint: give another {option}\n"
        assert capsys.readouterr().err == expected
        assert main(["compare", str(racks), str(racks), option, "2020-01-01T00:30"]) == 2
        assert f"error: {option} 2020-01-01T00:30: " in capsys.readouterr().err
    assert main(["correlate", str(few[0]), "--from", empty]) == 1
    assert "hint: give another --from\n" in capsys.readouterr().err
