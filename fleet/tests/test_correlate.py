"""From a dataset to its culprits, and what damaged files change: nothing but that they are named."""

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from whylat_fleet.cli import main
from whylat_fleet.dataset import Dataset, Selection, Window

FOLDER = "date=2026-01-05/hour=10"
CORRELATED = {"receive-window", "incast", "bad-port", "backups", "delayed-acks", "send-buffer"}


def report(dataset: Path, out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["correlate", str(dataset), "--format", "json", "-o", str(out), "--force", *arguments])
    return code, json.loads(out.read_text(encoding="utf-8"))


def test_planted_culprits_are_named_and_no_others(center: Path, tmp_path: Path) -> None:
    """Also the one within another of another problem. And an aggregation switch was blamed here for what is left,
    because the variance of the null vanished with the size of a set."""
    code, found = report(center, tmp_path / "r.json")
    assert code == 0
    named = {("host" if c["kind"] == "peer" else c["kind"]) + " " + c["name"] for c in found["culprits"]}
    planted = json.loads((center / "truth.json").read_text(encoding="utf-8"))["planted"]
    truths = [{f"{t['kind']} {t['name']}", *t["same"]} for t in planted if t["plant"] in CORRELATED]
    assert len(truths) == len(CORRELATED)
    assert [truth for truth in truths if not truth & named] == []
    assert [name for name in named if not any(name in truth for truth in truths)] == []
    pipelines = {f"process {p['host']} {p['process']}" for p in found["pipelines"]}
    assert pipelines == {f"process {t['name']}" for t in planted if t["plant"] == "pipeline"}


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same answer; sums of real numbers differ in their last digits with the order of threads."""
    exact = ("kind", "name", "problem", "when", "members", "explained", "same_connections")
    assert found["culprits"]
    assert len(found["culprits"]) == len(expected["culprits"])
    for one, other in zip(found["culprits"], expected["culprits"], strict=True):
        assert {key: one[key] for key in exact} == {key: other[key] for key in exact}
        assert one["coefficient"] == pytest.approx(other["coefficient"], abs=1e-12)
    assert found["pipelines"] == expected["pipelines"]


def test_three_damaged_hosts_of_a_hundred_change_nothing_else(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file truncated, one duplicated, one host's clock 10 s off: as if the first and the last were not there."""
    damaged, without = tmp_path / "damaged", tmp_path / "without"
    shutil.copytree(small, damaged)
    shutil.copytree(small, without)
    folder = Path("fleet_problems") / FOLDER
    truncated, duplicated = (sorted((small / folder).glob("*.parquet"))[index].name for index in (11, 57))
    whole = (damaged / folder / truncated).read_bytes()
    (damaged / folder / truncated).write_bytes(whole[: len(whole) * 2 // 3])
    shutil.copy(damaged / folder / duplicated, damaged / folder / duplicated.replace(".10.", ".1010."))
    coverage = next((damaged / "fleet_coverage" / FOLDER).glob("h00083.*"))
    off = f"SELECT * REPLACE (CAST(10000000 AS BIGINT) AS clock_error_us) FROM read_parquet('{coverage}')"
    duckdb.execute(f"COPY ({off}) TO '{coverage}' (FORMAT parquet, KV_METADATA {{'whylat.schema': 'whylat.fleet/1'}})")
    (without / folder / truncated).unlink()
    for path in without.glob(f"*/{FOLDER}/h00083.*"):
        path.unlink()

    code, found = report(damaged, tmp_path / "damaged.json")
    _, expected = report(without, tmp_path / "without.json")
    assert code == 3
    assert [Path(file["path"]).name for file in found["coverage"]["left_out_files"]] == [truncated]
    assert found["coverage"]["left_out_hosts"].keys() == {"h00083"}
    same(found, expected)
    select = Dataset.select

    def reversed_files(self: Dataset, tables: list[str], window: Window) -> Selection:
        selection = select(self, tables, window)
        selection.files = {table: files[::-1] for table, files in selection.files.items()}
        return selection

    monkeypatch.setattr(Dataset, "select", reversed_files)
    same(report(damaged, tmp_path / "reversed.json")[1], expected)


SILENT = "h00033"  # the host with problems that no file describes


@pytest.fixture(scope="module")
def placed(small: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any]]:
    """Connections of that host that have a problem, and the answer without its problems."""
    root = tmp_path_factory.mktemp("placed")
    shutil.copytree(small, root / "without")
    problems = next((root / "without" / "fleet_problems" / FOLDER).glob(f"{SILENT}.*"))
    (count,) = duckdb.execute(
        f"SELECT COUNT(DISTINCT conn_id) FROM read_parquet('{problems}') WHERE send_buffer_us + fast_retransmit_us + "
        "timeout_us + COALESCE(delayed_ack_us, 0) + receiver_window_us > 0"
    ).fetchall()[0]
    problems.unlink()
    _, expected = report(root / "without", root / "without.json")
    assert expected["coverage"]["undescribed_connections"] == {}
    return count, expected


@pytest.mark.parametrize("damage", ["truncated", "rows"])
def test_problems_of_connections_that_no_whole_file_describes_are_left_out(
    small: Path, placed: tuple[int, dict[str, Any]], tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host counts as without a problem: the owners of its connections are unknown, and no host is to blame."""
    count, expected = placed
    damaged = tmp_path / "damaged"
    shutil.copytree(small, damaged)
    path = next((damaged / "fleet_connections" / FOLDER).glob(f"{SILENT}.*"))
    data = path.read_bytes()
    # the footer is whole, its rows are not
    path.write_bytes(data[: len(data) * 2 // 3] if damage == "truncated" else b"PAR1" + bytes(3996) + data[4000:])
    code, found = report(damaged, tmp_path / "damaged.json")
    assert code == 3
    assert [Path(file["path"]).name for file in found["coverage"]["left_out_files"]] == [path.name]
    assert found["coverage"]["undescribed_connections"] == {SILENT: count}
    assert [c["name"] for c in found["culprits"] if c["name"] == SILENT] == []
    same(found, expected)
    sentence = f"left out: problems of {count} connections of host {SILENT}: the file that describes them"
    form = {"truncated": "text", "rows": "html"}[damage]
    assert main(["correlate", str(damaged), "--format", form]) == 3
    assert sentence in " ".join(capsys.readouterr().out.split())


def test_rows_that_cannot_be_read_are_found(small: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(small, broken)
    path = sorted((broken / "fleet_problems" / FOLDER).glob("*.parquet"))[3]
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    path.write_bytes(data)
    code, found = report(broken, tmp_path / "r.json")
    assert code == 3
    assert [Path(file["path"]).name for file in found["coverage"]["left_out_files"]] == [path.name]


def test_errors_say_what_to_do(tmp_path: Path, center: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["correlate", str(tmp_path)]) == 1
    assert "hint:" in capsys.readouterr().err
    assert main(["correlate", str(center), "--bin", "7"]) == 2
    assert main(["correlate", str(center), "--engine", "abacus"]) == 2
    kept = tmp_path / "kept"
    kept.write_text("mine")
    assert main(["correlate", str(center), "-o", str(kept)]) == 1
    assert kept.read_text() == "mine"
