"""What connections share: hosts, hosts at the other end, applications, switches and links, as numbered sets.

Makes the tables `members_KIND` (conn, w, resource) in the engine. A number is `KIND_SIZE * kind + number within the
kind`.
"""

from dataclasses import dataclass, field

from whylat_fleet.prepare import Prepared
from whylat_fleet.questions import text

KINDS = ("host", "peer", "application", "switch", "link")
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
    resources = Resources({"host": prepared.host_names, "peer": prepared.host_names})
    engine.create("members_host", text("members_host", first=0))
    _ends(prepared)
    engine.create("members_peer", text("members_peer", first=KIND_SIZE))
    apps = sorted(row[0] for row in engine.rows("SELECT DISTINCT c.app FROM conns AS c WHERE c.app <> ''"))
    engine.put("apps", {"app": "VARCHAR", "app_no": "BIGINT"}, [(app, number) for number, app in enumerate(apps)])
    engine.create("members_application", text("members_application", first=2 * KIND_SIZE))
    resources.names["application"] = apps
    _paths(prepared, resources)
    return resources


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
    engine.create("ends", text("ends"))


def _paths(prepared: Prepared, resources: Resources) -> None:
    engine, tors = prepared.engine, prepared.tor_names
    sql = "SELECT DISTINCT e.from_tor, e.to_tor FROM ends AS e WHERE e.from_tor >= 0 AND e.to_tor >= 0"
    pairs = engine.rows(sql)
    found: dict[str, list[tuple[int, int, str]]] = {"switch": [], "link": []}
    for source, target in pairs:
        switches, links = prepared.topology.passed(tors[source], tors[target])
        found["switch"] += [(source, target, name) for name in switches]
        found["link"] += [(source, target, name) for name in links]
    columns = dict.fromkeys(("from_tor", "to_tor", "resource"), "BIGINT")
    for kind, passed in found.items():
        names = sorted({name for _, _, name in passed})
        number = {name: index + KIND_SIZE * KINDS.index(kind) for index, name in enumerate(names)}
        engine.put(f"paths_{kind}", columns, [(source, target, number[name]) for source, target, name in passed])
        engine.create(f"members_{kind}", text("members_path", paths=f"paths_{kind}"))
        resources.names[kind] = names
