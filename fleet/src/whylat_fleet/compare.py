"""Before and after a change: which problems take more or less of the connections' time, beyond noise.

A share is the time with a problem over the time that connections were there, of the hosts that both windows have. The
connections of a host suffer together, so that hosts are the units. If the change did nothing, the two windows of a host
could as well be swapped, each host's by itself: the test is that permutation. Swapping changes the sign of

    d = (p' - R c') - (p - R c),

p the time with the problem and c the connections' time of one host before, p' and c' after, R the share of both
windows together; the sum of all d is the difference of the two shares but for a factor. Up to `EXACT` hosts all swaps
are counted, beyond that their tail is bounded by Hoeffding's inequality (1963, theorem 2), which is never too small.
What changes on one host alone is never beyond noise here: `culprit` says that one is gone or new. A cause that struck
many hosts at once, in one of the windows by accident, still looks like a change: compare like hours.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from whylat_fleet.blame import Evidence, Verdict, blame
from whylat_fleet.prepare import Coverage, PreparedWindow
from whylat_fleet.questions import text
from whylat_fleet.resources import build
from whylat_fleet.schema import PROBLEMS

EXACT: Final = 20
"""Hosts up to which all 2^n swaps are counted (as two halves)."""
LEVEL: Final = 0.05
"""Changes by chance that are put up with, over all problems and applications together (Holm 1979)."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Holds the totals of a host, or of one application on it."""

    connections: int
    us: float
    """Time that its connections were there and watched."""
    problem_us: tuple[int, ...]


@dataclass(slots=True)
class Side:
    """A window: before or after."""

    coverage: Coverage
    bin_us: int
    sums: dict[str, dict[str, Sums]]
    """By application (empty: none is known), by host."""
    verdict: Verdict
    without_delayed_ack: frozenset[str] = frozenset()
    """Hosts that did not measure delayed ACKs for all of the window."""


@dataclass(slots=True)
class Change:
    """One problem, of the whole fleet or of one application."""

    application: str | None
    problem: str
    before: float
    """Share of the connections' time."""
    after: float
    hosts: int
    """Hosts that both windows have."""
    probability: float
    """Chance of such a difference or a greater one if the windows were swappable, corrected for the number of tests."""
    least: float
    """The least that so many hosts could have shown."""
    most_host: str
    """The host that differs most."""
    culprit: str | None = None
    """`gone` where the share fell and a culprit with the problem is gone, `new` where it rose and one is new; None
    where both are so."""

    @property
    def verdict(self) -> str:
        """Returns one of "better", "worse", "no difference beyond noise", "cannot tell"."""
        if self.probability <= LEVEL:
            return "better" if self.after < self.before else "worse"
        return "cannot tell" if self.least > LEVEL else "no difference beyond noise"


@dataclass(slots=True)
class Comparison:
    """Holds the differences of two windows."""

    changes: list[Change]
    """Of the fleet first, then of applications, the least chance first."""
    only_before: list[str] = field(default_factory=list)
    """Hosts that only the window before has."""
    only_after: list[str] = field(default_factory=list)
    gone: list[Evidence] = field(default_factory=list)
    new: list[Evidence] = field(default_factory=list)
    still: list[Evidence] = field(default_factory=list)


def side(prepared: PreparedWindow) -> Side:
    """Returns the sums and culprits of a window, to compare."""
    engine, window = prepared.engine, prepared.coverage.window
    engine.create("alive", text("alive", peer="''", begin_ns=window.begin_ns, end_ns=window.end_ns))
    sums: dict[str, dict[str, Sums]] = {}
    for host_no, app, connections, us, *problems in engine.rows(text("host_problems", bins=prepared.grid.bins)):
        host = prepared.host_names[host_no]
        watched = us * prepared.coverage.partly_watched.get(host, 1.0)
        sums.setdefault(app, {})[host] = Sums(int(connections), watched, tuple(int(value) for value in problems))
    stats = engine.rows(text("without_calls", begin_ns=window.begin_ns, end_ns=window.end_ns))
    verdict = blame(prepared, build(prepared))
    return Side(prepared.coverage, prepared.grid.bin_us, sums, verdict, frozenset(row[0] for row in stats))


