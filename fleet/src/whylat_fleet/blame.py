"""Finds the culprits: of all resources with connections that suffer together, the ones that explain them best.

In: members' tables of all kinds. Out: culprits. A set of N connections with coefficient a has the length (N-1)a + 1 in
common where independent connections have 1; (N-1)(a - mean of random sets) is what it has in common beyond chance, in
connections' worth (`shared`; of the part of the same time alone, where that is more). A rack with one bad host has less
of it than the host, a bad application more than each of its hosts. So, in rounds: the resources with the most are
blamed, their problem is taken out of all their connections, in all other sets and in the null, as if it were not
measured there, and what is left is scored again: another resource is blamed only for what it does where the culprit
is not, or for another problem. Not only those that the culprit explains lose the problem: that choice would be made by
what they suffered, so that what is left would be no random sample of the fleet, and the victims that it misses would
speak against the culprit's parents.

A culprit must not only be no chance (`null`): what its connections have in common must also be rarer elsewhere.
"""

from dataclasses import dataclass, field

from whylat_fleet.algebra import Score, Vectors, coefficients, scores, sizes, take, weigh_left
from whylat_fleet.engine import Engine
from whylat_fleet.exact import AT, MOST_CONNECTIONS, Counts, ExactAnswer, ExactCulprit, find
from whylat_fleet.fleetwide import all_scores
from whylat_fleet.null import LEAST_DRAWS, Chance, draw, enriched, sample
from whylat_fleet.pipelines import Pipeline, pipelines
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.questions import text
from whylat_fleet.resources import KIND_SIZE, KINDS, OWN, Resources
from whylat_fleet.schema import PROBLEMS, are_alike

LEAST_MEMBERS = 10
"""Smaller sets are not judged: in a first trial with simulated fleets, all false culprits had 8 or fewer."""
FALSE_CULPRITS = 0.05
"""Culprits by chance that are put up with in a whole fleet, all resources and rounds together (Bonferroni)."""
SAME = 0.9
"""Share of the same connections at which two resources cannot be distinguished."""
ROUND = 60
"""Resources examined closely in a round."""
WITNESSES = 2000
"""Connections of the whole fleet that a culprit's are compared with: what none of them has is known to be rarer than
one in 700 (3 / n, the 95 % bound of none in n)."""
MAX_ROUNDS = 12
EXACT_LEVEL = FALSE_CULPRITS / (MAX_ROUNDS + 1)
"""Level of exact tests where there are random sets too: the rest of the levels of all rounds."""
RULED_OUT = 5
"""Resources that are named as ruled out by a culprit; the others are counted."""
PANEL = 50_000
"""Connections that the null is asked of, drawn at random, of a fleet that has more: its cost does not grow with the
fleet, and a kurtosis of 50 lets zeta1 be known to 3 % (its relative standard error is sqrt((kurtosis - 1) / n))."""
PANEL_LEFT = Vectors("cells_panel", "weights_panel")
LIVE = Vectors("cells_live", "weights_live")

_OUTSIDERS = """SELECT s.conn AS conn, s.w AS w FROM witnesses AS s
WHERE s.conn NOT IN (SELECT m.conn FROM members_live_all AS m WHERE m.resource = {resource})"""

_WEIGHED = f"""SELECT m.conn AS conn, w.w AS w, m.resource AS resource
FROM members_any AS m JOIN {LIVE.weights} AS w ON m.conn = w.conn"""

_TOUCHED = "SELECT m.resource AS resource FROM members_{kind} AS m JOIN removed_now AS x ON m.conn = x.conn"


