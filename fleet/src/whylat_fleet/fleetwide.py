"""Scores of all resources of a fleet: those of `algebra.scores`, in another order of the same sums.

A connection is a member of some seven resources. So its cells are joined once with all that it shares, and summed by
resource and cell in parts of the cells: what is summed at once then lies in the processor's cache, not in memory, and
memory does not grow with the fleet's sums. Parts are made in groups, as each scan for a part looks at all cells that
it may come from: with one group its cost would grow with the square of the fleet.
"""

import math

from whylat_fleet.algebra import Grid, Score, scored, sizes
from whylat_fleet.engine import Engine
from whylat_fleet.questions import text
from whylat_fleet.resources import KIND_SIZE, KINDS, OWN
from whylat_fleet.schema import PROBLEMS

STRIPS = 400
"""Strips of the histogram that parts are cut by."""


def all_scores(engine: Engine, grid: Grid) -> list[Score]:
    """The score of each resource of every kind with at least two connections that count. Makes their `sizes`.

    In: `cells`, `weights`, and what `resources.build` makes.
    """
    members = " UNION ALL ".join(f"SELECT m.conn AS conn, m.resource AS resource FROM members_{k} AS m" for k in KINDS)
    sizes(engine, grid, f"({members})")
    parts = _parts(engine, grid)
    # as many parts in a group as there are groups: no cell is read once for each part
    size = max(1, math.isqrt(len(parts)))
    groups = [parts[at : at + size] for at in range(0, len(parts), size)]
    made: list[str] = []
    for group in groups:
        engine.create("entries", text("entries", first=group[0][0], end=group[-1][1]))
        for first, end in group:
            part = "entries"
            if len(group) > 1:
                part = "entries_part"
                engine.create(part, text("entries_part", first=first, end=end))
            number = len(made) // len(KINDS)
            made += [_squares(engine, grid, kind, part, number) for kind in KINDS]
    engine.drop("entries")
    engine.drop("entries_part")
    found = scored(engine, grid, " UNION ALL ".join(f"SELECT s.* FROM {table} AS s" for table in made))
    for table in made:
        engine.drop(table)
    return found


def _parts(engine: Engine, grid: Grid) -> list[tuple[int, int]]:
    """Ranges of numbers of cells that hold about `engine.part_cells` of them, and together all."""
    width = len(PROBLEMS) * grid.bins
    if engine.part_cells is None:
        return [(0, width)]
    length = -(-width // STRIPS)
    parts = [(0, 0)]
    held = 0
    for strip, cells in sorted(engine.rows(text("histogram", length=length))):
        if held + cells > engine.part_cells and held:
            parts.append((parts[-1][1], 0))
            held = 0
        held += cells
        parts[-1] = (parts[-1][0], (strip + 1) * length)
    return parts


def _squares(engine: Engine, grid: Grid, kind: str, part: str, number: int) -> str:
    """Creates a table of the sums of squares of one kind over a part of the cells, for the correlation; returns its
    name."""
    first = KIND_SIZE * KINDS.index(kind)
    entries = text("entries_own" if kind in OWN else "entries_route", kind=kind, first=first, entries=part)
    engine.create(f"squares_{kind}_{number}", text("squares", bins=grid.bins, entries=entries))
    return f"squares_{kind}_{number}"
