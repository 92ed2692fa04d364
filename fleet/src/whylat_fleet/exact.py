"""Culprits among few connections: exact tests of who has a problem, with no sample and no limit of large numbers.

In: all connections of a window, those without a problem too, and how long each had each problem. Out: the resources
with a problem that the others do not have. `blame` asks another question, what connections with a problem
have in common: where all of them are of one application, they have the same in common whoever is drawn.

Of N connections, K have a problem for more than a share of their life, k of them among the n of a resource. If it did
not matter who shares the resource, k would be hypergeometric: Fisher's exact test, one-sided. The shares are those of
SNAP's Table 4. A resource is named only where its connections have the problem more than twice as often as the others:
more of them then have it for its sake than not (attributable fraction above 1/2). All resources, problems and shares
count as tests (Bonferroni). Sums of time need no bins: clocks of hosts may differ, and connections may have been read
seldom.

In rounds, as in `blame`: the least chance is blamed, and its connections are taken out before the others are tested.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from whylat_fleet.null import log_enriched
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.questions import text
from whylat_fleet.resources import KIND_SIZE, KINDS, Resources
from whylat_fleet.schema import LOSS, PROBLEMS, are_alike

SHARES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.999)
"""Shares of a connection's life, those of SNAP's Table 4. A share above 0, a problem at any time, is asked of
connections that were there for as long as any: one that is there longer has more time for it."""
WHOLE_LIFE: Final = 0.999
"""Share of the longest life that counts as the whole, of Table 4 too."""
MOST_CONNECTIONS: Final = 50_000
"""Connections that are tested one by one, in memory. Of larger fleets, random sets say enough."""
MAX_ROUNDS: Final = 12


@dataclass(frozen=True, slots=True)
class Counts:
    """Holds connections with a problem for more than `share` of their life, of a resource and of all others."""

    share: float
    hits: int
    members: int
    other_hits: int
    others: int

    @property
    def log_chance(self) -> float:
        """Logarithm of the chance of so many hits or more."""
        return log_enriched(self.hits, self.members, self.other_hits, self.others)

    @property
    def is_cause(self) -> bool:
        """Whether more of the hits are due to the resource than not: its connections have the problem more than twice
        as often as the others (relative risk above 2, attributable fraction above 1/2)."""
        return self.hits * self.others > 2 * self.other_hits * self.members


@dataclass(frozen=True, slots=True)
class Suspect:
    """A resource, a problem, and the counts that speak most against it."""

    resource: int
    problem: str
    counts: Counts
    chance: float
    """Resources with such counts that are expected by chance in the whole fleet."""


@dataclass(slots=True)
class ExactCulprit:
    """A resource to blame, with those that hold the same connections and those that it explains."""

    suspect: Suspect
    same: list[int] = field(default_factory=list)
    ruled_out: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ExactAnswer:
    """Holds the culprits, and the numbers that decided."""

    culprits: list[ExactCulprit]
    connections: int
    with_problem: int
    tests: int
    level: float
    nearest: Suspect | None = None
    """Of those that are not blamed, the one with the least chance."""
    nearest_name: tuple[str, str] = ("", "")
    """Its kind and name."""
    shared_by_all: list[tuple[str, str]] = field(default_factory=list)
    """Kinds and names of resources that hold every connection: there is nothing to compare them with."""
    everywhere: list[tuple[str, Counts]] = field(default_factory=list)
    """Problems of most connections, at the greatest share of life at which that is so."""

    @property
    def least_members(self) -> int | None:
        """Connections that a resource needs, if all have a problem that no other has. None: no number is enough."""
        limit = math.log(_level(self.level, 1) / self.tests)
        for members in range(1, self.connections):
            if log_enriched(members, members, 0, self.connections - members) <= limit:
                return members
        return None


@dataclass(slots=True)
class _Population:
    """All connections by number, and who shares what."""

    alive_us: list[int]
    problem_us: list[tuple[int, ...]]
    measured: list[bool]
    """Of each, whether delayed ACKs were."""
    members: dict[int, set[int]]


def find(
    prepared: PreparedWindow, resources: Resources, blamed: Iterable[tuple[int, str]], level: float
) -> ExactAnswer:
    """Tests all resources but for what is `blamed` already (resource, problem): its connections are taken out."""
    people = _population(prepared, resources)
    search = _Search(people, level)
    for resource, problem in blamed:
        search.take_out(resource, problem)
    answer = search.run()
    everyone = len(people.alive_us)
    all_ = sorted(number for number, members in people.members.items() if len(members) == everyone)
    answer.shared_by_all = [resources.name(number) for number in all_]
    if answer.nearest:
        answer.nearest_name = resources.name(answer.nearest.resource)
    return answer


def _population(prepared: PreparedWindow, resources: Resources) -> _Population:
    engine, window = prepared.engine, prepared.coverage.window
    span = {"begin_ns": window.begin_ns, "end_ns": window.end_ns}
    engine.create("alive", text("alive", peer="COALESCE(f.peer_address, '')", **span))
    engine.create("everyone", text("everyone", **span))
    shared = _SharedResources(prepared, resources)
    found = _Population([], [], [], defaultdict(set))
    for conn, host, app, peer, alive_us, *problem_us in sorted(engine.rows("SELECT e.* FROM everyone AS e")):
        del conn
        number = len(found.alive_us)
        found.alive_us.append(alive_us)
        found.problem_us.append(tuple(problem_us))
        found.measured.append(prepared.host_names[host] not in prepared.coverage.without_delayed_ack)
        for resource in shared.of(host, app, peer):
            found.members[resource].add(number)
    engine.drop("everyone")
    return found


class _SharedResources:
    """Knows the resources of a connection by its host, application and peer; new ones get a number."""

    def __init__(self, prepared: PreparedWindow, resources: Resources) -> None:
        self.prepared, self.resources = prepared, resources
        self.hosts = {
            str(address): int(host) for address, host in prepared.engine.rows("SELECT a.* FROM addresses AS a")
        }
        self.numbers = {
            kind: {name: number for number, name in enumerate(resources.names.get(kind, []))} for kind in KINDS
        }
        self.routes: dict[tuple[str, str], list[int]] = {}

    def of(self, host: int, app: str, peer_address: str) -> list[int]:
        """Returns their numbers."""
        names = self.prepared.host_names
        found = [self._number("host", names[host])]
        if app:
            found.append(self._number("application", app))
        peer = self.hosts.get(peer_address)
        if peer is None or peer == host:
            return found
        found.append(self._number("peer", names[peer]))
        places = self.prepared.topology.hosts
        if names[host] in places and names[peer] in places:
            found += self._route(places[names[host]].tor, places[names[peer]].tor)
        return found

    def _route(self, source: str, target: str) -> list[int]:
        if (source, target) not in self.routes:
            switches, links = self.prepared.topology.switches_and_links(source, target)
            self.routes[source, target] = [
                *(self._number("switch", name) for name in sorted(switches)),
                *(self._number("link", name) for name in sorted(links)),
            ]
        return self.routes[source, target]

    def _number(self, kind: str, name: str) -> int:
        numbers = self.numbers[kind]
        if name not in numbers:
            # none of its connections is comparable
            numbers[name] = len(numbers)
            self.resources.names.setdefault(kind, []).append(name)
        return KIND_SIZE * KINDS.index(kind) + numbers[name]


class _Search:
    def __init__(self, people: _Population, level: float) -> None:
        self.people = people
        self.level = level
        self.tests = max(1, len(people.members) * len(PROBLEMS) * len(SHARES))
        everyone = set(range(len(people.alive_us)))
        measured = {number for number in everyone if people.measured[number]}
        self.left = {problem: set(measured if problem == "delayed_ack" else everyone) for problem in PROBLEMS}
        longest_us = max(people.alive_us, default=0)
        self.whole = {number for number in everyone if people.alive_us[number] >= WHOLE_LIFE * longest_us}
        self.hits = {(problem, share): self._hits(problem, share) for problem, share in product(PROBLEMS, SHARES)}

    def _hits(self, problem: str, share: float) -> set[int]:
        """Connections with the problem for more than a share of their life."""
        index, alive_us = PROBLEMS.index(problem), self.people.alive_us
        times = enumerate(self.people.problem_us)
        return {number for number, us in times if us[index] * 1000 > alive_us[number] * round(share * 1000)}

    def take_out(self, resource: int, problem: str) -> None:
        """Takes the resource's connections out of the tests of a problem. Losses go together."""
        for other in LOSS if problem in LOSS else (problem,):
            self.left[other] -= self.people.members.get(resource, set())

    def run(self) -> ExactAnswer:
        people = self.people
        with_problem = sum(any(us) for us in people.problem_us)
        found = ExactAnswer([], len(people.alive_us), with_problem, self.tests, self.level)
        found.everywhere = [(problem, counts) for problem in PROBLEMS if (counts := self._of_all(problem))]
        suspects = self._suspects()
        for number in range(1, MAX_ROUNDS + 1):
            unlikely = [one for one in suspects if one.chance <= _level(self.level, number)]
            if not unlikely:
                break
            culprit = ExactCulprit(unlikely[0])
            self.take_out(unlikely[0].resource, unlikely[0].problem)
            found.culprits.append(culprit)
            suspects = self._suspects()
            self._explain(culprit, unlikely[1:], suspects)
        found.nearest = suspects[0] if suspects else None
        return found

    def _of_all(self, problem: str) -> Counts | None:
        """The counts of a problem that most connections have."""
        left = self.left[problem]
        for share in reversed(SHARES[1:]):
            hits = len(self.hits[problem, share] & left)
            if 2 * hits > len(left):
                return Counts(share, hits, len(left), 0, 0)
        return None

    def _suspects(self) -> list[Suspect]:
        """Returns the strongest counts of each resource and problem, the least chance first."""
        found = []
        for problem in PROBLEMS:
            left = self.left[problem]
            whole = left & self.whole
            asked = {share: left if share else whole for share in SHARES}
            hits = {share: self.hits[problem, share] & asked[share] for share in SHARES}
            if not any(hits.values()):
                continue
            for resource, members in self.people.members.items():
                counts = [_count(share, members & asked[share], asked[share], hits[share]) for share in SHARES]
                if suspect := self._suspect(resource, problem, counts):
                    found.append(suspect)
        return sorted(found, key=_order)

    def _suspect(self, resource: int, problem: str, counts: list[Counts]) -> Suspect | None:
        causes = [(one.log_chance, -one.share, one) for one in counts if one.is_cause]
        if not causes:
            return None
        # of equal chances the greater share says more
        log_chance, _, best = min(causes, key=lambda cause: cause[:2])
        return Suspect(resource, problem, best, math.exp(log_chance) * self.tests)

    def _explain(self, culprit: ExactCulprit, before: list[Suspect], after: list[Suspect]) -> None:
        """Sorts the others that were unlikely before it was taken out, and no longer are."""
        still = {(one.resource, one.problem) for one in after if one.chance <= self.level}
        own = self.people.members[culprit.suspect.resource]
        for one in before:
            members = self.people.members[one.resource]
            problem = culprit.suspect.problem
            if (
                not are_alike(one.problem, problem)
                or (one.resource, one.problem) in still
                or one.resource == culprit.suspect.resource
            ):
                continue
            is_same = len(own & members) >= 0.9 * len(own | members)
            (culprit.same if is_same else culprit.ruled_out).append(one.resource)
        culprit.same, culprit.ruled_out = (list(dict.fromkeys(those)) for those in (culprit.same, culprit.ruled_out))


AT: Final = {
    "send_buffer": ("host", "application", "peer", "link", "switch"),
    "fast_retransmit": ("link", "switch", "peer", "host", "application"),
    "timeout": ("link", "switch", "peer", "host", "application"),
    "delayed_ack": ("peer", "application", "host", "link", "switch"),
    "receiver_window": ("peer", "application", "host", "link", "switch"),
}
"""Where SNAP's Table 2 locates a problem: decides between resources that nothing else distinguishes."""


def _count(share: float, members: set[int], asked: set[int], hits: set[int]) -> Counts:
    own = len(members & hits)
    return Counts(share, own, len(members), len(hits) - own, len(asked) - len(members))


def _level(level: float, number: int) -> float:
    """Returns the level of a round: 1/2, 1/6, 1/12, …"""
    return level / (number * (number + 1))


def _order(one: Suspect) -> tuple[float, int, int]:
    place = AT[one.problem].index(KINDS[one.resource // KIND_SIZE])
    return (round(one.counts.log_chance, 9), place, one.resource)
