"""Chance: the variance of random sets against drawing them, and a set that only its times betray."""

import math

import numpy as np
import pytest
from test_algebra import fill, vectors

from whylat_fleet.algebra import scores
from whylat_fleet.engine.duckdb import DuckDb
from whylat_fleet.null import Chance, Null, draw, enriched

BINS = 200


def correlations(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.corrcoef(x.reshape(len(x), -1).astype(np.float64)))


def same_time(x: np.ndarray) -> np.ndarray:
    """Of each pair, the part of the coefficient that lies within the problems."""
    flat = x.reshape(len(x), -1).astype(np.float64)
    length = np.linalg.norm(flat - flat.mean(axis=1, keepdims=True), axis=1)
    within = (x - x.mean(axis=1, keepdims=True)).reshape(len(x), -1) / length[:, None]
    return np.asarray(within @ within.T)


def chance_of(x: np.ndarray) -> Chance:
    engine = DuckDb()
    try:
        found = draw(engine, fill(engine, x), "weights", 10, 10_000, 1)
    finally:
        engine.close()
    assert found is not None
    return found


def mixed(count: int) -> np.ndarray:
    """Returns connections with one problem of five each, more or less often, at its own times."""
    random = np.random.default_rng(7)
    x = np.zeros((count, BINS, 5), dtype=np.int64)
    for conn in range(count):
        hit = random.random(BINS) < random.uniform(0.02, 0.5)
        hit[random.integers(BINS)] = True
        x[conn, hit, random.integers(5)] = random.integers(100_000, 2_000_000, int(hit.sum()))
    return x


def test_mean_and_zeta1_are_those_of_all_pairs() -> None:
    x = vectors(3, BINS, ["sparse", "bursts", "alike", "one"] * 110)
    chance = chance_of(x)
    for null, matrix in ((chance.whole, correlations(x)), (chance.timed, same_time(x))):
        others = (matrix.sum(axis=1) - matrix.diagonal()) / (len(x) - 1)
        assert null.mean == pytest.approx(others.mean(), abs=1e-9)
        assert null.zeta1 == pytest.approx(others.var(), abs=1e-9)


@pytest.fixture(scope="module")
def nulls() -> list[tuple[Null, np.ndarray]]:
    """Returns the null of 2,000 connections, and the coefficients of all their pairs."""
    x = mixed(2000)
    chance = chance_of(x)
    return [(chance.whole, correlations(x)), (chance.timed, same_time(x))]


@pytest.mark.parametrize("size", [10, 40, 160, 640])
def test_variance_is_that_of_random_sets_of_any_size(size: int, nulls: list[tuple[Null, np.ndarray]]) -> None:
    random = np.random.default_rng(11)
    for null, matrix in nulls:
        # the deviation of 500 draws is itself known to 3 %
        chosen = np.zeros((500, len(matrix)))
        for members in chosen:
            members[random.choice(len(matrix), size, replace=False)] = 1
        of_pairs = ((chosen @ matrix) * chosen).sum(axis=1) - chosen @ matrix.diagonal()
        values = of_pairs / (size * (size - 1))
        # drawn without replacement the variance is less: 1 - n/N (Cochran 1977, 2.6)
        ends = 1 - size / len(matrix)
        expected = 1 / null.deviations(size, null.mean + 1)
        assert np.std(values) == pytest.approx(expected * np.sqrt(ends), rel=0.2)


def test_a_set_that_only_its_times_betray_is_no_chance() -> None:
    x = mixed(2000)
    random = np.random.default_rng(5)
    # incast: 35 of 80 connections at one end lose their answers at the same 12 times, half of them each time
    times = random.choice(BINS, 12, replace=False)
    for conn in range(35):
        x[conn] = 0
        x[conn, times[random.random(12) < 0.5], 2] = 700_000
        x[conn, times[0], 2] = 700_000
    engine = DuckDb()
    try:
        grid = fill(engine, x)
        chance = draw(engine, grid, "weights", 10, 80, 1)
        engine.create(
            "sets",
            "SELECT w.conn AS conn, w.w AS w, CAST(1 AS BIGINT) AS resource FROM weights AS w WHERE w.conn < 80 "
            "UNION ALL SELECT w.conn AS conn, w.w AS w, CAST(2 AS BIGINT) AS resource FROM weights AS w "
            "WHERE w.conn >= 80 AND w.conn < 160",
        )
        found = {score.resource: score for score in scores(engine, grid, "sets")}
    finally:
        engine.close()
    assert chance is not None
    # of the size of a fleet's judged resources, as blame demands
    assert chance.probability(found[1]) < 0.05 / 20_000
    assert chance.timed.probability(80, sum(found[1].same_time)) < chance.whole.probability(80, found[1].acc)
    assert chance.probability(found[2]) > 0.001


def test_too_few_connections_have_no_null() -> None:
    engine = DuckDb()
    try:
        assert draw(engine, fill(engine, mixed(399)), "weights", 10, 100, 1) is None
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("hits", "members", "outside", "sampled"), [(3, 5, 2, 20), (5, 5, 0, 20), (0, 5, 2, 20), (7, 11, 40, 60)]
)
def test_enrichment_is_fishers(hits: int, members: int, outside: int, sampled: int) -> None:
    total, drawn = members + sampled, hits + outside
    counts = [math.comb(members, k) * math.comb(sampled, drawn - k) for k in range(hits, min(members, drawn) + 1)]
    assert enriched(hits, members, outside, sampled) == pytest.approx(sum(counts) / math.comb(total, drawn), rel=1e-9)
