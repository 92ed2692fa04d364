#!/usr/bin/env python3
"""Rows of a fleet's dataset, as readers get them. In: its directory, a table, a host, columns. Out: the rows as JSON,
in order of their start. Needs DuckDB for Python.
"""

import json
import sys
from pathlib import Path

import duckdb


class Dataset:
    """Returns the files that readers see: of a merged hour, its file only."""

    def __init__(self, path):
        self.path = path

    def rows(self, table, columns, host):
        """Rows of a table of one host, in order of their start."""
        names = [str(file) for file in self.path.glob(f"{table}/*/*/{host}.*.parquet")]
        hours = {name for name in names if len(name.split(".")[-2]) == 2}
        files = [name for name in names if name in hours or name[: -len("MM.parquet")] + ".parquet" not in hours]
        if not files:
            return []
        words = ", ".join(columns)
        query = f"SELECT {words} FROM read_parquet({files}) WHERE host = '{host}' ORDER BY begin_ns"
        return duckdb.sql(query).fetchall()


if __name__ == "__main__":
    path, table, host, *columns = sys.argv[1:]
    json.dump(Dataset(Path(path)).rows(table, columns, host), sys.stdout)
