"""The linear form against the definition: every pair of vectors, as numpy correlates them."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whylat_fleet import fleetwide
from whylat_fleet.algebra import (
    ALL,
    Grid,
    Vectors,
    coefficients,
    problem_scores,
    scores,
    start,
    take,
    weigh,
    weigh_left,
)
from whylat_fleet.engine import Engine
from whylat_fleet.engine.duckdb import DuckDb
from whylat_fleet.errors import UsageError
from whylat_fleet.prepare import HOSTS
from whylat_fleet.resources import KIND_SIZE, KINDS, members
from whylat_fleet.schema import PROBLEMS

CELLS = {"conn": "BIGINT", "host_no": "INTEGER", "cell": "INTEGER", "x": "INTEGER"}
SHAPES = ("sparse", "bursts", "constant", "nearly", "one", "alike", "zero", "dense")


def vectors(seed: int, bins: int, shapes: list[str]) -> np.ndarray:
    """Connections x bins x problems, us."""
    random = np.random.default_rng(seed)
    common = random.integers(0, 2_000_000, (bins, 5)) * (random.random((bins, 5)) < 0.2)
    out = np.zeros((len(shapes), bins, 5), dtype=np.int64)
    for index, shape in enumerate(shapes):
        x = out[index]
        if shape == "sparse":
            x[:] = random.integers(0, 2_000_000, (bins, 5)) * (random.random((bins, 5)) < 0.05)
        elif shape == "bursts":
            x[:] = common * random.integers(0, 2, (bins, 1))
        elif shape == "constant":
            x[:] = 1_999_999
        elif shape == "nearly":
            x[:] = 1_999_900 + random.integers(0, 100, (bins, 5))
        elif shape == "one":
            x[random.integers(bins), random.integers(5)] = 300
        elif shape == "alike":
            x[:] = common
        elif shape == "dense":
            x[:, random.integers(5)] = 2_000_000 - random.integers(0, 20, bins)
    return out


def fill(engine: Engine, x: np.ndarray, delayed_ack: Sequence[int] = (1,)) -> Grid:
    """Makes the tables; connections are of hosts in turn, and some hosts do not measure delayed ACKs."""
    conn, bin_, problem = np.nonzero(x)
    columns = (conn, conn % len(delayed_ack), problem * x.shape[1] + bin_, x[conn, bin_, problem])
    start(engine)
    engine.put("hosts", HOSTS, [(f"h{number}", number, -1, flag) for number, flag in enumerate(delayed_ack)])
    put_cells(engine, columns)
    grid = Grid(2_000_000, x.shape[1])
    weigh(engine, grid)
    return grid


def put_cells(engine: Engine, columns: Sequence[np.ndarray]) -> None:
    """Makes the table of cells, of some hundred thousand rows: DuckDB reads the arrays themselves."""
    if not isinstance(engine, DuckDb):
        engine.put("cells", CELLS, zip(*(column.tolist() for column in columns), strict=True))
        return
    of_kinds = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in CELLS.items())
    engine.connection.register("arrays", dict(zip(CELLS, columns, strict=True)))
    engine.create("cells", f"SELECT {of_kinds} FROM arrays")
    engine.connection.unregister("arrays")


def pairs(flat: np.ndarray) -> tuple[int, float, np.ndarray]:
    """Vectors that are not constant: how many, the mean over their pairs, and each one's mean with the others."""
    # constant to six digits is constant
    real = flat.astype(np.float64)
    varies = [index for index, row in enumerate(real) if row.var() > 1e-12 * (row**2).mean()]
    if len(varies) < 2:
        return len(varies), float("nan"), np.array([])
    chosen = flat[varies].astype(np.float64)
    matrix = np.corrcoef(chosen - np.round(chosen.mean(axis=1, keepdims=True)))
    count = len(varies)
    own = (matrix.sum(axis=1) - 1) / (count - 1)
    return count, float(own.mean()), own


@pytest.fixture(scope="module")
def engine() -> Engine:
    return DuckDb()


def check(engine: Engine, x: np.ndarray) -> None:
    grid = fill(engine, x)
    engine.create("everyone", "SELECT w.conn AS conn, w.w AS w, CAST(7 AS BIGINT) AS resource FROM weights AS w")
    count, expected, own = pairs(x.transpose(0, 2, 1).reshape(x.shape[0], -1))
    found = scores(engine, grid, "everyone")
    if count < 2:
        assert found == []
        return
    assert [score.members for score in found] == [count]
    assert found[0].acc == pytest.approx(expected, abs=1e-9)
    coefficients(engine, grid, "everyone")
    got = [row[0] for row in engine.rows("SELECT coefficient FROM coefficients ORDER BY conn")]
    # these only rank connections, and are summed as they come
    assert got == pytest.approx(list(own), abs=1e-4)
    alone = problem_scores(engine, grid, "everyone").get(7, {})
    means = x.mean(axis=1)
    weights: dict[int, float] = {row[0]: row[1] for row in engine.rows("SELECT conn, w FROM weights")}
    problem_part = 0.0
    for index, problem in enumerate(PROBLEMS):
        among = sorted(weights)
        number, value, _ = pairs(x[among, :, index])
        assert (problem in alone) == (number >= 2)
        if number >= 2:
            assert alone[problem][0] == number
            assert alone[problem][1] == pytest.approx(value, abs=1e-9)
    # what circular shifts of the times leave: the correlation of the means
    among = sorted(weights)
    centred = (means - means.mean(axis=1, keepdims=True))[among] * np.array([weights[conn] for conn in among])[:, None]
    total = (centred.sum(axis=0) ** 2).sum() - (centred**2).sum()
    problem_part = total * x.shape[1] / (count * (count - 1))
    assert found[0].same_problem == pytest.approx(problem_part, abs=1e-6)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    bins=st.integers(2, 60),
    shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=12),
)
def test_linear_form_is_the_mean_over_pairs(engine: Engine, seed: int, bins: int, shapes: list[str]) -> None:
    check(engine, vectors(seed, bins, shapes))


