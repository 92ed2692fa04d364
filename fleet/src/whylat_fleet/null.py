"""How large a coefficient comes by chance: sets drawn at random from the fleet's own connections.

The question is whether sharing a resource matters, so that the null hypothesis is that membership is random: sets of
the same size drawn from all connections that count. (Circular time shifts ask another question, whether connections
suffer at the same time; what they leave needs no draws, it is `Score.same_problem`.) A mean over pairs of a random set
is a U-statistic: its mean is that of all pairs of the fleet, and its variance a/n + b/n^2 (Hoeffding 1948). Draws of
sizes 10, 20, 40, … give a and b, and the tail beyond their 95th percentile, taken as exponential.
"""

import math
import random
from dataclasses import dataclass
from statistics import fmean

from whylat_fleet.algebra import Grid, Score, scores
from whylat_fleet.engine import Engine
from whylat_fleet.questions import text

SETS = 400
"""Draws of each size."""
TAIL = 0.05
"""Share of the draws that the exponential tail is fitted to: 20 of 400."""
LEAST_DRAWS = 40
"""Draws of a size that are enough for a variance; below, the size is not used."""


@dataclass(frozen=True, slots=True)
class Null:
    """What random sets do. Variance of a set of n: `a / n + b / n**2`."""

    mean: float
    a: float
    b: float
    start: float
    """95th percentile of the standardised draws."""
    excess: float
    """Mean by which the draws beyond it exceed it."""
    draws: int

    def deviations(self, members: int, acc: float) -> float:
        """How many standard deviations of random sets of this size the coefficient lies above their mean."""
        return (acc - self.mean) / math.sqrt(self.a / members + self.b / members**2)

    def probability(self, members: int, acc: float) -> float:
        """Chance that a random set of this size has such a coefficient or a greater one."""
        z = self.deviations(members, acc)
        return TAIL * math.exp(-(z - self.start) / self.excess) if z > self.start else max(TAIL, 0.5)


def draw(engine: Engine, grid: Grid, population: str, least: int, most: int, seed: int) -> Null | None:
    """Draws sets from `population` (conn, w). None when it is too small for `LEAST_DRAWS` sets of the least size."""
    count = int(engine.rows(f"SELECT COUNT(*) FROM {population} AS p")[0][0])
    generator = random.Random(seed)
    prime = _prime(count + 1)
    rows: list[tuple[int, ...]] = []
    size = least
    while size <= max(most, least) and count // size >= LEAST_DRAWS:
        # a small fleet is shuffled more than once
        shuffles = min(8, -(-SETS // (count // size)))
        for _ in range(shuffles):
            rows.append((len(rows), size, min(SETS, count // size), generator.randrange(1, prime), prime))
        size *= 2
    if not rows:
        return None
    names = ("draw", "size", "sets", "factor", "prime")
    engine.put("draws", dict.fromkeys(names, "BIGINT"), rows)
    engine.create("members_null", text("members_null", population=population))
    found = [score for score in scores(engine, grid, "members_null") if score.members >= least - 1]
    engine.drop("members_null")
    return fit(found)


def fit(found: list[Score]) -> Null | None:
    """Mean, variance by size, and tail of random sets."""
    by_size: dict[int, list[float]] = {}
    for score in found:
        # a set may lack a member, as the prime is not the number of connections
        by_size.setdefault(round(math.log2(score.members)), []).append(score.acc)
    sizes: dict[int, list[int]] = {}
    for score in found:
        sizes.setdefault(round(math.log2(score.members)), []).append(score.members)
    by_size = {key: values for key, values in by_size.items() if len(values) >= LEAST_DRAWS}
    if not by_size:
        return None
    mean = fmean(fmean(values) for values in by_size.values())
    points = []
    for key, values in by_size.items():
        variance = fmean((value - mean) ** 2 for value in values)
        points.append((fmean(sizes[key]), max(variance, 1e-18)))
    a, b = _variance(points)
    plain = Null(mean, a, b, 0.0, 1.0, 0)
    z = sorted(plain.deviations(score.members, score.acc) for score in found)
    beyond = z[int(len(z) * (1 - TAIL)) :]
    start = beyond[0]
    return Null(mean, a, b, start, max(fmean(beyond) - start, 1e-6), len(z))


def _variance(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Least relative squares of `v = a/n + b/n^2` with neither below zero."""
    rows = [(1 / (n * v), 1 / (n * n * v)) for n, v in points]
    aa = sum(x * x for x, _ in rows)
    ab = sum(x * y for x, y in rows)
    bb = sum(y * y for _, y in rows)
    sa, sb = sum(row[0] for row in rows), sum(row[1] for row in rows)
    determinant = aa * bb - ab * ab
    if determinant > 1e-12 * aa * bb:
        a, b = (sa * bb - sb * ab) / determinant, (sb * aa - sa * ab) / determinant
        if a >= 0 and b >= 0:
            return a, b
    return 0.0, sb / bb


def _prime(least: int) -> int:
    candidate = max(least, 3) | 1
    while any(candidate % divisor == 0 for divisor in range(3, math.isqrt(candidate) + 1, 2)):
        candidate += 2
    return candidate
