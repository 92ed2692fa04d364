"""`background` of a fleet returns the parameters that the fleet was made with."""

import json
from pathlib import Path

import pytest
from conftest import BEGIN

from whylat_fleet.background import SHARES
from whylat_fleet.cli import main
from whylat_fleet.simulate.problems import parameters


def test_a_fleet_without_culprits_gives_back_its_parameters(tmp_path: Path) -> None:
    quiet, table = tmp_path / "quiet", tmp_path / "background.json"
    sizes = ("--hosts", "80", "--conns", "150", "--begin", BEGIN)
    assert main(["simulate", str(quiet), *sizes, "--plant", "none"]) == 0
    assert main(["background", str(quiet), "-o", str(table)]) == 0
    made, found = parameters(None), parameters(table)
    connections = sum(1 for _ in json.loads((quiet / "topology.json").read_text())["hosts"]) * 150
    assert found["connections_per_host"]["median"] == pytest.approx(150, rel=0.2)
    assert found["shares"] == list(SHARES)
    for problem, expected in made["problems"].items():
        entry = found["problems"][problem]
        # a count has a standard error of its root
        share = expected["connections"][0]
        assert entry["connections"][0] == pytest.approx(share, abs=4 * (share / connections) ** 0.5)
        assert entry["connections"] == sorted(entry["connections"], reverse=True)
        # episodes that touch are one
        assert entry["run_bins"] >= expected["run_bins"] * 0.8
        assert entry["in_bin_us"][2] == pytest.approx(expected["in_bin_us"][2], rel=0.25)
