"""Resources that connections share: hosts, hosts at the other end, applications, switches and links, as numbered sets.

Makes the tables `places` (conn, w, and the number of each resource that a connection has one of), `routes_KIND` (route,
resource) and `members_KIND` (conn, w, resource) in the engine. A number is `KIND_SIZE * kind + number within the kind`,
in `places` that within the kind.
"""

from dataclasses import dataclass, field

from whylat_fleet.engine import Engine
from whylat_fleet.prepare import PreparedWindow
from whylat_fleet.questions import text

KINDS = ("host", "peer", "application", "switch", "link")
OWN = ("host", "peer", "application")
"""Kinds with at most one resource for each connection. Of the other kinds it has those on its route."""
KIND_SIZE = 10**9


@dataclass(slots=True)
class Resources:
    """Names of the resources of each kind, in the order of their numbers."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def name(self, resource: int) -> tuple[str, str]:
        """Kind and name."""
        kind = KINDS[resource // KIND_SIZE]
        return kind, self.names[kind][resource % KIND_SIZE]

    def __len__(self) -> int:
        return sum(len(names) for names in self.names.values())


def build(prepared: PreparedWindow) -> Resources:
    """Makes the members' tables of all kinds. Without a topology file there are no switches and links."""
    engine = prepared.engine
    apps = sorted(row[0] for row in engine.rows("SELECT DISTINCT c.app FROM conns AS c WHERE c.app <> ''"))
    resources = Resources({"host": prepared.host_names, "peer": prepared.host_names, "application": apps})
    numbers = [("", -1), *((app, number) for number, app in enumerate(apps))]
    engine.put("app_numbers", {"app": "VARCHAR", "app_no": "BIGINT"}, numbers)
    _ends(prepared)
    _routes(prepared, resources)
    engine.create("places", text("places"))
    members(engine)
    return resources


def members(engine: Engine) -> None:
    """Makes the members' tables from `places` and `routes_KIND`."""
    for number, kind in enumerate(KINDS):
        name = "members_own" if kind in OWN else "members_route"
        engine.create(f"members_{kind}", text(name, kind=kind, first=number * KIND_SIZE))


def _ends(prepared: PreparedWindow) -> None:
    """Makes `addresses` and `ends`. An address of several hosts (loopback, bridges of containers) identifies none."""
    engine = prepared.engine
    owner: dict[str, int | None] = {}
    for address, host in engine.rows(text("addresses")):
        owner[address] = None if owner.get(address, host) != host else host
    number = {name: index for index, name in enumerate(prepared.host_names)}
    for name, place in prepared.topology.hosts.items():
        owner |= dict.fromkeys(place.addresses, number.get(name))
    rows = [(address, host) for address, host in owner.items() if host is not None]
    engine.put("addresses", {"address": "VARCHAR", "host_no": "BIGINT"}, rows)
    # at least one rack, as the numbers of routes are made with their count
    engine.create("ends", text("ends", tors=max(1, len(prepared.tor_names))))


def _routes(prepared: PreparedWindow, resources: Resources) -> None:
    engine, tors = prepared.engine, prepared.tor_names
    numbers = [int(row[0]) for row in engine.rows("SELECT DISTINCT e.route FROM ends AS e WHERE e.route >= 0")]
    found: dict[str, list[tuple[int, str]]] = {"switch": [], "link": []}
    for route in numbers:
        switches, links = prepared.topology.switches_and_links(tors[route // len(tors)], tors[route % len(tors)])
        found["switch"] += [(route, name) for name in switches]
        found["link"] += [(route, name) for name in links]
    for kind, switches_and_links in found.items():
        names = sorted({name for _, name in switches_and_links})
        number = {name: index + KIND_SIZE * KINDS.index(kind) for index, name in enumerate(names)}
        columns = {"route": "INTEGER", "resource": "BIGINT"}
        engine.put(f"routes_{kind}", columns, [(route, number[name]) for route, name in switches_and_links])
        resources.names[kind] = names
