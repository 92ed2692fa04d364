"""A dataset of a few hosts with all that agents may write: nulls, several rows of a connection, hostile names."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from whylat_fleet.dataset import HOUR_NS, SECOND_NS
from whylat_fleet.schema import ADDED, BIN_NS, SCHEMA, SIZES, TABLES

# 2026-11-23 05:00 UTC
BEGIN_NS = 1_795_410_000 * SECOND_NS
BEGIN = "2026-11-23T05:00"
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e"
HOSTS = [*(f"host-{number:02}" for number in range(11)), f"z{HOSTILE}"]
BINS = HOUR_NS // BIN_NS

Row = dict[str, Any]


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """DuckDB takes longer to open than to write a file."""
    return duckdb.connect()


def write(
    root: Path,
    table: str,
    host: str,
    rows: list[Row],
    hour: int = 0,
    minute: int | None = None,
    added: bool = False,
) -> Path:
    """A file as an agent writes it, with the added columns if it is new; columns that a row does not name are null."""
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "-" for letter in host)
    stamp = f"{5 + hour:02}" if minute is None else f"{5 + hour:02}{minute:02}"
    path = root / table / "date=2026-11-23" / f"hour={5 + hour:02}" / f"{name}.0badcafe.{stamp}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = TABLES[table] | (ADDED.get(table, {}) if added else {})
    lists = ", ".join(
        f'unnest(${place}::{kind}[]) AS "{column}"' for place, (column, kind) in enumerate(columns.items(), 1)
    )
    connection = _database()
    connection.execute(
        f"CREATE OR REPLACE TABLE part AS SELECT {lists}", [[row.get(column) for row in rows] for column in columns]
    )
    ours = host.replace("'", "''")
    connection.execute(
        f"COPY part TO '{path}.tmp' (FORMAT parquet, KV_METADATA "
        f"{{'whylat.schema': '{SCHEMA}', 'whylat.rows': '{len(rows)}', 'whylat.host': '{ours}'}})"
    )
    Path(f"{path}.tmp").rename(path)
    return path


def dataset(root: Path, seed: int = 1) -> dict[str, list[Row]]:
    """Writes all tables of an hour and the first totals of the next; returns the rows."""
    generator = random.Random(seed)
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    for number, host in enumerate(HOSTS):
        of_host = _host(generator, host, number)
        for table, mine in of_host.items():
            rows[table] += mine
            time = "time_ns" if table in ("fleet_connections", "fleet_details") else "begin_ns"
            for hour in (0, 1):
                part = [row for row in mine if (row[time] - BEGIN_NS) // HOUR_NS == hour]
                if part:
                    write(root, table, host, part, hour)
    return rows


def _host(generator: random.Random, host: str, number: int) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    calls = number != 3
    for place in range(24 + number):
        conn = generator.randrange(-(2**63), 2**63)
        app = (None, "shop", "search", HOSTILE, "mail")[place % 5]
        _connection(generator, rows, host, conn, app, calls, number)
    for minute in range(60 if number != 5 else 30):
        rows["fleet_coverage"].append(
            {
                "host": host, "begin_ns": BEGIN_NS + minute * 60 * SECOND_NS, "length_us": 60_000_000,
                "boot_id": "b", "agent": "0.1", "kernel": "6.12", "detail": "calls" if calls else "stats",
                "connections": generator.randrange(1, 400), "polled": 1, "polls": generator.randrange(1000),
                "poll_interval_us": 500_000, "poll_gap_us": 900_000, "cpu_us": generator.randrange(900_000),
                "bpf_us": generator.randrange(9000) if calls else None, "rss_bytes": generator.randrange(10**8),
                "lost": int(number == 7), "rows": 9, "spooled_files": 0, "dropped_files": minute if number == 8 else 0,
                "clock_error_us": 2000,
            }
        )  # fmt: skip
    return rows


def _connection(
    generator: random.Random,
    rows: dict[str, list[Row]],
    host: str,
    conn: int,
    app: str | None,
    calls: bool,
    number: int,
) -> None:
    first = BEGIN_NS + generator.randrange(-HOUR_NS, HOUR_NS // 2)
    closed = generator.choice([None, None, BEGIN_NS + HOUR_NS * 3 // 4])
    common = {
        "host": host, "conn_id": conn, "netns": 1, "local_address": f"10.0.0.{number}", "local_port": 80,
        "peer_address": f"10.0.0.{generator.randrange(12)}", "peer_port": generator.randrange(1024, 65536),
        "role": "server", "process": generator.choice([None, HOSTILE, "nginx"]), "pid": 7, "app": app, "tier": None,
        "delay_sensitive": None if app is None else app == "shop", "first_ns": first,
    }  # fmt: skip
    for step in range(generator.randrange(1, 4)):
        watched = generator.choice([0, 10**9, 3 * 10**9])
        parts = [int(watched * generator.choice([0, 0, 0, 0.01, 0.26, 0.5, 0.8, 1])) for _ in range(5)]
        end = closed if step == 2 else None
        # the totals of an hour are written at the start of the next; what comes later is of another window
        times = [generator.randrange(HOUR_NS), HOUR_NS + 10, HOUR_NS + 200 * SECOND_NS]
        time = BEGIN_NS + (generator.choice(times) if step else times[0])
        rows["fleet_connections"].append(
            {
                **common, "time_ns": time + step, "closed_ns": end, "watched_us": watched, "send_buffer_us": parts[0],
                "congestion_us": parts[1], "delayed_ack_us": parts[2] if calls else None,
                "receiver_window_us": parts[3], "no_flag_us": parts[4], "acked_bytes": 1, "received_bytes": 1,
                "retrans": 1, "timeouts": None if number == 2 else 1,
            }
        )  # fmt: skip
    for _ in range(generator.randrange(12)):
        length = generator.choice([10_000_000, 1_000_000])
        sizes = [generator.choice([0, 0, 1, 5, 90]) for _ in SIZES]
        lost = generator.choice([0, 0, 0, 1, 7])
        row: Row = {
            "host": host, "conn_id": conn, "begin_ns": BEGIN_NS + generator.randrange(HOUR_NS), "length_us": length,
            "send_buffer_us": 0, "fast_retransmit_us": 0, "timeout_us": 0, "receiver_window_us": 0, "no_flag_us": 0,
            "acked_bytes": generator.choice([0, 999, 10**5, 10**7, 10**9]), "received_bytes": 0,
            "segs_out": generator.randrange(lost, 2000), "retrans": lost, "cwnd_segs": 10, "max_send_queue_bytes": 0,
            "timeouts": None if number == 2 else generator.randrange(lost + 3), "polls": 3, "poll_gap_us": 1,
        }  # fmt: skip
        if calls:
            row |= {
                "writes": sum(sizes),
                "written_bytes": 1,
                **dict(zip((f"writes_{s}" for s in SIZES), sizes, strict=True)),
            }
        rows["fleet_intervals"].append(row)
    _problems(generator, rows, host, conn, calls)


def _problems(generator: random.Random, rows: dict[str, list[Row]], host: str, conn: int, calls: bool) -> None:
    names = ("send_buffer_us", "fast_retransmit_us", "timeout_us", "delayed_ack_us", "receiver_window_us")
    for bin_ in sorted(generator.sample(range(BINS), generator.randrange(20))):
        begin = BEGIN_NS + bin_ * BIN_NS
        us = {name: generator.choice([0, 0, generator.randrange(2_000_000)]) for name in names}
        rows["fleet_problems"].append(
            {"host": host, "conn_id": conn, "begin_ns": begin, **us}
            | ({"sender_app_us": 0} if calls else {"delayed_ack_us": None})
        )
        for reading in range(4):
            rows["fleet_details"].append(
                {
                    "host": host, "conn_id": conn, "time_ns": begin + reading * SECOND_NS // 2, "length_us": 500_000,
                    "stage": "send_buffer" if calls else None, "writes": 3 if calls else None, "acked_bytes": 1,
                    "written_bytes": 4321 if calls else None, "received_bytes": 1, "retrans": reading, "timeouts": 0,
                    "send_queue_bytes": 99, "unacked_segs": 2, "cwnd_segs": 10, "snd_wnd_bytes": 65536, "srtt_us": 250,
                }
            )  # fmt: skip
