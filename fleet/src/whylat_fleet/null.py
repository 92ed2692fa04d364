"""How large a coefficient comes by chance: sets drawn at random from the fleet's own connections.

The question is whether sharing a resource matters, so that the null hypothesis is that membership is random: sets of
the same size drawn from all connections that count. A mean over pairs of a random set is a U-statistic of degree two
(Hoeffding 1948): its mean is that of all pairs, and of a set of n its variance is

    (4 (n - 2) zeta1 + 2 zeta2) / (n (n - 1)).

zeta1, the variance of a connection's mean coefficient with all others, rules large sets and is computed from all
connections. Of a great fleet all this is asked of a sample: its own mean then has the variance 4 zeta1 / n, which is
added. zeta2, the variance over pairs, rules small ones and needs pairs: it comes from draws of small sizes, as does the
tail beyond their 95th percentile, taken as exponential. So the draws need not grow with the fleet.

The coefficient is a sum of two parts (`Score`). What connections have in common over the whole window spreads much
more among random sets than what they do in the same bins; a test of the sum alone would not see the second for the
first. So the sum and its part of the same time are tested each against its own null, and the chance is twice the
lesser one (Bonferroni).

The tail is not exponential where a part of the fleet has the same lasting problem: k such connections of a set add
k^2 to it, so that its tail falls with the root only. `enriched` asks another question: how often does the
pattern occur elsewhere?
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from whylat_fleet.algebra import ALL, Grid, Score, Vectors, coefficients, scores
from whylat_fleet.engine import Engine
from whylat_fleet.questions import text

SETS = 400
"""Draws of each size."""
TAIL = 0.05
"""Share of the draws that the exponential tail is fitted to: 20 of 400."""
LEAST_DRAWS = 40
"""Draws of a size that are enough for a variance; below, the size is not used."""
DOUBLINGS = 1
"""Sizes beyond the least. Larger sets cost more and are nearer to normal (Hoeffding 1948, theorem 7.1), so that the
tail of these is not too thin for them; their variance is zeta1's."""


@dataclass(frozen=True, slots=True)
class Null:
    """Holds the distribution of one statistic over random sets."""

    mean: float
    zeta1: float
    zeta2: float
    start: float
    """95th percentile of the standardised draws."""
    excess: float
    """Mean by which the draws beyond it exceed it."""
    draws: int
    sampled: int | None = None
    """Connections that the mean is of, where it is of a sample."""

    def deviations(self, members: int, value: float) -> float:
        """How many standard deviations of random sets of this size the value lies above their mean."""
        variance = (4 * (members - 2) * self.zeta1 + 2 * self.zeta2) / (members * (members - 1))
        variance += 4 * self.zeta1 / self.sampled if self.sampled else 0.0
        return (value - self.mean) / math.sqrt(variance)

    def probability(self, members: int, value: float) -> float:
        """Chance that a random set of this size has such a value or a greater one."""
        z = self.deviations(members, value)
        return TAIL * math.exp(-(z - self.start) / self.excess) if z > self.start else max(TAIL, 0.5)


@dataclass(frozen=True, slots=True)
class Chance:
    """The nulls of the coefficient and of its part of the same time."""

    whole: Null
    timed: Null

    def beyond(self, score: Score) -> bool:
        """Whether either lies beyond 95 % of the draws."""
        whole = self.whole.deviations(score.members, score.acc) > self.whole.start
        return whole or self.timed.deviations(score.members, _timed(score)) > self.timed.start

    def probability(self, score: Score) -> float:
        """Chance that a random set of its size has such a score."""
        whole = self.whole.probability(score.members, score.acc)
        return min(1.0, 2 * min(whole, self.timed.probability(score.members, _timed(score))))

    def shared(self, score: Score) -> float:
        """Returns the number of connections that share a resource beyond chance."""
        return (score.members - 1) * max(score.acc - self.whole.mean, _timed(score) - self.timed.mean)