@dataclass(slots=True)
class Evidence:
    """A resource that is blamed for a problem."""

    resource: int
    kind: str
    name: str
    score: Score | None
    """None where its connections have fewer than two vectors that are not constant."""
    problem: str
    probability: float
    shared: float
    explained: int
    """Connections that it explains."""
    counts: Counts | None = None
    """Of an exact test: who has the problem. None where the coefficient decided."""
    same: list[str] = field(default_factory=list)
    """Resources that hold the same connections: the data cannot distinguish them from it."""
    meets: list[str] = field(default_factory=list)
    """Resources with other connections: only those suffer that both have, so that either may be at fault."""
    ruled_out: list[str] = field(default_factory=list)
    """Resources that are not blamed, as this one explains their connections."""
    ruled_out_more: int = 0
    resources: list[int] = field(default_factory=list)

    @property
    def when(self) -> str:
        """`same time` where that makes up most of the coefficient, else `same problem`."""
        if self.score is None or self.counts is not None:
            return "same problem"
        return "same time" if sum(self.score.same_time) >= self.score.same_problem else "same problem"


@dataclass(slots=True)
class Culprit:
    """A resource to blame, with one or several problems. A host is one culprit at both ends of connections."""

    evidence: list[Evidence]
    """A problem each, in the order in which they were blamed: what connections have in common is not compared between
    rounds, as later ones have other vectors."""

    @property
    def first(self) -> Evidence:
        """Returns the evidence that ranks the culprit."""
        return self.evidence[0]

    @property
    def label(self) -> str:
        """Returns its name in reports. A host that is blamed as both ends is no longer called the peer."""
        kinds = {one.kind for one in self.evidence}
        return label(self.first.kind if len(kinds) == 1 else "host", self.first.name)

    @property
    def same(self) -> list[str]:
        """See `Evidence`."""
        return list(dict.fromkeys(name for one in self.evidence for name in one.same))

    @property
    def meets(self) -> list[str]:
        """See `Evidence`."""
        return list(dict.fromkeys(name for one in self.evidence for name in one.meets))

    @property
    def ruled_out(self) -> list[str]:
        """See `Evidence`."""
        return list(dict.fromkeys(name for one in self.evidence for name in one.ruled_out))

    @property
    def ruled_out_more(self) -> int:
        """Returns the number of resources that are ruled out and not listed."""
        return sum(one.ruled_out_more for one in self.evidence)


@dataclass(slots=True)
class Verdict:
    """Culprits in order, and what was judged."""

    culprits: list[Culprit]
    scores: dict[int, Score]
    null: Chance | None
    judged: int
    rounds: int
    pipelines: list[Pipeline] = field(default_factory=list)
    exact: ExactAnswer | None = None
    """None of a fleet with too many connections to test them one by one."""


def blame(prepared: PreparedWindow, resources: Resources, alpha: float | None = None, seed: int = 1) -> Verdict:
    """Finds the culprits. A coefficient must also reach `alpha`, if given (SNAP: 0.4)."""
    search = _Search(prepared, resources, alpha, seed)
    coverage = prepared.coverage
    # bins of one host are not those of another where clocks differ
    first = {} if coverage.clocks_differ else {s.resource: s for s in all_scores(prepared.engine, prepared.grid)}
    exact = None
    is_small = 0 < coverage.connections <= MOST_CONNECTIONS or coverage.clocks_differ
    has_sets = coverage.counted >= LEAST_MEMBERS * LEAST_DRAWS and not coverage.clocks_differ
    level = EXACT_LEVEL if has_sets else FALSE_CULPRITS
    if is_small and _is_one_most(first, coverage.counted):
        exact = _ask_exactly(search, first, level)
    verdict = search.run(first)
    if is_small and exact is None:
        exact = _ask_exactly(search, first, level)
    verdict.exact, verdict.culprits = exact, _culprits(search.blamed)
    verdict.pipelines = pipelines(prepared)
    return verdict


