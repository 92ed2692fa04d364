"""A small data centre that the tests share."""

from pathlib import Path

import fleet_files
import pytest

from whylat_fleet.cli import main

BEGIN = "2026-01-05T10:00"


@pytest.fixture(scope="session")
def center(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 hosts. The incast lies within the application with delayed ACKs."""
    out = tmp_path_factory.mktemp("fleet") / "center"
    assert main(["simulate", str(out), "--hosts", "400", "--conns", "60", "--seed", "3", "--begin", BEGIN]) == 0
    return out


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[fleet_files.Row]]]:
    """A dataset of a few hosts, and its rows."""
    root = tmp_path_factory.mktemp("few") / "dataset"
    return root, fleet_files.dataset(root)


@pytest.fixture(scope="session")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two racks with three culprits."""
    out = tmp_path_factory.mktemp("racks") / "racks"
    plants = ("send-buffer", "receive-window", "bad-port")
    options = ["--hosts", "80", "--conns", "30", "--begin", BEGIN, *(f"--plant={plant}" for plant in plants)]
    assert main(["simulate", str(out), *options]) == 0
    return out


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred hosts."""
    out = tmp_path_factory.mktemp("fleet") / "small"
    assert main(["simulate", str(out), "--hosts", "100", "--conns", "60", "--begin", BEGIN]) == 0
    return out
