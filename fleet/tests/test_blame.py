"""Explaining away: a switch is not blamed for the few victims of one of its ports."""

import numpy as np
import pytest
from test_algebra import fill
from test_null import BINS, mixed

from whylat_fleet.blame import Evidence, Verdict, blame
from whylat_fleet.dataset import HOUR_NS, Window
from whylat_fleet.engine import Engine
from whylat_fleet.engine.duckdb import DuckDb
from whylat_fleet.prepare import Coverage, PreparedWindow
from whylat_fleet.resources import KIND_SIZE, KINDS, OWN, Resources, members
from whylat_fleet.topology import Topology

SETS = {"link": ("port", 0, 100), "switch": ("switch", 0, 2000), "application": ("other", 1500, 1600)}
"""Of each kind, a resource and the numbers of its connections."""


def place(engine: Engine) -> None:
    """Makes what `resources.build` makes. Ways are numbered by what lies on them: 1 the link, 2 the switch, 3 both."""
    on = {
        kind: f"CASE WHEN w.conn >= {first} AND w.conn < {end} THEN 1 ELSE 0 END"
        for kind, (_, first, end) in (dict.fromkeys(KINDS, ("", 0, 0)) | SETS).items()
    }
    own = ", ".join(f"{on[kind]} - 1 AS {kind}" for kind in OWN)
    engine.create(
        "places",
        f"SELECT w.conn AS conn, w.w AS w, {own}, {on['link']} + 2 * {on['switch']} AS route FROM weights AS w",
    )
    for kind, routes in (("link", (1, 3)), ("switch", (2, 3))):
        number = KIND_SIZE * KINDS.index(kind)
        engine.put(f"routes_{kind}", {"route": "INTEGER", "resource": "BIGINT"}, [(route, number) for route in routes])
    members(engine)


def judged(x: np.ndarray) -> Verdict:
    engine = DuckDb()
    try:
        grid = fill(engine, x)
        place(engine)
        engine.put("quiet", {"conn": "BIGINT"}, [])
        prepared = PreparedWindow(engine, grid, Coverage(Window(0, HOUR_NS)), Topology(), [], [])
        return blame(prepared, Resources({kind: [entry[0]] for kind, entry in SETS.items()}))
    finally:
        engine.close()


def blamed(verdict: Verdict) -> list[Evidence]:
    return [one for culprit in verdict.culprits for one in culprit.evidence]


def suffering(x: np.ndarray, first: int, end: int, seed: int, problem: int = 1) -> None:
    random = np.random.default_rng(seed)
    times = random.choice(BINS, 20, replace=False)
    for conn in range(first, end):
        x[conn, times[random.random(20) < 0.6], problem] = 900_000


def test_the_port_is_blamed_and_not_its_switch() -> None:
    x = mixed(4000)
    suffering(x, 0, 100, 5)
    verdict = judged(x)
    assert [(c.kind, c.name, c.problem, c.when) for c in blamed(verdict)] == [
        ("link", "port", "fast_retransmit", "same time")
    ]


def test_a_second_culprit_apart_is_blamed_too() -> None:
    x = mixed(4000)
    suffering(x, 0, 100, 5)
    suffering(x, 1500, 1600, 6)
    assert {c.name for c in blamed(judged(x))} == {"port", "other"}


def test_a_resource_with_several_problems_is_one_culprit() -> None:
    x = mixed(4000)
    suffering(x, 0, 100, 5)
    suffering(x, 0, 80, 6, 4)
    suffering(x, 1500, 1600, 7)
    # the loss, of more of its connections, was blamed first
    assert sorted((c.label, [one.problem for one in c.evidence]) for c in judged(x).culprits) == [
        ("application other", ["fast_retransmit"]),
        ("link port", ["fast_retransmit", "receiver_window"]),
    ]


def test_both_ends_of_a_host_are_one_culprit(monkeypatch: pytest.MonkeyPatch) -> None:
    x = mixed(4000)
    suffering(x, 0, 100, 5)
    suffering(x, 1500, 1600, 6, 4)
    monkeypatch.setattr("test_blame.SETS", {"host": ("h1", 0, 100), "peer": ("h1", 1500, 1600)})
    (culprit,) = judged(x).culprits
    assert culprit.label == "host h1"
    assert {(one.kind, one.problem) for one in culprit.evidence} == {
        ("host", "fast_retransmit"),
        ("peer", "receiver_window"),
    }


def test_nobody_is_blamed_for_what_comes_by_chance() -> None:
    assert judged(mixed(4000)).culprits == []


def test_what_many_others_have_too_is_nobodys_fault() -> None:
    """A fifth of the fleet has one problem all the time; of the port's twelve connections six have it."""
    x = mixed(4000)
    random = np.random.default_rng(8)
    steady = np.flatnonzero(random.random(4000) < 0.2)
    steady = np.union1d(steady[steady >= 12], np.arange(6))
    x[steady] = 0
    x[steady, :, 3] = 1_500_000 + random.integers(0, 1000, (len(steady), BINS))
    before = SETS["link"]
    SETS["link"] = ("port", 0, 12)
    try:
        assert judged(x).culprits == []
    finally:
        SETS["link"] = before


def test_a_culprit_within_another_is_named_for_its_own_problem() -> None:
    """All connections of a switch have lasting delayed ACKs; those of its port lose packets at the same times, too."""
    x = mixed(4000)
    random = np.random.default_rng(9)
    for conn in range(400):
        x[conn, random.random(BINS) < 0.5, 3] = 1_500_000
    suffering(x, 0, 60, 5)
    before = SETS["switch"], SETS["link"]
    SETS["switch"], SETS["link"] = ("switch", 0, 400), ("port", 0, 60)
    try:
        found = {(c.name, c.problem) for c in blamed(judged(x))}
    finally:
        SETS["switch"], SETS["link"] = before
    assert found == {("switch", "delayed_ack"), ("port", "fast_retransmit")}


@pytest.mark.parametrize(
    ("problem", "application", "peer", "struck", "named"),
    [
        # only what both share suffers: SNAP locates timeouts at the end of a link, and a buffer that is too small too
        (2, (0, 50), (15, 80), (15, 50), ("peer h1", ["application asks"])),
        (4, (0, 50), (15, 80), (15, 50), ("peer h1", ["application asks"])),
        # SNAP locates a send buffer at a host or an application
        (0, (0, 50), (15, 80), (15, 50), ("application asks", [])),
        # all that the application does suffers, or some of it elsewhere
        (2, (15, 50), (15, 80), (15, 50), ("application asks", [])),
        (2, (0, 50), (15, 80), (3, 50), ("application asks", [])),
        # all that goes to the host suffers
        (2, (0, 80), (15, 50), (15, 50), ("peer h1", [])),
    ],
)
def test_where_two_resources_meet_the_problem_says_which_is_named(
    monkeypatch: pytest.MonkeyPatch,
    problem: int,
    application: tuple[int, int],
    peer: tuple[int, int],
    struck: tuple[int, int],
    named: tuple[str, list[str]],
) -> None:
    x = mixed(4000)
    suffering(x, *struck, 5, problem)
    monkeypatch.setattr("test_blame.SETS", {"application": ("asks", *application), "peer": ("h1", *peer)})
    (one,) = blamed(judged(x))
    assert (f"{one.kind} {one.name}", one.meets, one.same) == (*named, [])