def test_nearly_constant_vectors_over_an_hour(engine: Engine) -> None:
    check(engine, vectors(11, 1800, ["nearly"] * 20))
    check(engine, vectors(12, 1800, ["nearly", "dense", "sparse", "bursts", "alike", "constant"] * 3))


def test_window_with_squares_that_do_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="64 bits"):
        Grid(600_000_000, 144)


def unit(x: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Vectors of mean 0 and length 1 over what is measured, 0 elsewhere; those that are constant there are left out."""
    rows = []
    for values, known in zip(x.astype(np.float64), measured, strict=True):
        z = np.where(known, values - values[known].mean() if known.any() else 0.0, 0.0)
        if (z**2).sum() > 1e-12 * (values[known] ** 2).sum():
            rows.append(z / np.linalg.norm(z))
    return np.array(rows)


def mean_over_pairs(z: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean of the products of all pairs of vectors, and of each one's with the others."""
    products = z @ z.T
    np.fill_diagonal(products, 0.0)
    own = products.sum(axis=1) / (len(z) - 1)
    return float(own.mean()), own


def same_as(engine: Engine, grid: Grid, z: np.ndarray, of: Vectors) -> None:
    """The engine finds in all vectors what the definition says of `z`."""
    engine.create("few", f"SELECT w.conn AS conn, w.w AS w, CAST(7 AS BIGINT) AS resource FROM {of.weights} AS w")
    mean, own = mean_over_pairs(z)
    (score,) = scores(engine, grid, "few", of)
    assert score.members == len(z)
    assert score.acc == pytest.approx(mean, abs=1e-9)
    coefficients(engine, grid, "few", of)
    got = [row[0] for row in engine.rows("SELECT coefficient FROM coefficients ORDER BY conn")]
    assert got == pytest.approx(list(own), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_not_measured_or_explained_is_no_zero(engine: Engine, seed: int) -> None:
    """Every other connection is of a host without delayed ACKs; then two problems of some are explained."""
    bins = 40
    x = vectors(seed, bins, ["sparse", "bursts", "alike", "one", "sparse", "bursts"] * 3)
    measured = np.ones(x.shape, dtype=bool)
    measured[1::2, :, PROBLEMS.index("delayed_ack")] = False
    grid = fill(engine, np.where(measured, x, 0), [1, 0])
    flat = (len(x), bins * len(PROBLEMS))
    same_as(engine, grid, unit(x.reshape(flat), measured.reshape(flat)), ALL)
    explained = [(conn, problem) for conn in range(3, 12) for problem in (1, 2)]
    for conn, problem in explained:
        measured[conn, :, problem] = False
    engine.put("removed", {"conn": "BIGINT", "problem": "INTEGER"}, explained)
    weigh_left(engine, grid)
    engine.create("those", "SELECT s.conn AS conn FROM spread AS s")
    left = Vectors("cells_left", "weights_now")
    take(engine, grid, left, "those")
    same_as(engine, grid, unit(x.reshape(flat), measured.reshape(flat)), left)


def test_parts_of_the_cells_change_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """One part, a group of parts, and groups: the sums are of whole numbers, so that only their squares are rounded."""
    x = vectors(3, 60, [SHAPES[number % len(SHAPES)] for number in range(64)])
    found = {}
    for part_cells in (None, 2500, 450):
        engine = DuckDb()
        grid = fill(engine, x)
        engine.create(
            "places",
            """SELECT w.conn AS conn, w.w AS w, CAST(w.conn % 3 AS INTEGER) AS host,
            CAST(w.conn % 5 - 1 AS INTEGER) AS peer, CAST(w.conn % 7 AS INTEGER) AS application,
            CAST(w.conn % 4 - 1 AS INTEGER) AS route FROM weights AS w""",
        )
        for kind in ("switch", "link"):
            first = KIND_SIZE * KINDS.index(kind)
            routes = [(route, first + (route + more) % 4) for route in range(3) for more in range(2)]
            engine.put(f"routes_{kind}", {"route": "INTEGER", "resource": "BIGINT"}, routes)
        members(engine)
        monkeypatch.setattr(engine, "part_cells", part_cells)
        monkeypatch.setattr(fleetwide, "STRIPS", 100)
        found[part_cells] = {score.resource: score for score in fleetwide.all_scores(engine, grid)}
        tables = {name for (name,) in engine.rows("SELECT table_name FROM duckdb_tables()")}
        assert not {name for name in tables if name.startswith(("entries", "squares"))}
        parts = len(fleetwide._parts(engine, grid))
        assert parts == 1 if part_cells is None else parts > 1
        engine.close()
    whole = found[None]
    assert {number // KIND_SIZE for number in whole} == set(range(len(KINDS)))
    for scores_ in found.values():
        assert scores_.keys() == whole.keys()
        for number, score in scores_.items():
            assert score.members == whole[number].members
            assert score.same_time == pytest.approx(whole[number].same_time, abs=1e-12)
