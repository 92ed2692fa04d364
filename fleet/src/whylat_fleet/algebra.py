"""Average correlation coefficients of sets of connections, by an engine.

SNAP (section 2.3) takes the mean of Pearson's coefficient over all pairs of a set: quadratic in its size. With every
vector z_c brought to mean 0 and length 1, the pairs' sum is |sum z|^2 - N, so that the sum vector is enough: linear.

In: the tables `cells` (conn, host_no, cell, x in us; `cell` numbers problem and bin: problem * K + bin), `hosts`
(host_no, delayed_ack: 1 where delayed ACKs are measured) and any `members` (conn, w, resource). Cells without a row are
zero, but for those of a problem that is not measured: these are unknown. They have no part in a vector, nor in its
mean, so that the product of a pair is over what both measured.
"""

from dataclasses import dataclass

from whylat_fleet.engine import Engine
from whylat_fleet.errors import UsageError
from whylat_fleet.questions import text
from whylat_fleet.schema import PROBLEMS

MAX_SQUARES = 2**63
"""Sums of squares of microseconds must fit a signed 64-bit number in every engine."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Bins of a window: their length t, and how many, K = T/t."""

    bin_us: int
    bins: int

    def __post_init__(self) -> None:
        if 5 * self.bins * self.bin_us**2 >= MAX_SQUARES:
            raise UsageError(
                f"{self.bins} bins of {self.bin_us / 1e6:g} s: sums of squares would not fit 64 bits",
                "take shorter bins or a shorter window",
            )


@dataclass(frozen=True, slots=True)
class Vectors:
    """Names of tables of vectors: the cells, and the factors that give each vector the length 1."""

    cells: str = "cells"
    weights: str = "weights"


ALL = Vectors()


@dataclass(frozen=True, slots=True)
class Score:
    """A set's average correlation coefficient and its parts, which sum up to it."""

    resource: int
    members: int
    """Connections that counted: those with a vector that is not constant."""
    same_time: tuple[float, ...]
    """Parts of what happens in the same bins, by problem."""
    same_problem: float
    """Part of having the same problems over the whole window, whenever. Its mean is what independent circular shifts of
    the connections' times would leave of the coefficient."""

    @property
    def acc(self) -> float:
        """SNAP's average correlation coefficient."""
        return sum(self.same_time) + self.same_problem


def start(engine: Engine) -> None:
    """Makes `problems`, their numbers: what cells of all problems are made with."""
    engine.put("problems", {"problem": "INTEGER"}, [(number,) for number in range(len(PROBLEMS))])


def weigh(engine: Engine, grid: Grid) -> None:
    """Makes `stats`, `spread` and `weights` from `cells`."""
    engine.create("stats", text("stats", bins=grid.bins))
    engine.create("spread", text("spread", bins=grid.bins))
    engine.drop("stats")
    engine.create("weights", text("weights", bins=grid.bins, spread="spread"))


def weigh_left(engine: Engine, grid: Grid) -> None:
    """Makes `masks` and `weights_left`, of the connections of `removed` (conn, problem)."""
    engine.create("masks", text("masks"))
    engine.create("spread_left", text("spread_left"))
    engine.create("weights_left", text("weights", bins=grid.bins, spread="spread_left"))


def take(engine: Engine, grid: Grid, of: Vectors, conns: str, cells: str = "cells") -> None:
    """Makes the vectors `of` these connections (conn) from their cells, without what is removed."""
    engine.create("wanted", text("wanted", conns=conns))
    engine.create(of.cells, text("cells_left", bins=grid.bins, cells=cells))
    engine.create(of.weights, text("weights_now"))


def scores(engine: Engine, grid: Grid, members: str, of: Vectors = ALL) -> list[Score]:
    """The score of each resource of `members` with at least two connections that count. Makes their `sizes`."""
    sizes(engine, grid, members, of)
    entries = text("entries_members", members=members, cells=of.cells)
    return scored(engine, grid, text("squares", bins=grid.bins, entries=entries))


def scored(engine: Engine, grid: Grid, squares: str) -> list[Score]:
    """Scores from the text of their sums' `squares`, which may be in parts; `sizes` are there."""
    width = len(PROBLEMS)
    return [
        Score(row[0], row[1], tuple(row[2 : 2 + width]), row[2 + width])
        for row in engine.rows(text("correlation", bins=grid.bins, squares=squares))
    ]


def sizes(engine: Engine, grid: Grid, members: str, of: Vectors = ALL) -> None:
    """Makes `sizes` and `means`, of each resource of `members`."""
    engine.create("sizes", text("sizes", bins=grid.bins, members=members, weights=of.weights))
    engine.create("means", text("means"))


def problem_scores(engine: Engine, grid: Grid, members: str) -> dict[int, dict[str, tuple[int, float]]]:
    """Of each resource and problem: connections that count and the coefficient of that problem alone.

    Leaves out a problem when fewer than two connections have a vector of it that is not constant.
    """
    engine.create("problem_weights", text("problem_weights", members=members))
    engine.create("problem_sizes", text("problem_sizes", members=members))
    answer: dict[int, dict[str, tuple[int, float]]] = {}
    for resource, problem, count, value in engine.rows(text("problem_correlation", bins=grid.bins, members=members)):
        answer.setdefault(resource, {})[PROBLEMS[problem]] = (int(count), float(value))
    return answer


def coefficients(engine: Engine, grid: Grid, members: str, of: Vectors = ALL) -> None:
    """Makes `sums`, and `coefficients` (resource, conn, coefficient, same_time).

    `sizes` must be those of `members`.
    """
    engine.create("sums", text("sums", bins=grid.bins, members=members, cells=of.cells))
    values = {"members": members, "cells": of.cells, "weights": of.weights}
    engine.create("coefficients", text("coefficients", bins=grid.bins, **values))
