"""Pipelines: connections that delayed ACKs hold up, and others that are idle for other reasons."""

import random
from collections.abc import Iterator

import pytest

from whylat_fleet.algebra import start
from whylat_fleet.dataset import HOUR_NS, Window
from whylat_fleet.engine import Engine, connect
from whylat_fleet.engine.duckdb import DuckDb
from whylat_fleet.pipelines import LEAST_ONSETS, Pipeline, pipelines, student_tail
from whylat_fleet.prepare import HOSTS, Coverage, PreparedWindow, grid_of
from whylat_fleet.questions import text
from whylat_fleet.schema import BIN_NS, TABLES
from whylat_fleet.topology import Topology

PROXY, OTHER = 100, 200
DELAYED, HELD, IDLE, BUSY, STRANGER = 1, 2, 3, 4, 5


@pytest.fixture
def engine() -> Iterator[Engine]:
    opened = DuckDb()
    yield opened
    opened.close()


def row(conn: int, bin_: int, delayed_ack_us: int, idle_us: int) -> tuple[object, ...]:
    return ("a", conn, bin_ * BIN_NS, 0, 0, 0, delayed_ack_us, 0, idle_us)


def found(engine: Engine, onsets: int, lag: int, long_us: int = 900_000) -> list[Pipeline]:
    """Returns a process with delayed ACKs on one connection, `onsets` times."""
    generator = random.Random(3)
    rows = []
    for onset in range(onsets):
        first = 10 + 6 * onset
        rows += [row(DELAYED, first + step, 800_000, 0) for step in (0, 1)]
        for step in (-1, 0, 1, 2):
            quiet = generator.randrange(100_000)
            rows.append(row(HELD, first + step, 0, long_us + quiet if step == lag else quiet))
            rows.append(row(IDLE, first + step, 0, 1_900_000 + generator.randrange(100_000)))
            rows.append(row(BUSY, first + step, 0, generator.randrange(200_000)))
            # of another process: nothing to do with it
            rows.append(row(STRANGER, first + step, 0, long_us if step == lag else quiet))
    engine.put("fleet_problems", TABLES["fleet_problems"], rows)
    known = dict.fromkeys(TABLES["fleet_connections"])
    owners = dict.fromkeys((DELAYED, HELD, IDLE, BUSY), PROXY) | {STRANGER: OTHER}
    rows = [
        tuple((known | {"host": "a", "conn_id": conn, "time_ns": 5, "pid": pid, "process": "proxy"}).values())
        for conn, pid in owners.items()
    ]
    engine.put("fleet_connections", TABLES["fleet_connections"], rows)
    engine.put("hosts", HOSTS, [("a", 0, -1, 1)])
    window = Window(0, HOUR_NS)
    grid = grid_of(window, 2)
    start(engine)
    engine.create("bins", text("bins", bin_ns=BIN_NS, begin_ns=0, end_ns=window.end_ns))
    engine.create("cells", text("cells", bins=grid.bins))
    engine.create("quiet", text("quiet", merge=1))
    return pipelines(PreparedWindow(engine, grid, Coverage(window), Topology(), ["a"], []))


@pytest.mark.parametrize("lag", [0, 1])
def test_the_connection_that_is_held_up_is_named_and_no_other(engine: Engine, lag: int) -> None:
    (pipeline,) = found(engine, 40, lag)
    assert (pipeline.host, pipeline.process, pipeline.pid) == ("a", "proxy", PROXY)
    (pair,) = pipeline.pairs
    assert (pair.conn, pair.held, pair.lag_s, pair.onsets) == (DELAYED, HELD, 2.0 * lag, 40)
    assert pair.idle_s == pytest.approx(0.9, abs=0.05)
    assert pair.probability < 1e-9


@pytest.mark.engines
@pytest.mark.parametrize("name", ["chdb", "datafusion", "spark"])
def test_every_engine_finds_the_same(engine: Engine, name: str) -> None:
    other = connect(name)
    try:
        assert found(other, 40, 1) == found(engine, 40, 1)
    finally:
        other.close()


def test_a_few_times_are_not_enough(engine: Engine) -> None:
    assert found(engine, LEAST_ONSETS - 1, 0) == []


def test_who_is_no_longer_idle_than_before_is_not_held_up(engine: Engine) -> None:
    assert found(engine, 40, 0, long_us=0) == []


@pytest.mark.parametrize(
    ("t", "freedom", "tail"),
    # Abramowitz and Stegun, table 26.10
    [
        (12.706, 1, 0.025),
        (4.303, 2, 0.025),
        (3.182, 3, 0.025),
        (2.228, 10, 0.025),
        (3.169, 10, 0.005),
        (2.064, 24, 0.025),
    ],
)
def test_tail_of_students_distribution(t: float, freedom: int, tail: float) -> None:
    assert student_tail(t, freedom) == pytest.approx(tail, rel=2e-3)
