"""An output that cannot be written is an error before the report is made."""

import errno
from pathlib import Path

import pytest
from fleet_files import BEGIN, Row

from whylat_fleet.cli import main
from whylat_fleet.dataset import Dataset

Few = tuple[Path, dict[str, list[Row]]]
COMMANDS = {
    "correlate": ["--from", BEGIN],
    "summary": ["--from", BEGIN],
    "drill": ["host", "host-04", "--from", BEGIN],
    "compare": ["--before", BEGIN, "--after", BEGIN],
    "background": ["--from", BEGIN],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("nope/x", "No such file or directory"),
        ("file/x", "Not a directory"),
        ("file/x/y", "Not a directory"),
        ("folder", "Is a directory"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_anything_is_read(
    few: Few,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    place: str,
    reason: str,
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(Dataset, "select", lambda *_: pytest.fail("it was read"))
    for force in ([], ["--force"]):
        assert main([command, str(few[0]), *COMMANDS[command], "-o", str(tmp_path / place), *force]) == 1
        assert capsys.readouterr().err == (
            f"error: cannot write {tmp_path / place}: {reason}\nhint: name a file in a directory that exists\n"
        )


@pytest.mark.parametrize("command", ["summary", "background"])
def test_error_of_the_last_write_is_reported(
    few: Few, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("whylat_fleet.cli._write_private", full)
    assert main([command, str(few[0]), *COMMANDS[command], "-o", str(tmp_path / "x")]) == 1
    errors = capsys.readouterr().err
    assert f"error: cannot write {tmp_path / 'x'}: No space left on device\nhint: name a file where" in errors


@pytest.mark.parametrize("before", [None, "open to all before"])
def test_an_output_is_for_nobody_else_to_read(few: Few, tmp_path: Path, before: str | None) -> None:
    out = tmp_path / "x"
    if before is not None:
        out.write_text(before)
        out.chmod(0o644)
    code = main(["summary", str(few[0]), *COMMANDS["summary"], "-o", str(out), "--force"])
    assert code in (0, 3)
    assert out.stat().st_mode & 0o777 == 0o600
    assert out.read_text()


def test_a_data_centre_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / "center"
    options = ["--hosts", "80", "--conns", "1", "--plant", "none", "--begin", "2026-01-05T10:00"]
    assert main(["simulate", str(out), *options]) == 1
    assert f"error: cannot write {out}: Not a directory\nhint: name a new directory" in capsys.readouterr().err
