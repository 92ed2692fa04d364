"""From a dataset to its culprits, and what damaged files change: nothing but that they are named."""

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import BEGIN

from whylat_fleet.cli import main

FOLDER = "date=2026-01-05/hour=10"
CORRELATED = {"receive-window", "incast", "bad-port", "backups", "delayed-acks", "send-buffer"}


def report(dataset: Path, out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["correlate", str(dataset), "--format", "json", "-o", str(out), "--force", *arguments])
    return code, json.loads(out.read_text(encoding="utf-8"))


def test_planted_culprits_are_named_and_no_others(center: Path, tmp_path: Path) -> None:
    code, found = report(center, tmp_path / "r.json")
    assert code == 0
    named = {("host" if c["kind"] == "peer" else c["kind"]) + " " + c["name"] for c in found["culprits"]}
    planted = json.loads((center / "truth.json").read_text(encoding="utf-8"))["planted"]
    truths = [{f"{t['kind']} {t['name']}", *t["same"]} for t in planted if t["plant"] in CORRELATED]
    assert len(truths) == len(CORRELATED)
    assert [truth for truth in truths if not truth & named] == []
    assert [name for name in named if not any(name in truth for truth in truths)] == []


def test_large_resources_are_not_blamed_for_what_is_left(tmp_path: Path) -> None:
    """A null whose variance vanished with the size of a set blamed an aggregation switch here."""
    out = tmp_path / "center"
    assert main(["simulate", str(out), "--hosts", "400", "--conns", "60", "--seed", "3", "--begin", BEGIN]) == 0
    _, found = report(out, tmp_path / "r.json")
    planted = json.loads((out / "truth.json").read_text(encoding="utf-8"))["planted"]
    truths = {name for t in planted for name in (f"{t['kind']} {t['name']}", *t["same"])}
    named = {("host" if c["kind"] == "peer" else c["kind"]) + " " + c["name"] for c in found["culprits"]}
    assert len(named) >= 5
    assert named - truths == set()


def test_damaged_files_are_named_and_change_nothing_else(center: Path, tmp_path: Path) -> None:
    damaged, without = tmp_path / "damaged", tmp_path / "without"
    shutil.copytree(center, damaged)
    folder = damaged / "fleet_problems" / FOLDER
    files = sorted(folder.glob("*.parquet"))
    data = files[7].read_bytes()
    files[7].write_bytes(data[: len(data) // 2])
    shutil.copy(files[90], folder / files[90].name.replace(".10.", ".1007."))
    copied = folder / files[91].name.replace(files[91].name.split(".")[1], "0badb007")
    shutil.copy(files[91], copied)
    wrong_hour = folder / files[92].name.replace(".10.", ".11.")
    shutil.copy(files[92], wrong_hour)
    other_schema = duckdb.connect()
    source = str(files[200])
    other_schema.execute(
        f"COPY (FROM read_parquet('{source}')) TO '{source}' "
        "(FORMAT parquet, KV_METADATA {'whylat.schema': 'whylat.fleet/2'})"
    )
    # a clock that is 10 s off, and known to be
    coverage = sorted((damaged / "fleet_coverage" / FOLDER).glob("*.parquet"))[300]
    other_schema.execute(
        f"COPY (SELECT * REPLACE (CAST(10000000 AS BIGINT) AS clock_error_us) FROM read_parquet('{coverage}')) "
        f"TO '{coverage}' (FORMAT parquet, KV_METADATA {{'whylat.schema': 'whylat.fleet/1'}})"
    )
    other_schema.close()
    code, found = report(damaged, tmp_path / "damaged.json")
    assert code == 3
    named = {Path(file["path"]).name for file in found["coverage"]["left_out_files"]}
    copy = {files[91].name, copied.name} & named
    assert len(copy) == 1
    assert named - copy == {files[7].name, wrong_hour.name, files[200].name}
    assert list(found["coverage"]["left_out_hosts"]) == ["h00300"]

    shutil.copytree(center, without)
    for name in (files[7].name, files[200].name):
        (without / "fleet_problems" / FOLDER / name).unlink()
    for path in without.glob(f"*/{FOLDER}/h00300.*"):
        path.unlink()
    _, expected = report(without, tmp_path / "without.json")
    # sums of real numbers differ in their last digits with the order of threads
    exact = ("kind", "name", "problem", "when", "members", "explained", "same_connections")
    assert len(found["culprits"]) == len(expected["culprits"])
    for one, other in zip(found["culprits"], expected["culprits"], strict=True):
        assert {key: one[key] for key in exact} == {key: other[key] for key in exact}
        assert one["coefficient"] == pytest.approx(other["coefficient"], abs=1e-12)
    assert expected["coverage"]["absent"] == ["h00300"]


def test_rows_that_cannot_be_read_are_found(center: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(center, broken)
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
