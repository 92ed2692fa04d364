"""Engines: they open the dataset and run the SQL text, nothing else.

The text is the same for all, of `CAST`, inner `JOIN`, `GROUP BY`, `SUM`, `SQRT`, `FLOOR` and `ROUND`: numbers are cast
before they are calculated with, an alias never hides a column, and every name is qualified.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from whylat_fleet.errors import UsageError

Row = tuple[Any, ...]


class Engine(Protocol):
    """Holds the operations that the questions need of an engine."""

    name: str
    part_cells: int | None
    """Cells of connections that it sums fastest at once; None: as many as there are."""

    def open(self, table: str, paths: Sequence[str], columns: Mapping[str, str]) -> None:
        """Makes the rows of these Parquet files the table `table`. Of no files, a table without rows."""

    def put(self, table: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """Makes a small table of these rows."""

    def create(self, table: str, sql: str) -> None:
        """Makes the answer of a query a table, replacing one of that name."""

    def rows(self, sql: str) -> list[Row]:
        """The answer of a query."""

    def drop(self, table: str) -> None:
        """Forgets a table that `create` made."""

    def close(self) -> None:
        """Ends what the engine started."""


def connect(name: str, memory: str | None = None) -> Engine:
    """An engine by its name: `duckdb`, `chdb`, `datafusion`, `spark` or `spark://HOST:PORT`.

    `memory` caps DuckDB's, as `2GB`; it then spills to a temporary directory. Raises `UsageError` for an unknown name
    and `FleetError` when the engine is not installed.
    """
    if memory is not None and name != "duckdb":
        raise UsageError(f"--memory is DuckDB's, not of {name}", "cap other engines in their own configuration")
    if name == "duckdb":
        from whylat_fleet.engine.duckdb import DuckDb

        return DuckDb(memory)
    if name == "chdb":
        from whylat_fleet.engine.chdb import ChDb

        return ChDb()
    if name == "datafusion":
        from whylat_fleet.engine.datafusion import DataFusion

        return DataFusion()
    if name == "spark" or name.startswith(("spark://", "local[", "yarn", "k8s://")):
        from whylat_fleet.engine.spark import Spark

        return Spark(None if name == "spark" else name)
    raise UsageError(f"--engine {name}: no such engine", "one of duckdb, spark, spark://HOST:PORT, chdb, datafusion")


def missing(module: str, extra: str) -> str:
    """Returns the hint for an engine without its package."""
    return f"{module} is not installed; pip install 'whylat-fleet[{extra}]'"
