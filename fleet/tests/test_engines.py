"""The same text on every engine: equal answers. Needs pyspark, chdb and datafusion (`make fleet-engines`)."""

import pytest
from test_algebra import fill, vectors

from whylat_fleet.algebra import scores
from whylat_fleet.engine import connect

SHAPES = ["nearly", "dense", "sparse", "bursts", "alike", "constant", "one", "zero"] * 4


def answer(name: str) -> list[tuple[float, ...]]:
    """Coefficients of two overlapping sets, by one engine."""
    engine = connect(name)
    try:
        grid = fill(engine, vectors(5, 300, SHAPES))
        engine.create(
            "sets",
            "SELECT w.conn AS conn, w.w AS w, CAST(1 AS BIGINT) AS resource FROM weights AS w UNION ALL "
            "SELECT w.conn AS conn, w.w AS w, CAST(2 AS BIGINT) AS resource FROM weights AS w WHERE w.conn > 9",
        )
        found = sorted(scores(engine, grid, "sets"), key=lambda score: score.resource)
        return [(score.members, score.acc, score.same_problem, *score.same_time) for score in found]
    finally:
        engine.close()


@pytest.mark.engines
@pytest.mark.parametrize("name", ["chdb", "datafusion", "spark"])
def test_every_engine_answers_as_duckdb_does(name: str) -> None:
    expected, found = answer("duckdb"), answer(name)
    assert len(expected) == len(found) == 2
    for one, other in zip(expected, found, strict=True):
        assert one == pytest.approx(other, abs=1e-12)
