"""What connections share: hosts, hosts at the other end, applications, switches and links, as numbered sets.

Makes the tables `places` (conn, w, and the number of each resource of which a connection has one), `ways_KIND` (way,
resource) and `members_KIND` (conn, w, resource) in the engine. A number is `KIND_SIZE * kind + number within the kind`,
in `places` that within the kind.
"""

from dataclasses import dataclass, field

from whylat_fleet.engine import Engine
from whylat_fleet.prepare import Prepared
from whylat_fleet.questions import text

KINDS = ("host", "peer", "application", "switch", "link")
OWN = ("host", "peer", "application")
"""Kinds of which a connection has one resource at most; of the others, those on its way."""
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


def build(prepared: Prepared) -> Resources:
    """Makes the members' tables of all kinds. Without a topology file there are no switches and links."""
    engine = prepared.engine
    apps = sorted(row[0] for row in engine.rows("SELECT DISTINCT c.app FROM conns AS c WHERE c.app <> ''"))
    resources = Resources({"host": prepared.host_names, "peer": prepared.host_names, "application": apps})
    numbers = [("", -1), *((app, number) for number, app in enumerate(apps))]
    engine.put("app_numbers", {"app": "VARCHAR", "app_no": "BIGINT"}, numbers)
    _ends(prepared)
    _ways(prepared, resources)
    engine.create("places", text("places"))
    members(engine)
    return resources


def members(engine: Engine) -> None:
    """Makes the members' tables from `places` and `ways_KIND`."""
    for number, kind in enumerate(KINDS):
        name = "members_own" if kind in OWN else "members_way"
        engine.create(f"members_{kind}", text(name, kind=kind, first=number * KIND_SIZE))


def _ends(prepared: Prepared) -> None:
    """Makes `addresses` and `ends`. An address of several hosts (loopback, bridges of containers) tells no host."""
    engine = prepared.engine
    owner: dict[str, int | None] = {}
    for address, host in engine.rows(text("addresses")):
        owner[address] = None if owner.get(address, host) != host else host
    number = {name: index for index, name in enumerate(prepared.host_names)}
    for name, place in prepared.topology.hosts.items():
        owner |= dict.fromkeys(place.addresses, number.get(name))
    rows = [(address, host) for address, host in owner.items() if host is not None]
    engine.put("addresses", {"address": "VARCHAR", "host_no": "BIGINT"}, rows)
    # a rack at least, as numbers of ways are made with their count
    engine.create("ends", text("ends", tors=max(1, len(prepared.tor_names))))


def _ways(prepared: Prepared, resources: Resources) -> None:
    engine, tors = prepared.engine, prepared.tor_names
    ways = [int(row[0]) for row in engine.rows("SELECT DISTINCT e.way FROM ends AS e WHERE e.way >= 0")]
    found: dict[str, list[tuple[int, str]]] = {"switch": [], "link": []}
    for way in ways:
        switches, links = prepared.topology.passed(tors[way // len(tors)], tors[way % len(tors)])
        found["switch"] += [(way, name) for name in switches]
        found["link"] += [(way, name) for name in links]
    for kind, passed in found.items():
        names = sorted({name for _, name in passed})
        number = {name: index + KIND_SIZE * KINDS.index(kind) for index, name in enumerate(names)}
        columns = {"way": "INTEGER", "resource": "BIGINT"}
        engine.put(f"ways_{kind}", columns, [(way, number[name]) for way, name in passed])
        resources.names[kind] = names
