"""Problems that connections have by chance: independent of each other, as often as the parameter file says."""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from whylat_fleet.errors import FleetError
from whylat_fleet.schema import PROBLEMS
from whylat_fleet.simulate.layout import Floats, Ints

BIN_US = 2_000_000


@dataclass(slots=True)
class Cells:
    """Time with a problem: of socket `socket` in bin `bin`, `us` microseconds of problem number `problem`."""

    socket: Ints
    bin: Ints
    problem: Ints
    us: Ints

    @staticmethod
    def join(parts: list["Cells"]) -> "Cells":
        """Concatenates cells."""
        return Cells(
            np.concatenate([part.socket for part in parts]),
            np.concatenate([part.bin for part in parts]),
            np.concatenate([part.problem for part in parts]),
            np.concatenate([part.us for part in parts]),
        )


def parameters(path: Path | None) -> dict[str, Any]:
    """The parameter file, or the one that comes with the package. Raises `FleetError` when it cannot be understood."""
    try:
        own = files("whylat_fleet.simulate").joinpath("background.json")
        data: dict[str, Any] = json.loads((path or own).read_text(encoding="utf-8"))
        for problem in PROBLEMS:
            entry = data["problems"][problem]
            if len(entry["connections"]) != len(data["shares"]) or len(entry["in_bin_us"]) != 5:
                raise ValueError(f"{problem}: as many `connections` as `shares`, and five `in_bin_us`")
        return data
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FleetError(f"{path}: not a table of background problems: {error}", "docs/fleet/README.md") from None


def amounts(random: np.random.Generator, quantiles: list[float], count: int) -> Ints:
    """Times in a bin with these quantiles (0, 25, 50, 75, 100 %), us."""
    values = np.interp(random.random(count), np.linspace(0, 1, len(quantiles)), quantiles)
    return np.minimum(values, BIN_US).astype(np.int64)


def episodes(random: np.random.Generator, share: Floats, run_bins: float, bins: int) -> tuple[Ints, Ints]:
    """For each of `share`, bins covered by episodes of geometric length so that this share of all bins is covered.

    Returns index into `share` and bin, each pair once.
    """
    # n episodes at random places leave (1 - run/bins)^n uncovered
    count = np.ceil(-np.log1p(-np.minimum(share, 0.9999)) * bins / run_bins).astype(np.int64)
    owner = np.repeat(np.arange(len(share)), np.maximum(count, 1))
    start = random.integers(0, bins, len(owner))
    length = random.geometric(1 / run_bins, len(owner))
    spread = np.repeat(np.arange(len(owner)), length)
    offset = np.arange(len(spread)) - np.repeat(np.cumsum(length) - length, length)
    keys = owner[spread] * bins + np.minimum(start[spread] + offset, bins - 1)
    # numpy's own `unique` hashes before it sorts, which takes three times as long
    keys.sort()
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return keys // bins, keys % bins


def background(random: np.random.Generator, sockets: int, bins: int, table: dict[str, Any]) -> Cells:
    """Independent problems of `sockets` connections over `bins` bins."""
    edges = [*table["shares"], 1.0]
    parts = []
    for number, problem in enumerate(PROBLEMS):
        entry = table["problems"][problem]
        more = [*entry["connections"], 0.0]
        draw = random.random(sockets)
        for index in range(len(edges) - 1):
            chosen = np.flatnonzero((draw < more[index]) & (draw >= more[index + 1]))
            share = random.uniform(edges[index], edges[index + 1], len(chosen))
            if index == 0:
                # small shares are the most frequent: the share's logarithm is uniform, down to one bin
                share = np.exp(random.uniform(np.log(1 / bins), np.log(edges[1]), len(chosen)))
            owner, bin_ = episodes(random, share, entry["run_bins"], bins)
            us = amounts(random, entry["in_bin_us"], len(bin_))
            parts.append(Cells(chosen[owner], bin_, np.full(len(bin_), number), us))
    return Cells.join(parts)
