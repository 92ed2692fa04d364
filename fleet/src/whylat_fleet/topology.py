"""The operator's `topology.json`: which switches and links lie between two hosts. Format: docs/fleet/topology.md.

In: the file. Out: each host's top-of-rack switch and addresses, and for a pair of such switches the switches and
directed links of the path. Several paths of equal cost without a route in the file are one resource: a set.
"""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from whylat_fleet.errors import FleetError

SCHEMA = "whylat.topology/1"


@dataclass(frozen=True, slots=True)
class Host:
    """A host's place: its top-of-rack switch, and its addresses."""

    tor: str
    addresses: tuple[str, ...]


@dataclass(slots=True)
class Topology:
    """Hosts, switches and routes, by their names. Without a file: empty."""

    hosts: dict[str, Host] = field(default_factory=dict)
    uplinks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each switch, the switches above it."""
    routes: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Between two top-of-rack switches: what is switches_and_links in between, in order."""

    def shortest_paths(self, source: str, target: str) -> list[tuple[str, ...]]:
        """Ways from one top-of-rack switch to another, both included, all those of least cost. Empty: none is known."""
        if source == target:
            return [(source,)]
        if (source, target) in self.routes:
            return [(source, *self.routes[source, target], target)]
        up: set[tuple[str, ...]] = {(source,)}
        down: set[tuple[str, ...]] = {(target,)}
        while up and down:
            up = {(*path, above) for path in up for above in self.uplinks.get(path[-1], ())}
            down = {(above, *path) for path in down for above in self.uplinks.get(path[0], ())}
            if paths := sorted((*path[:-1], *rest) for path in up for rest in down if path[-1] == rest[0]):
                return paths
        return []

    def switches_and_links(self, source: str, target: str) -> tuple[set[str], set[str]]:
        """Switches and links of the path between two top-of-rack switches. A link is `from>to`.

        Of paths of equal cost, what all have in common, and for each step the set of alternatives as `a|b`.
        """
        paths = self.shortest_paths(source, target)
        switches = {"|".join(sorted(set(step))) for step in zip(*paths, strict=True)}
        steps = zip(*([f"{a}>{b}" for a, b in pairwise(path)] for path in paths), strict=True)
        links = {"|".join(sorted(set(step))) for step in steps}
        return switches, links


def read(path: Path) -> Topology:
    """Reads and checks a topology file. Raises `FleetError` that names the entry that is wrong."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FleetError(f"{path} does not exist", "docs/fleet/topology.md says what it holds") from None
    except (ValueError, RecursionError) as error:
        raise FleetError(f"{path} is not JSON: {error}", "docs/fleet/topology.md has an example") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        schema = data.get("schema", "missing") if isinstance(data, dict) else "missing"
        raise FleetError(f"{path}: its schema is {schema}, this reads {SCHEMA}", "docs/fleet/topology.md")
    try:
        return _parse(data)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FleetError(f"{path}: {_reason(error)}", "docs/fleet/topology.md has an example") from None


def _reason(error: Exception) -> str:
    return f"an entry does not have {error}" if isinstance(error, KeyError) else str(error)


def _parse(data: dict[str, Any]) -> Topology:
    switches = data.get("switches", {})
    topology = Topology(
        hosts={
            name: Host(host["tor"], tuple(host.get("addresses", ()))) for name, host in data.get("hosts", {}).items()
        },
        uplinks={name: tuple(switch.get("uplinks", ())) for name, switch in switches.items()},
        routes={(route["from"], route["to"]): tuple(route["via"]) for route in data.get("routes", ())},
    )
    named = {host.tor for host in topology.hosts.values()}
    named |= {above for uplinks in topology.uplinks.values() for above in uplinks}
    named |= {name for (source, target), via in topology.routes.items() for name in (source, target, *via)}
    if unknown := sorted(named - set(topology.uplinks)):
        raise ValueError(f"`switches` does not have {unknown[0]}, which another entry names")
    _refuse_circles(topology.uplinks)
    owner: dict[str, str] = {}
    for name, host in topology.hosts.items():
        for address in host.addresses:
            if owner.setdefault(address, name) != name:
                raise ValueError(f"address {address} belongs to both {owner[address]} and {name}")
    return topology


def _refuse_circles(uplinks: dict[str, tuple[str, ...]]) -> None:
    """Ways go up and then down again: with a circle they would go up for ever."""
    left = {name: set(above) for name, above in uplinks.items()}
    while top := [name for name, above in left.items() if not above]:
        for name in top:
            del left[name]
        for above in left.values():
            above.difference_update(top)
    if left:
        raise ValueError(f"`switches`: {min(left)} is above itself, or below one that is")


def write(topology: Topology, path: Path) -> None:
    """Writes a topology file."""
    hosts = {name: {"tor": host.tor, "addresses": list(host.addresses)} for name, host in topology.hosts.items()}
    data = {
        "schema": SCHEMA,
        "hosts": hosts,
        "switches": {name: {"uplinks": list(above)} for name, above in topology.uplinks.items()},
        "routes": [
            {"from": source, "to": target, "via": list(via)} for (source, target), via in topology.routes.items()
        ],
    }
    path.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")
