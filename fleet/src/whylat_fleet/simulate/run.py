"""`whylat-fleet simulate`: puts the parts together."""

from pathlib import Path

import numpy as np

from whylat_fleet.errors import UsageError
from whylat_fleet.simulate import layout, plants, problems, write


def simulate(
    out: Path, hosts: int, connections: int, hours: int, begin_ns: int, seed: int, chosen: list[str], table: Path | None
) -> list[plants.PlantTruth]:
    """Writes a data centre of `hosts` hosts with `connections` sockets each in the median; returns what was planted.

    Raises `UsageError` where it is too small for that.
    """
    data = problems.parameters(table)
    center = layout.build(hosts, connections, data["connections_per_host"]["largest"] * connections // 150, seed)
    bins = hours * write.BINS_PER_HOUR
    try:
        planted = plant(center, chosen, bins)
    except plants.TooSmallError as error:
        raise UsageError(
            f"--hosts {hosts} --conns {connections}: {error}",
            "--hosts 100 --conns 60, or only culprits that need less: --plant delayed-acks",
        ) from None
    background = problems.background(np.random.default_rng(seed + 1), center.sockets, bins, data)
    write.dataset(out, center, background, planted, begin_ns, hours)
    return planted


def plant(center: layout.Center, chosen: list[str], bins: int) -> list[plants.PlantTruth]:
    """Plants culprits. Of `all`, a fleet smaller than two racks gets those that it has room for."""
    planted = []
    names = plants.parse(chosen)
    if center.hosts < center.world:
        # connections that others add are the application's too: of a small fleet they are a large part
        names.sort(key=lambda name: name == "delayed-acks")
    for name in names:
        try:
            planted.append(plants.PLANTS[name](center, bins))
        except plants.TooSmallError:
            if center.hosts == center.world or "all" not in chosen:
                raise
    return planted
