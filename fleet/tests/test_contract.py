"""The columns that are read are those that agents write."""

import re
from pathlib import Path

from whylat_fleet.schema import ADDED, TABLES

PAGE = Path(__file__).parents[2] / "docs/fleet/tables.md"
KINDS = {"utf8": "VARCHAR", "int64": "BIGINT", "int32": "INTEGER", "uint32": "UINTEGER", "boolean": "BOOLEAN"}


def test_columns_are_those_of_the_page() -> None:
    declared: dict[str, dict[str, str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## (\w+)", line):
            table = declared.setdefault(heading[1], {})
        elif field := re.match(r"\| `(\w+)` \| (\w+) \|", line):
            table[field[1]] = KINDS[field[2]]
    assert declared == {table: columns | ADDED.get(table, {}) for table, columns in TABLES.items()}
