"""chDB: ClickHouse inside this process.

It is kept as a check: `make fleet-engines` demands equal answers of every engine, so that the SQL text stays portable.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from whylat_fleet.engine import Row, missing
from whylat_fleet.errors import FleetError

_TYPES = {
    "VARCHAR": "String",
    "BIGINT": "Int64",
    "INTEGER": "Int32",
    "UINTEGER": "UInt32",
    "BOOLEAN": "Bool",
    "DOUBLE": "Float64",
}


class ChDb:
    """One chDB session in a temporary directory."""

    name = "chdb"
    part_cells: int | None = 3_000_000

    def __init__(self) -> None:
        try:
            from chdb.session import Session
        except ImportError:
            raise FleetError("chDB cannot be used", missing("chdb", "chdb")) from None
        self._directory = tempfile.TemporaryDirectory(prefix="whylat-fleet-")
        self._session: Any = Session(f"{self._directory.name}/tables")

    def open(self, table: str, paths: Sequence[str], columns: Mapping[str, str]) -> None:
        """See `Engine`. The files are linked into one folder, as a list of thousands is too long for a query."""
        if not paths:
            self.put(table, columns, [])
            return
        folder = Path(self._directory.name) / table
        folder.mkdir(exist_ok=True)
        for number, path in enumerate(paths):
            (folder / f"{number}.parquet").symlink_to(Path(path).absolute())
        self._query(f"DROP TABLE IF EXISTS {table}")
        self._query(f"CREATE VIEW {table} AS SELECT * FROM file('{folder}/*.parquet', Parquet, '{_ddl(columns)}')")

    def put(self, table: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """See `Engine`."""
        path = Path(self._directory.name) / f"{table}.json"
        with path.open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        self._query(f"DROP TABLE IF EXISTS {table}")
        self._query(f"CREATE TABLE {table} ({_ddl(columns)}) ENGINE = Memory")
        if path.stat().st_size:
            self._query(f"INSERT INTO {table} SELECT * FROM file('{path}', JSONCompactEachRow, '{_ddl(columns)}')")
        path.unlink()

    def create(self, table: str, sql: str) -> None:
        """See `Engine`."""
        self._query(f"DROP TABLE IF EXISTS {table}")
        self._query(f"CREATE TABLE {table} ENGINE = Memory AS {sql}")

    def rows(self, sql: str) -> list[Row]:
        """See `Engine`."""
        text = str(
            self._session.query(f"{sql} SETTINGS output_format_json_quote_64bit_integers = 0", "JSONCompactEachRow")
        )
        return [tuple(json.loads(line)) for line in text.splitlines()]

    def drop(self, table: str) -> None:
        """See `Engine`."""
        self._query(f"DROP TABLE IF EXISTS {table}")

    def close(self) -> None:
        """See `Engine`."""
        self._session.close()
        self._directory.cleanup()

    def _query(self, sql: str) -> None:
        self._session.query(sql)


def _ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` Nullable({_TYPES[kind]})" for name, kind in columns.items())
