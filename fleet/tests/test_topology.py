"""The topology file is an operator's: whatever is in it, it is read, or refused with a word that helps."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whylat_fleet import topology
from whylat_fleet.errors import FleetError

NAMES = st.sampled_from(["a", "b", "c", "spine", "", "</script>", "\x1b[31m"])
ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2", "::1", ""])
WRONG = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))


def or_wrong(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what belongs there."""
    return st.one_of(right, right, right, WRONG)


HOST = or_wrong(
    st.fixed_dictionaries({"tor": or_wrong(NAMES)}, optional={"addresses": or_wrong(st.lists(ADDRESSES, max_size=2))})
)
SWITCH = or_wrong(st.fixed_dictionaries({}, optional={"uplinks": or_wrong(st.lists(NAMES, max_size=3))}))
ROUTE = or_wrong(st.fixed_dictionaries({"from": NAMES, "to": NAMES, "via": or_wrong(st.lists(NAMES, max_size=3))}))
FILE = st.fixed_dictionaries(
    {"schema": st.just(topology.SCHEMA)},
    optional={
        "hosts": or_wrong(st.dictionaries(NAMES, HOST, max_size=3)),
        "switches": or_wrong(st.dictionaries(NAMES, SWITCH, max_size=5)),
        "routes": or_wrong(st.lists(ROUTE, max_size=2)),
    },
)


def read(path: Path, text: bytes) -> topology.Topology | None:
    """Returns the topology, or None if it was refused with an error that a user understands."""
    path.write_bytes(text)
    try:
        return topology.read(path)
    except FleetError as error:
        assert str(path) in str(error)
        return None


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("topology") / "topology.json"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=FILE)
def test_any_entries(path: Path, data: dict[str, Any]) -> None:
    found = read(path, json.dumps(data).encode())
    if found is None:
        return
    for source in found.uplinks:
        for target in found.uplinks:
            found.switches_and_links(source, target)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes(path: Path, data: bytes) -> None:
    assert read(path, data) is None


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"9" * 100_000])
def test_bombs(path: Path, text: bytes) -> None:
    assert read(path, text) is None


@pytest.mark.parametrize("uplinks", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["b"]}])
def test_a_switch_above_itself_is_refused(path: Path, uplinks: dict[str, list[str]]) -> None:
    switches = {name: {"uplinks": above} for name, above in uplinks.items()}
    path.write_text(json.dumps({"schema": topology.SCHEMA, "switches": {"z": {}, **switches}}))
    with pytest.raises(FleetError, match="above itself"):
        topology.read(path)