def compare(before: Side, after: Side) -> Comparison:
    """Tests every problem of the fleet and of each application that both windows have."""
    whole = [_add_applications(one.sums.values()) for one in (before, after)]
    stats = before.without_delayed_ack | after.without_delayed_ack
    changes = _changes(None, whole[0], whole[1], stats)
    for app in sorted(set(before.sums) & set(after.sums) - {""}):
        changes += _changes(app, before.sums[app], after.sums[app], stats)
    _correct(changes)
    changes.sort(key=lambda one: (one.application is not None, one.probability, -abs(one.after - one.before)))
    found = Comparison(changes, sorted(set(whole[0]) - set(whole[1])), sorted(set(whole[1]) - set(whole[0])))
    was, now = (
        {_identity(one): one for culprit in side.verdict.culprits for one in culprit.evidence}
        for side in (before, after)
    )
    found.gone = [one for identity, one in was.items() if identity not in now]
    found.new = [one for identity, one in now.items() if identity not in was]
    found.still = [one for identity, one in now.items() if identity in was]
    for change in changes:
        gone, new = (any(_is_of(one, change) for one in those) for those in (found.gone, found.new))
        if gone != new and gone == (change.after < change.before):
            change.culprit = "gone" if gone else "new"
    return found


def _is_of(one: Evidence, change: Change) -> bool:
    """Whether the culprit has the problem of the change, in all of the fleet or as that application."""
    is_there = change.application is None or (one.kind, one.name) == ("application", change.application)
    return is_there and one.problem == change.problem


def _identity(one: Evidence) -> tuple[str, str, str]:
    return one.kind, one.name, one.problem


def _add_applications(parts: Iterable[dict[str, Sums]]) -> dict[str, Sums]:
    """All applications of each host together."""
    total: dict[str, Sums] = {}
    for part in parts:
        for host, one in part.items():
            other = total.get(host)
            total[host] = one if other is None else _sum(one, other)
    return total


def _sum(one: Sums, other: Sums) -> Sums:
    problems = tuple(a + b for a, b in zip(one.problem_us, other.problem_us, strict=True))
    return Sums(one.connections + other.connections, one.us + other.us, problems)


def _changes(app: str | None, before: dict[str, Sums], after: dict[str, Sums], stats: frozenset[str]) -> list[Change]:
    found = []
    for index, problem in enumerate(PROBLEMS):
        hosts = [host for host in sorted(before) if host in after and not (problem == "delayed_ack" and host in stats)]
        if change := _change(app, index, {host: (before[host], after[host]) for host in hosts}):
            found.append(change)
    return found


def _change(app: str | None, index: int, pairs: dict[str, tuple[Sums, Sums]]) -> Change | None:
    """One problem, of hosts that both windows have. None where no connection was there, or none had the problem."""
    us = [math.fsum(pair[which].us for pair in pairs.values()) for which in (0, 1)]
    sums = [sum(pair[which].problem_us[index] for pair in pairs.values()) for which in (0, 1)]
    if min(us, default=0) <= 0 or sum(sums) == 0:
        return None
    both = sum(sums) / sum(us)
    d = {
        host: (b.problem_us[index] - both * b.us) - (a.problem_us[index] - both * a.us)
        for host, (a, b) in pairs.items()
    }
    probability, least = sign_flip(list(d.values()))
    most = max(d, key=lambda host: abs(d[host]))
    return Change(app, PROBLEMS[index], sums[0] / us[0], sums[1] / us[1], len(d), probability, least, most)


def sign_flip(d: list[float]) -> tuple[float, float]:
    """Chance that a sum of these, each with a random sign, is as far from 0 as theirs; and the least chance that so
    many could have shown."""
    count = len(d)
    if not any(d):
        return 1.0, _least(count)
    observed = abs(math.fsum(d))
    if count <= EXACT:
        # rounding must not part what is equal
        edge = observed - 1e-9 * math.fsum(abs(value) for value in d)
        low, high = _all_sums(d[: count // 2]), sorted(_all_sums(d[count // 2 :]))
        beyond = sum(len(high) - bisect_left(high, edge - value) for value in low)
        return min(1.0, 2 * beyond / 2**count), _least(count)
    squares = math.fsum(value * value for value in d)
    return min(1.0, 2 * math.exp(-observed * observed / (2 * squares))), _least(count)


def _least(count: int) -> float:
    return 2.0 ** (1 - count) if count <= EXACT else 2 * math.exp(-count / 2)


def _all_sums(values: list[float]) -> list[float]:
    sums = [0.0]
    for value in values:
        sums = [total + value for total in sums] + [total - value for total in sums]
    return sums


def _correct(changes: list[Change]) -> None:
    """Holm's step-down: none of all tests is wrong by chance at `LEVEL`."""
    most = 0.0
    for place, change in enumerate(sorted(changes, key=lambda one: one.probability)):
        most = max(most, min(1.0, change.probability * (len(changes) - place)))
        change.probability = most
    for change in changes:
        change.least = min(1.0, change.least * len(changes))