def _is_one_most(first: dict[int, Score], counted: int) -> bool:
    """Whether a host or an application has most of the connections that count: random sets are then sets of its own."""
    own = [score.members for score in first.values() if KINDS[score.resource // KIND_SIZE] in OWN]
    return 2 * max(own, default=0) > counted


def _ask_exactly(search: "_Search", first: dict[int, Score], level: float) -> ExactAnswer:
    """Blames what exact tests find, beside what is blamed already."""
    blamed = [(number, one.problem) for one in search.blamed for number in one.resources]
    answer = find(search.prepared, search.resources, blamed, level)
    search.blamed += [_evidence(search.resources, culprit, first) for culprit in answer.culprits]
    return answer


def _evidence(resources: Resources, culprit: ExactCulprit, scores_: dict[int, Score]) -> Evidence:
    """Returns the evidence of an exact test."""
    suspect = culprit.suspect
    kind, name = resources.name(suspect.resource)
    labels = [[label(*resources.name(number)) for number in those] for those in (culprit.same, culprit.ruled_out)]
    hits = suspect.counts.hits
    return Evidence(
        suspect.resource,
        kind,
        name,
        scores_.get(suspect.resource),
        suspect.problem,
        suspect.chance,
        hits,
        hits,
        suspect.counts,
        same=labels[0],
        ruled_out=labels[1][:RULED_OUT],
        ruled_out_more=len(labels[1][RULED_OUT:]),
        resources=[suspect.resource, *culprit.same],
    )


class _Search:
    def __init__(self, prepared: PreparedWindow, resources: Resources, alpha: float | None, seed: int) -> None:
        self.prepared = prepared
        self.engine: Engine = prepared.engine
        self.resources = resources
        self.alpha = alpha
        self.seed = seed
        self.blamed: list[Evidence] = []
        self.judged = 0

    def run(self, first: dict[int, Score]) -> Verdict:
        if self.prepared.coverage.clocks_differ:
            return Verdict([], first, None, 0, 0)
        judged = [score for score in first.values() if score.members >= LEAST_MEMBERS]
        self.judged = len(judged)
        most = max((score.members for score in judged), default=0)
        self._panel()
        null = chance = self._chance(most, 0)
        if self.blamed and chance:
            self._remove([(one.resource, one.problem) for one in self.blamed])
            judged = self._rescore(judged)
            chance = self._chance(most, 0)
        last = chance
        rounds = 0
        # what lies beyond the draws' 95th percentile may become no chance when others are taken out
        live = [score for score in judged if chance and chance.beyond(score)]
        while chance and rounds < MAX_ROUNDS:
            found = self._unlikely(live, chance, rounds + 1)
            if not found:
                break
            rounds += 1
            if not self._round(found[:ROUND], chance, _level(rounds)):
                break
            live = self._rescore(live)
            chance = self._chance(most, rounds)
            last = chance or last
        if last:
            self._revise(last, max(rounds, 1))
        return Verdict([], first, null, self.judged, rounds)

    def _revise(self, chance: Chance, rounds: int) -> None:
        """Drops what was blamed before a greater culprit of the same problem, and is chance without its connections."""
        for one in list(self.blamed):
            later = self.blamed[self.blamed.index(one) + 1 :]
            same = [other for other in later if are_alike(other.problem, one.problem)]
            greater = max(same, key=lambda other: other.explained, default=one)
            if greater.explained <= one.explained or one.score is None or one.counts is not None:
                continue
            self.engine.put("removed", {"conn": "BIGINT", "problem": "INTEGER"}, [])
            self._remove([(other.resource, other.problem) for other in self.blamed if other is not one])
            self._members([one.score])
            left = scores(self.engine, self.prepared.grid, "members_live_all", LIVE)
            if not any(self._no_chance(score, chance, rounds) for score in left):
                self.blamed.remove(one)
                greater.ruled_out.append(label(one.kind, one.name))

    def _panel(self) -> None:
        """Makes `panel`, with its `cells_of_panel`. Nothing is removed yet."""
        engine = self.engine
        sample(engine, "weights", PANEL, self.seed)
        engine.create("panel", "SELECT m.conn AS conn FROM members_null AS m")
        engine.create("cells_of_panel", "SELECT c.* FROM cells AS c JOIN panel AS p ON c.conn = p.conn")
        engine.put("removed", {"conn": "BIGINT", "problem": "INTEGER"}, [])
        weigh_left(engine, self.prepared.grid)

    def _chance(self, most: int, number: int) -> Chance | None:
        """The null of what is left of the panel, and of a part of it `witnesses`."""
        engine, seed = self.engine, self.seed + number
        take(engine, self.prepared.grid, PANEL_LEFT, "panel", "cells_of_panel")
        sample(engine, PANEL_LEFT.weights, WITNESSES, seed)
        engine.create("witnesses", "SELECT m.conn AS conn, m.w AS w FROM members_null AS m")
        part = self.prepared.coverage.counted > PANEL
        return draw(engine, self.prepared.grid, PANEL_LEFT.weights, LEAST_MEMBERS, most, seed, PANEL_LEFT, part)

    def _unlikely(self, live: list[Score], null: Chance, number: int) -> list[Score]:
        """Returns those that are no chance, the most in common first. Equal ones are in order of their numbers, as
        engines may round their sums differently."""
        found = (s for s in live if self._no_chance(s, null, number))
        return sorted(found, key=lambda s: (-round(null.shared(s), 9), s.resource))

    def _no_chance(self, score: Score, null: Chance, number: int) -> bool:
        unlikely = null.probability(score) * self.judged <= _level(number)
        return unlikely and score.members >= LEAST_MEMBERS and (self.alpha is None or score.acc > self.alpha)

    def _members(self, live: list[Score]) -> None:
        """Makes `members_live_all`, and the vectors `LIVE`, of what the resources have left."""
        engine = self.engine
        parts = []
        for index, kind in enumerate(KINDS):
            numbers = [(score.resource,) for score in live if score.resource // KIND_SIZE == index]
            if numbers:
                engine.put("live", {"resource": "BIGINT"}, numbers)
                engine.create(f"live_{kind}", text("members_live", members=f"members_{kind}"))
                parts.append(f"SELECT m.conn AS conn, m.resource AS resource FROM live_{kind} AS m")
        engine.create("members_any", " UNION ALL ".join(parts))
        engine.create("conns_live", "SELECT DISTINCT m.conn AS conn FROM members_any AS m")
        take(engine, self.prepared.grid, LIVE, "conns_live")
        engine.create("members_live_all", _WEIGHED)

    def _rescore(self, live: list[Score]) -> list[Score]:
        """Scores after problems were taken out: those of sets that lost some are computed again."""
        parts = [_TOUCHED.format(kind=kind) for kind in KINDS]
        self.engine.create("touched", f"SELECT DISTINCT t.resource AS resource FROM ({' UNION ALL '.join(parts)}) AS t")
        touched = {int(row[0]) for row in self.engine.rows("SELECT t.resource FROM touched AS t")}
        again = [score for score in live if score.resource in touched]
        kept = [score for score in live if score.resource not in touched]
        if not again:
            return kept
        self._members(again)
        return kept + scores(self.engine, self.prepared.grid, "members_live_all", LIVE)

    def _round(self, found: list[Score], null: Chance, level: float) -> bool:
        """Blames the strongest of `found` that do not share their connections; takes out their problems."""
        engine = self.engine
        self._members(found)
        sizes(engine, self.prepared.grid, "members_live_all", LIVE)
        coefficients(engine, self.prepared.grid, "members_live_all", LIVE)
        engine.create("thresholds", text("thresholds"))
        engine.create("explained", text("explained"))
        both = {(one, other): int(count) for one, other, count in engine.rows(text("overlap"))}
        taken: list[Score] = []
        waiting: list[Score] = []
        removed: list[tuple[int, str]] = []
        for score in found:
            own = both.get((score.resource, score.resource), 0)
            if own < 2:
                continue
            rival = max(taken, key=lambda other: both.get((score.resource, other.resource), 0), default=None)
            shared = both.get((score.resource, rival.resource), 0) if rival else 0
            blocked = any(both.get((score.resource, other.resource), 0) for other in waiting)
            if (rival is not None and 0 < 2 * shared < own) or (blocked and 2 * shared < own):
                # scored again without the other's connections: a few victims of a child make a large parent no chance;
                # and what a stronger one that waits may explain waits with it
                waiting.append(score)
                continue
            if rival is None or 2 * shared < own:
                elsewhere = self._elsewhere(score, own) * self.judged
                if elsewhere > level:
                    continue
                taken.append(score)
                problem = _problem(score, self.prepared, engine)
                removed.append((score.resource, problem))
                chance = max(null.probability(score) * self.judged, elsewhere)
                self._take(score, problem, chance, null.shared(score), own)
            elif self._is_alike(score, rival, both, null):
                self._tie(score, rival)
            elif self._is_meeting(score, rival, both, level):
                self._meet(score, rival)
            else:
                self._rule_out(score, rival)
        if removed:
            self._remove(removed)
        return bool(taken)

    def _remove(self, blamed: list[tuple[int, str]]) -> None:
        """Takes the problem of each resource out of its connections."""
        engine = self.engine
        parts = [
            f"SELECT m.conn AS conn, CAST({number} AS INTEGER) AS problem "
            f"FROM members_{KINDS[resource // KIND_SIZE]} AS m WHERE m.resource = {resource}"
            for resource, problem in blamed
            for number, other in enumerate(PROBLEMS)
            if are_alike(other, problem)
        ]
        # UNION ALL, as dialects differ on what UNION alone means
        engine.create("removed_now", " UNION ALL ".join(parts))
        engine.create("removed_all", "SELECT x.* FROM removed AS x UNION ALL SELECT n.* FROM removed_now AS n")
        engine.create("removed", "SELECT x.* FROM removed_all AS x")
        weigh_left(engine, self.prepared.grid)

    def _is_alike(self, score: Score, rival: Score, both: dict[tuple[int, int], int], null: Chance) -> bool:
        shared = both.get((score.resource, rival.resource), 0)
        union = both[score.resource, score.resource] + both[rival.resource, rival.resource] - shared
        return shared >= SAME * union and null.shared(score) >= SAME * null.shared(rival)

    def _is_meeting(self, score: Score, rival: Score, both: dict[tuple[int, int], int], level: float) -> bool:
        """Whether only connections that two resources both have suffer, and SNAP locates the problem at the later one.

        The victims of one that is at fault alone are a random share of its connections. Here they lie in the other's
        (Fisher's exact test), of both. Workers of one application that answer one host at once are such. Which of the
        two has more other connections says nothing of the fault.
        """
        culprit = self._blamed_with(rival.resource)
        if culprit is None:
            return False
        own, other = score.resource, culprit.resource
        order, kind = AT[culprit.problem], self.resources.name(own)[0]
        if order.index(kind) >= order.index(culprit.kind) or (other, other) not in both:
            return False
        chance, share = self._lies_within(other, own, both[other, other])
        if share < SAME or chance * self.judged > level:
            return False
        return self._lies_within(own, other, both[own, own])[0] * self.judged <= level

    def _lies_within(self, one: int, other: int, explained: int) -> tuple[float, float]:
        """Of the connections that a resource explains, the share that another has too, and the chance of so many."""
        rows = self.engine.rows(text("meeting", one=one, other=other))
        members, common, hits = (int(row[1]) for row in sorted(rows))
        return enriched(hits, common, explained - hits, members - common), hits / explained

    def _elsewhere(self, score: Score, explained: int) -> float:
        """Chance that so many of what the resource's connections have in common fall to it by lot: many other
        connections may have the same, as is so of problems that last for the whole window."""
        engine, resource = self.engine, score.resource
        engine.create("outsiders", _OUTSIDERS.format(resource=resource))
        sampled = int(engine.rows("SELECT COUNT(*) FROM outsiders AS o")[0][0])
        values = {"cells": PANEL_LEFT.cells, "weights": PANEL_LEFT.weights, "bins": self.prepared.grid.bins}
        alike = int(engine.rows(text("elsewhere", resource=resource, **values))[0][0])
        return enriched(explained, score.members, alike, sampled)

    def _take(self, score: Score, problem: str, probability: float, shared: float, explained: int) -> None:
        if known := self._known(score, problem, explained):
            known.explained += explained
            return
        kind, name = self.resources.name(score.resource)
        culprit = Evidence(
            score.resource,
            kind,
            name,
            score,
            problem,
            probability,
            shared,
            explained,
            resources=[score.resource],
        )
        self.blamed.append(culprit)

    def _known(self, score: Score, problem: str, explained: int) -> Evidence | None:
        """The culprit of an earlier round that most of these connections share, with the same problem."""
        for culprit in self.blamed:
            if not are_alike(culprit.problem, problem):
                continue
            if score.resource in culprit.resources:
                return culprit
            kind = KINDS[culprit.resource // KIND_SIZE]
            sql = (
                f"SELECT COUNT(*) FROM explained AS e JOIN members_{kind} AS m ON e.conn = m.conn "
                f"WHERE e.resource = {score.resource} AND m.resource = {culprit.resource}"
            )
            if 2 * int(self.engine.rows(sql)[0][0]) > explained:
                return culprit
        return None

    def _blamed_with(self, resource: int) -> Evidence | None:
        """Returns the latest culprit that a resource is blamed as, or cannot be distinguished from."""
        return next((c for c in reversed(self.blamed) if resource in c.resources), None)

    def _tie(self, score: Score, rival: Score) -> None:
        culprit = self._blamed_with(rival.resource)
        if culprit is None:
            return
        kind, name = self.resources.name(score.resource)
        order = AT[culprit.problem]
        if order.index(kind) < order.index(culprit.kind):
            culprit.same.append(label(culprit.kind, culprit.name))
            self._rename(culprit, score)
        else:
            culprit.resources.append(score.resource)
            culprit.same.append(label(kind, name))

    def _meet(self, score: Score, rival: Score) -> None:
        culprit = self._blamed_with(rival.resource)
        if culprit is not None:
            culprit.meets.append(label(culprit.kind, culprit.name))
            self._rename(culprit, score)

    def _rename(self, culprit: Evidence, score: Score) -> None:
        """Blames the resource of this score in place of that of the culprit."""
        culprit.resources.append(score.resource)
        culprit.kind, culprit.name = self.resources.name(score.resource)
        culprit.resource, culprit.score = score.resource, score

    def _rule_out(self, score: Score, rival: Score) -> None:
        culprit = self._blamed_with(rival.resource)
        if culprit is None:
            return
        if len(culprit.ruled_out) < RULED_OUT:
            culprit.ruled_out.append(label(*self.resources.name(score.resource)))
        else:
            culprit.ruled_out_more += 1


def _culprits(blamed: list[Evidence]) -> list[Culprit]:
    """Puts together what is of one machine or resource, at the place of what was blamed first."""
    culprits: dict[tuple[str, str], Culprit] = {}
    for one in blamed:
        key = ("host" if one.kind == "peer" else one.kind, one.name)
        culprits.setdefault(key, Culprit([])).evidence.append(one)
    return list(culprits.values())


def _level(number: int) -> float:
    """Returns the level of a round: 1/2, 1/6, 1/12, … of `FALSE_CULPRITS`. The shares sum to 1."""
    return FALSE_CULPRITS / (number * (number + 1))


def label(kind: str, name: str) -> str:
    """Returns a resource's name in reports."""
    return f"host {name} (as the peer)" if kind == "peer" else f"{kind} {name}"


def _problem(score: Score, prepared: PreparedWindow, engine: Engine) -> str:
    """The problem that they share: at the same time, or else that in which the explained have most of their time."""
    if sum(score.same_time) >= score.same_problem:
        return max(zip(PROBLEMS, score.same_time, strict=True), key=lambda pair: pair[1])[0]
    problem = f"CAST(FLOOR(CAST(c.cell AS DOUBLE) / {prepared.grid.bins}) AS INTEGER)"
    sql = (
        f"SELECT {problem}, SUM(CAST(c.x AS BIGINT)) FROM {LIVE.cells} AS c JOIN explained AS e ON c.conn = e.conn "
        f"WHERE e.resource = {score.resource} GROUP BY {problem}"
    )
    return PROBLEMS[max(engine.rows(sql), key=lambda row: int(row[1]))[0]]
