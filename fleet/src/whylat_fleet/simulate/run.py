"""`whylat-fleet simulate`: puts the parts together."""

from pathlib import Path

import numpy as np

from whylat_fleet.errors import UsageError
from whylat_fleet.simulate import layout, plants, problems, write


def simulate(
    out: Path, hosts: int, connections: int, hours: int, begin_ns: int, seed: int, plant: list[str], table: Path | None
) -> list[plants.PlantTruth]:
    """Writes a data centre of `hosts` hosts with `connections` sockets each in the median; returns what was planted.

    Raises `UsageError` where it is too small for that.
    """
    data = problems.parameters(table)
    center = layout.build(hosts, connections, data["connections_per_host"]["largest"] * connections // 150, seed)
    bins = hours * write.BINS_PER_HOUR
    try:
        planted = [plants.PLANTS[name](center, bins) for name in plants.parse(plant)]
    except plants.TooSmallError as error:
        raise UsageError(
            f"--hosts {hosts} --conns {connections}: {error}",
            "--hosts 100 --conns 60, or only culprits that need less: --plant receive-window",
        ) from None
    background = problems.background(np.random.default_rng(seed + 1), center.sockets, bins, data)
    write.dataset(out, center, background, planted, begin_ns, hours)
    return planted
