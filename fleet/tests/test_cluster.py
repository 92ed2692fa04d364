"""The same text gives the same answers on every engine."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from whylat_fleet.algebra import Score, scores
from whylat_fleet.dataset import Dataset
from whylat_fleet.engine import connect
from whylat_fleet.prepare import prepare
from whylat_fleet.resources import KINDS, build

pytestmark = pytest.mark.engines


def answers(center: Path, engine_name: str) -> dict[int, Score]:
    engine = connect(engine_name)
    try:
        dataset = Dataset(center)
        prepared = prepare(engine, dataset, dataset.window(None, 1))
        build(prepared)
        return {s.resource: s for kind in KINDS for s in scores(engine, prepared.grid, f"members_{kind}")}
    finally:
        engine.close()


@pytest.fixture(scope="module")
def expected(center: Path) -> dict[int, Score]:
    return answers(center, "duckdb")


def same(found: dict[int, Score], expected: dict[int, Score]) -> None:
    assert len(expected) > 500
    assert found.keys() == expected.keys()
    for resource, score in expected.items():
        assert found[resource].members == score.members
        assert found[resource].acc == pytest.approx(score.acc, abs=1e-12)
        assert found[resource].same_problem == pytest.approx(score.same_problem, abs=1e-12)


@pytest.mark.parametrize("name", ["chdb", "datafusion"])
def test_embedded_engines_agree(center: Path, expected: dict[int, Score], name: str) -> None:
    same(answers(center, name), expected)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone Spark master and two workers on loopback."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    running = []

    def start(kind: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{kind}.{kind.capitalize()}", *arguments]
        child = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        running.append(child)
        return child

    def wait(child: "subprocess.Popen[str]", pattern: str) -> str:
        assert child.stderr is not None
        for line in child.stderr:
            if match := re.search(pattern, line):
                return match[0]
        raise AssertionError(f"Spark ended before it printed {pattern}")

    try:
        master = start("master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = wait(master, r"spark://127\.0\.0\.1:\d+")
        for number in (1, 2):
            work = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(tmp_path / f"w{number}"))
            wait(start("worker", "--host", "127.0.0.1", *work, url), "Successfully registered")
        yield url
    finally:
        for child in reversed(running):
            child.terminate()
            child.wait(timeout=30)


def test_a_spark_cluster_agrees(center: Path, expected: dict[int, Score], cluster: str) -> None:
    same(answers(center, cluster), expected)
