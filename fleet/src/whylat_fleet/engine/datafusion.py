"""DataFusion, inside this process.

It is kept as a check, as chDB is: it once joined rows wrongly, and the comparison of answers found that.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from whylat_fleet.engine import Row, missing
from whylat_fleet.errors import FleetError


class DataFusion:
    """One DataFusion session."""

    name = "datafusion"
    part_cells: int | None = 3_000_000

    def __init__(self) -> None:
        try:
            import pyarrow
            from datafusion import SessionContext
        except ImportError:
            raise FleetError("DataFusion cannot be used", missing("datafusion", "datafusion")) from None
        self._arrow: Any = pyarrow
        self._types = {
            "VARCHAR": pyarrow.string(),
            "BIGINT": pyarrow.int64(),
            "INTEGER": pyarrow.int32(),
            "UINTEGER": pyarrow.uint32(),
            "BOOLEAN": pyarrow.bool_(),
            "DOUBLE": pyarrow.float64(),
        }
        self._session: Any = SessionContext()
        self._directory = tempfile.TemporaryDirectory(prefix="whylat-fleet-")

    def open(self, table: str, paths: Sequence[str], columns: Mapping[str, str]) -> None:
        """See `Engine`."""
        if not paths:
            self.put(table, columns, [])
            return
        folder = Path(self._directory.name) / table
        folder.mkdir(exist_ok=True)
        for number, path in enumerate(paths):
            (folder / f"{number}.parquet").symlink_to(Path(path).absolute())
        self.drop(table)
        self._session.register_parquet(table, str(folder), schema=self._schema(columns))

    def put(self, table: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """See `Engine`."""
        by_column = list(zip(*rows, strict=True)) or [() for _ in columns]
        arrays = [
            self._arrow.array(values, type=self._types[kind])
            for values, kind in zip(by_column, columns.values(), strict=True)
        ]
        self._register(table, [self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema(columns))])

    def create(self, table: str, sql: str) -> None:
        """See `Engine`."""
        frame = self._session.sql(sql)
        batches = frame.collect()
        self._register(table, batches or [self._arrow.RecordBatch.from_pylist([], schema=frame.schema())])

    def rows(self, sql: str) -> list[Row]:
        """See `Engine`."""
        return [
            row
            for batch in self._session.sql(sql).collect()
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]

    def drop(self, table: str) -> None:
        """See `Engine`."""
        if self._session.table_exist(table):
            self._session.deregister_table(table)

    def close(self) -> None:
        """See `Engine`."""
        self._directory.cleanup()

    def _register(self, table: str, batches: list[Any]) -> None:
        self.drop(table)
        self._session.register_record_batches(table, [batches])

    def _schema(self, columns: Mapping[str, str]) -> Any:
        return self._arrow.schema([(name, self._types[kind]) for name, kind in columns.items()])
