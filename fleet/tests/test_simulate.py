"""Options that `simulate` refuses, and its hints."""

from pathlib import Path

import pytest

from whylat_fleet.cli import main


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        ("--hosts 0", "--hosts 0: a fleet needs 1 or more", "--hosts 100 --conns 60"),
        ("--conns 0", "--conns 0: ", "--hosts 100 --conns 60"),
        ("--hours 0", "--hours 0: ", "--hours 1"),
        ("--seed -1", "--seed -1: ", "--seed 1"),
        ("--hosts 80 --conns 5", "--hosts 80 --conns 5: no application has 60", "--hosts 100 --conns 60, or"),
        ("--hosts 80 --conns 1 --plant bad-port", "--hosts 80 --conns 1: no link", "--hosts 100 --conns 60, or"),
        ("--begin 2026-01-05T10:30", "--begin 2026-01-05T10:30: windows begin at", "--begin 2026-01-05T10:00"),
        ("--begin 0001-01-01T00:00+05:00", "--begin 0001-01-01T00:00+05:00: not a time", "write it as"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, error: str, hint: str
) -> None:
    out = tmp_path / "center"
    assert main(["simulate", str(out), *options.split()]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {error}")
    assert second.startswith(f"hint: {hint}")
    assert not out.exists()


def test_what_the_hint_names_can_be_planted_in_the_least(tmp_path: Path) -> None:
    options = ["--hosts", "80", "--conns", "1", "--plant", "receive-window", "--begin", "2026-01-05T10:00"]
    assert main(["simulate", str(tmp_path / "center"), *options]) == 0


def test_help_says_what_is_simulated_without_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    help_ = " ".join(capsys.readouterr().out.split())
    for default in ("(default 400;", "median (default 60)", "of data (default 1)", "generator (default 1)"):
        assert default in help_
