"""Spark: a cluster that is already there (`spark://HOST:PORT`), or this machine's cores (`spark`)."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whylat_fleet.engine import Row, missing
from whylat_fleet.errors import FleetError

_TYPES = {
    "VARCHAR": "STRING",
    "BIGINT": "BIGINT",
    "INTEGER": "INT",
    "UINTEGER": "BIGINT",
    "BOOLEAN": "BOOLEAN",
    "DOUBLE": "DOUBLE",
}


class Spark:
    """One Spark session. The files must have the same paths on all workers."""

    name = "spark"
    part_cells: int | None = None

    def __init__(self, master: str | None) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise FleetError("Spark cannot be used", missing("pyspark", "spark")) from None
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder: Any = SparkSession.builder
        try:
            self._session: Any = (
                builder.master(master or "local[*]")
                .appName("whylat-fleet")
                .config("spark.ui.enabled", "false")
                .config("spark.sql.session.timeZone", "UTC")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.log.level", "ERROR")
                .getOrCreate()
            )
        except Exception as error:
            raise FleetError(f"Spark at {master or 'local[*]'} does not answer: {error}", "check its URL") from None

    def open(self, table: str, paths: Sequence[str], columns: Mapping[str, str]) -> None:
        """See `Engine`. It passes the schema, so that Spark need not open every file for it."""
        if not paths:
            self.put(table, columns, [])
            return
        frame = self._session.read.schema(_ddl(columns)).parquet(*(f"file://{path}" for path in paths))
        frame.createOrReplaceTempView(table)

    def put(self, table: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """See `Engine`."""
        frame = self._session.createDataFrame([tuple(row) for row in rows], _ddl(columns))
        frame.createOrReplaceTempView(table)

    def create(self, table: str, sql: str) -> None:
        """See `Engine`. Computed now, and kept in the executors' memory and on their disks without how it came about:
        with it, plans of later rounds would grow until the driver's memory is full. When an executor is lost, the
        question has to be asked again."""
        self._session.sql(sql).localCheckpoint(eager=True).createOrReplaceTempView(table)

    def rows(self, sql: str) -> list[Row]:
        """See `Engine`."""
        return [tuple(row) for row in self._session.sql(sql).collect()]

    def drop(self, table: str) -> None:
        """See `Engine`. Frees nothing that another table is made of."""
        self._session.catalog.dropTempView(table)

    def close(self) -> None:
        """See `Engine`."""
        self._session.stop()


def _ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` {_TYPES[kind]}" for name, kind in columns.items())