def draw(
    engine: Engine, grid: Grid, population: str, least: int, most: int, seed: int, of: Vectors = ALL, part: bool = False
) -> Chance | None:
    """Draws sets from `population` (conn, w), which may be but a `part` of the fleet, drawn at random. None when it is
    too small for `LEAST_DRAWS` sets of the least size."""
    count = int(engine.rows(f"SELECT COUNT(*) FROM {population} AS p")[0][0])
    rows = _sets(count, least, most, random.Random(seed))
    if not rows:
        return None
    _shuffle(engine, population, rows)
    found = [score for score in scores(engine, grid, "members_null", of) if score.members >= least - 1]
    engine.create("members_whole", _WHOLE.format(population=population))
    whole = scores(engine, grid, "members_whole", of)[0]
    coefficients(engine, grid, "members_whole", of)
    _, variance, timed_variance = engine.rows(text("hoeffding"))[0]
    for table in ("members_null", "members_whole", "sums", "coefficients"):
        engine.drop(table)
    sampled = count if part else None
    return Chance(
        fit(found, lambda score: score.acc, whole.acc, variance, sampled),
        fit(found, _timed, _timed(whole), timed_variance, sampled),
    )


_WHOLE = "SELECT p.conn AS conn, p.w AS w, CAST(0 AS BIGINT) AS resource FROM {population} AS p"


def _sets(count: int, least: int, most: int, generator: random.Random) -> list[tuple[int, ...]]:
    """Rows of `draws`: of each size, enough sets or as many as there are."""
    rows: list[tuple[int, ...]] = []
    size = least
    while size <= min(max(most, least), least << DOUBLINGS) and count // size >= LEAST_DRAWS:
        # a small fleet is shuffled more than once
        for _ in range(min(8, -(-SETS // (count // size)))):
            rows.append((len(rows), size, min(SETS, count // size), *_shuffling(count, generator)))
        size *= 2
    return rows


def _shuffling(count: int, generator: random.Random) -> tuple[int, int]:
    prime = _prime(count + 1)
    return generator.randrange(1, prime), prime


def _shuffle(engine: Engine, population: str, rows: list[tuple[int, ...]]) -> None:
    """Makes `members_null`, the sets of `rows`."""
    engine.put("draws", dict.fromkeys(("draw", "size", "sets", "factor", "prime"), "BIGINT"), rows)
    engine.create("members_null", text("members_null", population=population))


def fit(
    found: list[Score], value: Callable[[Score], float], mean: float, zeta1: float, sampled: int | None = None
) -> Null:
    """zeta2 and the tail, of random sets."""
    zeta1 = max(zeta1, 1e-18)
    by_size: dict[int, list[float]] = {}
    for score in found:
        by_size.setdefault(score.members, []).append((value(score) - mean) ** 2)
    # weighted by the number of draws: weights that follow the data would favour sizes that missed the rare great pairs
    total = 0.0
    for n, squares in by_size.items():
        total += len(squares) * (fmean(squares) * n * (n - 1) - 4 * (n - 2) * zeta1) / 2
    # zeta2 is at least 2 zeta1 (Hoeffding 1948, 5.13)
    zeta2 = max(total / len(found), 2 * zeta1)
    plain = Null(mean, zeta1, zeta2, 0.0, 1.0, 0)
    z = sorted(plain.deviations(score.members, value(score)) for score in found)
    beyond = z[int(len(z) * (1 - TAIL)) :]
    start = beyond[0]
    return Null(mean, zeta1, zeta2, start, max(fmean(beyond) - start, 1e-6), len(z), sampled)


def sample(engine: Engine, population: str, size: int, seed: int) -> None:
    """Makes `members_null` of at most `size` connections of the population, drawn at random."""
    count = int(engine.rows(f"SELECT COUNT(*) FROM {population} AS p")[0][0])
    _shuffle(engine, population, [(0, size, 1, *_shuffling(count, random.Random(seed)))])


def enriched(hits: int, members: int, outside: int, sampled: int) -> float:
    """Fisher's exact test, one-sided: chance that of all hits so many or more fall among the members by lot."""
    return math.exp(log_enriched(hits, members, outside, sampled))


def log_enriched(hits: int, members: int, outside: int, sampled: int) -> float:
    """Logarithm of `enriched`: chances below 1e-308 keep their order."""
    total, all_hits = members + sampled, hits + outside
    terms = [
        _log_choose(members, k) + _log_choose(sampled, all_hits - k) - _log_choose(total, all_hits)
        for k in range(hits, min(members, all_hits) + 1)
    ]
    most = max(terms)
    return min(0.0, most + math.log(sum(math.exp(term - most) for term in terms)))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _timed(score: Score) -> float:
    return sum(score.same_time)


def _prime(least: int) -> int:
    candidate = max(least, 3) | 1
    while any(candidate % divisor == 0 for divisor in range(3, math.isqrt(candidate) + 1, 2)):
        candidate += 2
    return candidate
