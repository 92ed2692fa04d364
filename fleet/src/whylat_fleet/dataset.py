"""Selects the files of a dataset that hold a window of time, and leaves out those that contradict themselves.

In: a directory as docs/fleet/dataset.md describes, and a window. Out: for each table the files to read, and every file
that is left out with the reason. A file that cannot be read, repeats another, is of another schema or holds rows of
another hour is named and left out; nothing else changes. Footers are read by DuckDB whatever the engine.
"""

import hashlib
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from whylat_fleet.errors import FleetError, UsageError
from whylat_fleet.schema import SCHEMA, TABLES, TIME_COLUMN

_NAME = re.compile(r"(?P<host>[A-Za-z0-9_-]+)\.(?P<boot>[0-9a-f]{8})\.(?P<hour>\d\d)(?P<minute>\d\d)?\.parquet")
_PARTITION = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)")
_TYPES = {
    "VARCHAR": "BYTE_ARRAY",
    "BIGINT": "INT64",
    "INTEGER": "INT32",
    "UINTEGER": "INT32",
    "BOOLEAN": "BOOLEAN",
}
SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
ATTEMPTS = 10
"""At reading while agents merge hours: each but the first because a file of the last list had vanished."""


@dataclass(frozen=True, slots=True)
class Window:
    """Whole hours of time, ns since 1970-01-01 UTC: `[begin_ns, end_ns)`."""

    begin_ns: int
    end_ns: int

    @property
    def hours(self) -> list[datetime]:
        """Begin of each hour."""
        count = (self.end_ns - self.begin_ns) // HOUR_NS
        first = datetime.fromtimestamp(self.begin_ns // SECOND_NS, UTC)
        return [first + timedelta(hours=hour) for hour in range(count)]

    @property
    def seconds(self) -> int:
        """Its length, s."""
        return (self.end_ns - self.begin_ns) // SECOND_NS


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that is not read, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class Selection:
    """Files of a window by table, and those that were left out."""

    files: dict[str, list[str]] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    superseded: int = 0
    """Files of minutes that are merged: their rows are read from the hour's file."""


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    hour: datetime
    host: str
    boot: str
    minute: str | None


class Dataset:
    """A dataset directory. Raises `FleetError` when it is none."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if not any((root / table).is_dir() for table in TABLES):
            raise FleetError(
                f"{root} is not a dataset of whylat's agents: it has none of the folders {', '.join(TABLES)}",
                "give the directory that the agents' `target` names (docs/fleet/dataset.md)",
            )

    def hours(self) -> list[datetime]:
        """Hours that have files, of any table, ascending."""
        found = set()
        for table in TABLES:
            for folder in self.root.glob(f"{table}/date=*/hour=*"):
                if match := _PARTITION.search(folder.as_posix()):
                    found.add(datetime.fromisoformat(f"{match[1]}T{match[2]}:00:00+00:00"))
        return sorted(found)

    def window(self, begin: str | None, hours: int, option: str = "--from") -> Window:
        """`hours` hours from `begin` (ISO 8601, a whole UTC hour); without it, the latest that have ended.

        When no hour has ended yet, the running one is taken. `option` is what `begin` was given as.
        """
        if hours < 1:
            raise UsageError(f"a window of {hours} hours holds nothing", "--hours 1 or more")
        if begin is None:
            return self._latest(hours)
        return _window(whole_hour(begin, option), hours)

    def _latest(self, hours: int) -> Window:
        present = self.hours()
        if not present:
            raise FleetError(f"{self.root} holds no hour", "wait until agents have written, or check their `target`")
        now = datetime.fromtimestamp(time.time(), UTC)
        ended = [hour for hour in present if hour + timedelta(hours=1) <= now] or present
        return _window(max(ended[-1] - timedelta(hours=hours - 1), ended[0]), hours)

    def select(self, tables: Iterable[str], window: Window) -> Selection:
        """Files of the window. Reads names and footers, not rows. Every row of an agent that merges meanwhile is in
        exactly one of the files."""
        selection = Selection()
        with duckdb.connect() as connection:
            for table in tables:
                selection.files[table] = self._select(connection, table, window, selection)
        return selection

    def _select(
        self, connection: duckdb.DuckDBPyConnection, table: str, window: Window, selection: Selection
    ) -> list[str]:
        for _ in range(ATTEMPTS):
            part = Selection()
            files = _without_superseded(self._list(table, window, part), part)
            named = len(part.left_out)
            try:
                kept = _consistent(connection, table, _without_copies(files, part), part)
            except (duckdb.Error, OSError):
                if all(file.path.exists() for file in files):
                    raise
                continue
            # one that is neither kept nor named has vanished: its rows are in a file that the list does not have
            if len(kept) + len(part.left_out) - named == len(files):
                selection.left_out += part.left_out
                selection.superseded += part.superseded
                return kept
        raise FleetError(f"{self.root / table}: files vanish while they are listed", "try again when hours are merged")

    def _list(self, table: str, window: Window, selection: Selection) -> list[_File]:
        found = []
        for hour in window.hours:
            for path in _paths(self.root / table / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"):
                match = _NAME.fullmatch(path.name)
                if match is None:
                    selection.left_out.append(LeftOut(str(path), "its name is not one that an agent gives"))
                elif match["hour"] != f"{hour:%H}":
                    selection.left_out.append(LeftOut(str(path), "its name is of another hour than its folder"))
                else:
                    found.append(_File(path, hour, match["host"], match["boot"], match["minute"]))
        return found


def whole_hour(time: str, option: str) -> datetime:
    """A whole hour (UTC), as `option` gives it in ISO 8601. Raises `UsageError`."""
    try:
        first = datetime.fromisoformat(time)
        first = first.replace(tzinfo=first.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {time}: not a time", "write it as 2026-11-24T05:00") from None
    if first.minute or first.second or first.microsecond:
        raise UsageError(f"{option} {time}: windows begin at a whole hour", f"{option} {first:%Y-%m-%dT%H}:00")
    return first


def written_as(host: str) -> str:
    """A host's name in the names of its files."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", host)


def hosts_without(table: str, left_out: Iterable[LeftOut], window: Window) -> set[str]:
    """Hosts, as names of files write them, that lack a file of this table and window as it is left out."""
    folders = {f"{table}/date={hour:%Y-%m-%d}/hour={hour:%H}" for hour in window.hours}
    found = set()
    for path in (Path(one.path) for one in left_out):
        match = _NAME.fullmatch(path.name)
        if match and any(path.parent.as_posix().endswith(f"/{folder}") for folder in folders):
            found.add(match["host"])
    return found


def _paths(folder: Path) -> list[Path]:
    """Files of a folder, but for those that are being written.

    Listed twice: what is added or removed while a folder is read may be missed (POSIX `readdir`), so that of a merge
    both the hour's file and its minutes' could be. The second list has the hour's then, as it was there before it
    began; and of a merge that the second list meets, the first has the minutes'.
    """
    paths = {path for _ in range(2) for path in folder.glob("*")}
    return sorted(path for path in paths if not path.name.startswith(".") and path.suffix != ".tmp")


def _window(first: datetime, hours: int) -> Window:
    begin = int(first.timestamp()) * SECOND_NS
    return Window(begin, begin + hours * HOUR_NS)


def _without_superseded(files: list[_File], selection: Selection) -> list[_File]:
    """An hour's file holds its minutes' rows: those are not read too."""
    merged = {(file.hour, file.host, file.boot) for file in files if file.minute is None}
    kept = [file for file in files if file.minute is None or (file.hour, file.host, file.boot) not in merged]
    selection.superseded += len(files) - len(kept)
    return kept


def _without_copies(files: list[_File], selection: Selection) -> list[_File]:
    """Of files with the same bytes, the first. Only files of the same size are read for it."""
    by_size: dict[int, list[_File]] = defaultdict(list)
    vanished = set()
    for file in files:
        try:
            by_size[file.path.stat().st_size].append(file)
        except FileNotFoundError:
            vanished.add(file.path)
    copies = set()
    for same in by_size.values():
        first: dict[bytes, _File] = {}
        # what two hosts wrote differs in the host's name: only files of one host can be copies by mistake of an agent,
        # but a person may copy any
        tails = Counter(_tail(file.path) for file in same) if len(same) > 1 else Counter()
        for file in same:
            if tails[_tail(file.path)] < 2:
                continue
            digest = hashlib.blake2b(file.path.read_bytes()).digest()
            if (original := first.setdefault(digest, file)) is not file:
                copies.add(file.path)
                selection.left_out.append(LeftOut(str(file.path), f"a copy of {original.path.name}"))
    return [file for file in files if file.path not in copies and file.path not in vanished]


def _tail(path: Path) -> bytes:
    """Last bytes of a file: of a Parquet file, a part of its footer. Empty when it has vanished."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 2048))
            return file.read()
    except FileNotFoundError:
        return b""


@dataclass(frozen=True, slots=True)
class _Footer:
    """Holds a file's footer, as far as it describes the rows."""

    rows: int
    least: int | None
    """Of the column that puts a row into its hour."""
    most: int | None
    columns: frozenset[str]
    """Names and physical types."""


def _consistent(
    connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[_File], selection: Selection
) -> list[str]:
    by_path = {str(file.path): file for file in files}
    footers, reasons = _footers(connection, list(by_path), TIME_COLUMN[table])
    metadata = _metadata(connection, list(footers))
    now_ns = time.time_ns()
    for path, footer in footers.items():
        wrong = _wrong_metadata(metadata[path], footer, by_path[path].host)
        wrong = wrong or _wrong_columns(footer, table) or _wrong_hour(footer, by_path[path].hour, now_ns)
        if wrong:
            reasons[path] = wrong
    selection.left_out += [LeftOut(path, reason) for path, reason in reasons.items() if reason]
    return [path for path in footers if path not in reasons]


def _footers(
    connection: duckdb.DuckDBPyConnection, paths: list[str], time_column: str
) -> tuple[dict[str, _Footer], dict[str, str]]:
    """Footers, in the files' order, and why others cannot be read (empty: vanished, which is nobody's fault)."""
    if not paths:
        return {}, {}
    try:
        rows = connection.execute(
            """SELECT file_name, SUM(num_values) / COUNT(DISTINCT path_in_schema),
                      MIN(TRY_CAST(stats_min_value AS BIGINT)) FILTER (path_in_schema = $2),
                      MAX(TRY_CAST(stats_max_value AS BIGINT)) FILTER (path_in_schema = $2),
                      list(path_in_schema || ' ' || type) FILTER (row_group_id = 0)
               FROM parquet_metadata($1) GROUP BY file_name""",
            [paths, time_column],
        ).fetchall()
        found = {row[0]: _Footer(int(row[1]), row[2], row[3], frozenset(row[4])) for row in rows}
        # a file without rows has no columns there, and nothing to be read
        return {path: found[path] for path in paths if path in found}, {}
    except duckdb.Error as error:
        if len(paths) == 1:
            exists = Path(paths[0]).exists()
            return {}, {paths[0]: f"not a whole Parquet file ({_short(error)})" if exists else ""}
    half = len(paths) // 2
    left, left_reasons = _footers(connection, paths[:half], time_column)
    right, right_reasons = _footers(connection, paths[half:], time_column)
    return left | right, left_reasons | right_reasons


def _short(error: Exception) -> str:
    text = str(error).splitlines()[0]
    return re.sub(r" (of|in) file '[^']*'", "", text.split(": ", 1)[-1])


def _metadata(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> dict[str, dict[str, str]]:
    """Keys and values that the writer put into each file."""
    metadata: dict[str, dict[str, str]] = {path: {} for path in paths}
    if paths:
        rows = connection.execute("SELECT file_name, key, value FROM parquet_kv_metadata($1)", [paths]).fetchall()
        for path, key, value in rows:
            metadata[path][bytes(key).decode(errors="replace")] = bytes(value).decode(errors="replace")
    return metadata


def _wrong_metadata(metadata: dict[str, str], footer: _Footer, host: str) -> str | None:
    schema, writer = metadata.get("whylat.schema"), metadata.get("whylat.host")
    if schema != SCHEMA:
        return f"its schema is {schema or 'missing'}, this version reads {SCHEMA}"
    if metadata.get("whylat.rows") not in (None, str(footer.rows)):
        return f"its metadata says {metadata['whylat.rows']} rows, but it holds {footer.rows}"
    if writer is not None and written_as(writer) != host:
        return f"it was written by {writer}"
    return None


def _wrong_columns(footer: _Footer, table: str) -> str | None:
    lacks = [name for name, kind in TABLES[table].items() if f"{name} {_TYPES[kind]}" not in footer.columns]
    return f"it does not have the column {min(lacks)}" if lacks else None


def _wrong_hour(footer: _Footer, hour: datetime, now_ns: int) -> str | None:
    """Rows of another hour than the folder's, or of the future: a clock was set, or is wrong."""
    if footer.least is None or footer.most is None:
        return None
    begin = int(hour.timestamp()) * SECOND_NS
    if footer.least < begin or footer.most >= begin + HOUR_NS:
        return "it holds rows of another hour than its folder: the host's clock was set, or is wrong"
    if footer.most > now_ns + SECOND_NS:
        return "it holds rows of the future: the host's clock is wrong"
    return None


def unreadable(paths: Sequence[str]) -> dict[str, str]:
    """Returns the files with rows that cannot be read, and the reason; it is empty for a file that has vanished."""

    def broken(connection: duckdb.DuckDBPyConnection, part: Sequence[str]) -> dict[str, str]:
        try:
            # every column's pages must be decoded
            connection.execute("SELECT COUNT(hash(COLUMNS(*))) FROM read_parquet($1)", [list(part)]).fetchall()
            return {}
        except duckdb.Error as error:
            if len(part) == 1:
                exists = Path(part[0]).exists()
                return {part[0]: f"its rows cannot be read ({_short(error)})" if exists else ""}
        half = len(part) // 2
        return broken(connection, part[:half]) | broken(connection, part[half:])

    if not paths:
        return {}
    with duckdb.connect() as connection:
        return broken(connection, paths)
