"""DuckDB, inside this process: the default."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence

import duckdb

from whylat_fleet.engine import Row
from whylat_fleet.errors import UsageError


class DuckDb:
    """One DuckDB connection. With a memory cap it keeps its tables on disk and spills."""

    name = "duckdb"
    part_cells: int | None = 3_000_000

    def __init__(self, memory: str | None = None) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="whylat-fleet-")
        # tables in a file can leave memory without being written as temporary blocks first
        self.connection = duckdb.connect(f"{self._directory.name}/tables.duckdb" if memory else ":memory:")
        self.connection.execute(f"SET temp_directory = '{self._directory.name}'")
        self.connection.execute("SET preserve_insertion_order = false")
        if memory is not None:
            try:
                self.connection.execute("SET memory_limit = $1", [memory])
            except duckdb.Error:
                self.close()
                raise UsageError(f"--memory {memory}: not a size", "--memory 2GB") from None

    def open(self, table: str, paths: Sequence[str], columns: Mapping[str, str]) -> None:
        """See `Engine`."""
        files = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
        names = ", ".join(f'"{name}"' for name in columns)
        nothing = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in columns.items())
        self.connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT {names} "
            f"FROM read_parquet([{files}], hive_partitioning = false, union_by_name = false)"
            if paths
            else f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT {nothing} WHERE false"
        )

    def put(self, table: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """See `Engine`."""
        fields = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        self.connection.execute(f"CREATE OR REPLACE TABLE {table} ({fields})")
        by_column = list(zip(*rows, strict=True))
        if by_column:
            lists = ", ".join(f"unnest(${place}::{kind}[])" for place, kind in enumerate(columns.values(), 1))
            self.connection.execute(f"INSERT INTO {table} SELECT {lists}", [list(values) for values in by_column])

    def create(self, table: str, sql: str) -> None:
        """See `Engine`."""
        self.connection.execute(f"CREATE OR REPLACE TABLE {table} AS {sql}")

    def rows(self, sql: str) -> list[Row]:
        """See `Engine`."""
        return self.connection.execute(sql).fetchall()

    def drop(self, table: str) -> None:
        """See `Engine`."""
        self.connection.execute(f"DROP TABLE IF EXISTS {table}")

    def close(self) -> None:
        """See `Engine`."""
        self.connection.close()
        self._directory.cleanup()
