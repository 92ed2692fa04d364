"""Writes a simulated data centre as its agents would have: files, names, metadata and columns of the dataset.

`fleet_intervals` rows are written only where a planted culprit struck and in the interval before, to keep the dataset
small; agents write one for every connection that did something. `fleet_details` too is there for some of the planted
problems only.
"""

import json
import multiprocessing
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path

import duckdb
import numpy as np
import pyarrow
from pyarrow import parquet

from whylat_fleet import topology
from whylat_fleet.dataset import HOUR_NS, SECOND_NS
from whylat_fleet.schema import BIN_NS, SCHEMA, TABLES
from whylat_fleet.simulate import details
from whylat_fleet.simulate.layout import SENSITIVE_SHARE, Center, Ints, host_name
from whylat_fleet.simulate.plants import PlantTruth
from whylat_fleet.simulate.problems import Cells

BINS_PER_HOUR = HOUR_NS // BIN_NS
POLL_US = 500_000
"""SNAP section 3.2."""
INTERVAL_US = 10_000_000
HOSTS_AT_ONCE = 100
"""Of a query."""
HOSTS_IN_MEMORY = 500
"""Of a writer: 1.5 GB at 150 connections a host."""
HOST_NAME = "format('h{{:05}}', host)"
"""As `host_name`, in SQL."""
BUSY_US = 50_000
"""Assumed mean time of a bin in which a connection that is not idle sends nothing."""

_SOCKETS = """
CREATE TABLE sockets AS
SELECT s.socket, s.host, s.conn_id, s.peer, s.app, s.socket % 2 = 0 AS client,
    20000 + (s.socket // 2) % 40000 AS client_port, 8000 + t.app_of_server AS server_port
FROM sockets_in AS s JOIN servers_in AS t ON s.socket = t.socket ORDER BY s.host, s.conn_id
"""
_CELLS = """
CREATE TABLE cells AS
SELECT s.host, s.conn_id, c.bin, s.socket, COALESCE(MAX(c.us) FILTER (c.problem = 0), 0) AS x0,
    COALESCE(MAX(c.us) FILTER (c.problem = 1), 0) AS x1, COALESCE(MAX(c.us) FILTER (c.problem = 2), 0) AS x2,
    COALESCE(MAX(c.us) FILTER (c.problem = 3), 0) AS x3, COALESCE(MAX(c.us) FILTER (c.problem = 4), 0) AS x4,
    MAX(c.us) FILTER (c.problem = 5) AS idle, BOOL_OR(c.planted) AS planted
FROM cells_in AS c JOIN sockets AS s ON c.socket = s.socket
GROUP BY s.host, s.conn_id, c.bin, s.socket ORDER BY s.host, c.bin, s.conn_id
"""
_TOTALS = """
CREATE TABLE totals AS
SELECT s.*, COALESCE(t.x0, 0) AS x0, COALESCE(t.xc, 0) AS xc, COALESCE(t.x3, 0) AS x3, COALESCE(t.x4, 0) AS x4,
    COALESCE(t.fast, 0) AS fast, COALESCE(t.rto, 0) AS rto
FROM sockets AS s LEFT JOIN (
    SELECT socket, SUM(x0) AS x0, SUM(GREATEST(x1, x2)) AS xc, SUM(x3) AS x3, SUM(x4) AS x4,
        SUM(CASE WHEN x1 > 0 THEN 1 ELSE 0 END) AS fast, SUM(CASE WHEN x2 > 0 THEN 1 ELSE 0 END) AS rto
    FROM cells GROUP BY socket
) AS t ON s.socket = t.socket ORDER BY s.host, s.conn_id
"""
_INTERVALS = """
CREATE TABLE intervals AS
SELECT host, conn_id, slot, SUM(x0) AS x0, SUM(x1) AS x1, SUM(x2) AS x2, SUM(x3) AS x3, SUM(x4) AS x4,
    SUM(CASE WHEN x1 > 0 THEN 1 ELSE 0 END) AS fast, SUM(CASE WHEN x2 > 0 THEN 1 ELSE 0 END) AS rto
FROM (
    SELECT host, conn_id, bin // 5 AS slot, x0, x1, x2, x3, x4 FROM cells WHERE planted
    UNION ALL
    SELECT DISTINCT host, conn_id, bin // 5 - 1, 0, 0, 0, 0, 0 FROM cells WHERE planted AND bin >= 5
) GROUP BY host, conn_id, slot ORDER BY host, slot, conn_id
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of a writer beside its tables."""

    out: Path
    begin_ns: int
    hours: int


def dataset(out: Path, center: Center, background: Cells, planted: list[PlantTruth], begin_ns: int, hours: int) -> None:
    """Writes everything into `out`, which must not exist yet, on two processors or more if there are."""
    random = center.random
    center.conn_id = random.permutation(
        np.unique(random.integers(-(2**63), 2**63, center.sockets + 1000, dtype=np.int64))
    )[: center.sockets]
    plan = Plan(out, begin_ns, hours)
    _folders(plan)
    workers = min(multiprocessing.cpu_count(), max(1, center.hosts // 100))
    bounds = np.linspace(0, center.hosts, workers + 1).astype(int)
    parts = [(plan, center, background, planted, int(a), int(b)) for a, b in pairwise(bounds)]
    if workers == 1:
        _write_parts(*parts[0])
    else:
        # the arrays are inherited, not copied
        children = [multiprocessing.get_context("fork").Process(target=_write_parts, args=part) for part in parts]
        for child in children:
            child.start()
        for child in children:
            child.join()
        if any(child.exitcode for child in children):
            shutil.rmtree(out, ignore_errors=True)
            raise OSError(f"{out}: a writer failed, see above")
    topology.write(center.topology(), out / "topology.json")
    truth = {"schema": "whylat.fleet-truth/1", "planted": [plant.truth.as_json() for plant in planted]}
    (out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")


def _folders(plan: Plan) -> None:
    for table in TABLES:
        for hour in range(plan.hours):
            _folder(plan, table, hour).mkdir(parents=True)


def _folder(plan: Plan, table: str, hour: int) -> Path:
    time = datetime.fromtimestamp(plan.begin_ns // SECOND_NS, UTC) + timedelta(hours=hour)
    return plan.out / table / f"date={time:%Y-%m-%d}" / f"hour={time:%H}"


def _write_parts(
    plan: Plan, center: Center, background: Cells, planted: list[PlantTruth], first: int, last: int
) -> None:
    # what lies in memory at once does not grow with the data centre
    for begin in range(first, last, HOSTS_IN_MEMORY):
        _write_part(plan, center, background, planted, begin, min(begin + HOSTS_IN_MEMORY, last))


def _write_part(
    plan: Plan, center: Center, background: Cells, planted: list[PlantTruth], first: int, last: int
) -> None:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    _tables(connection, center, background, planted, first, last)
    boots = np.random.default_rng(first).integers(0, 2**32, last - first)
    connection.register("boots_in", {"host": np.arange(first, last), "boot": boots.astype(np.int64)})
    connection.execute("CREATE TABLE boots AS SELECT * FROM boots_in")
    texts = {table: _query(table, plan) for table in TABLES}
    # one query for many hosts: a query for each of their files takes longer than writing it
    for begin in range(first, last, HOSTS_AT_ONCE):
        end = min(begin + HOSTS_AT_ONCE, last)
        for hour, (table, sql) in product(range(plan.hours), texts.items()):
            rows = connection.sql(sql.format(first=begin, last=end, hour=hour)).to_arrow_table()
            _files(rows, _folder(plan, table, hour), boots[begin - first : end - first], begin)
    connection.close()


def _files(rows: pyarrow.Table, folder: Path, boots: Ints, first: int) -> None:
    """Writes the file of each host that has rows; `rows` are in the order of hosts, by `host_no`."""
    edges = np.searchsorted(rows.column("host_no").to_numpy(), np.arange(first, first + len(boots) + 1))
    columns = rows.drop_columns(["host_no"])
    for index, (begin, end) in enumerate(pairwise(edges.tolist())):
        if begin == end:
            continue
        name = host_name(first + index)
        metadata = {"whylat.schema": SCHEMA, "whylat.rows": str(end - begin), "whylat.host": name}
        path = folder / f"{name}.{boots[index]:08x}.{folder.name[5:]}.parquet"
        with parquet.ParquetWriter(path, columns.schema, compression="zstd", store_schema=False) as writer:
            writer.write_table(columns.slice(begin, end - begin))
            writer.add_key_value_metadata(metadata)


def _tables(
    connection: duckdb.DuckDBPyConnection,
    center: Center,
    background: Cells,
    planted: list[PlantTruth],
    first: int,
    last: int,
) -> None:
    here = (center.host >= first) & (center.host < last)
    numbers = np.flatnonzero(here)
    server_app = center.app.reshape(-1, 2)[:, 1]
    connection.register(
        "sockets_in",
        {
            "socket": numbers,
            "host": center.host[numbers],
            "conn_id": center.conn_id[numbers],
            "peer": center.peer[numbers],
            "app": center.app[numbers],
        },
    )
    connection.register("servers_in", {"socket": numbers, "app_of_server": server_app[numbers // 2]})
    connection.execute(_SOCKETS)
    connection.register("cells_in", cells_of(here, background, planted))
    connection.execute(_CELLS)
    connection.execute(_TOTALS)
    connection.execute(_INTERVALS)
    connection.register("detailed_in", {"socket": details.detailed(here, planted)})
    connection.execute(details.DETAILS)


def cells_of(here: np.ndarray, background: Cells, planted: list[PlantTruth]) -> dict[str, np.ndarray]:
    """Cells of the sockets that are here; problem number 5 is 'nothing to send', of pipelines."""
    parts = [(background, False)] + [(cells, True) for plant in planted for cells in plant.cells]
    for plant in planted:
        for sockets, bins in plant.idle:
            parts += [(cells, True) for cells in _idle(sockets, bins, plant)]
    chosen = [(part, mark, here[part.socket]) for part, mark in parts]
    return {
        "socket": np.concatenate([part.socket[keep] for part, _, keep in chosen]),
        "bin": np.concatenate([part.bin[keep] for part, _, keep in chosen]),
        "problem": np.concatenate([part.problem[keep] for part, _, keep in chosen]),
        "us": np.concatenate([part.us[keep] for part, _, keep in chosen]),
        "planted": np.concatenate([np.full(int(keep.sum()), mark) for _, mark, keep in chosen]),
    }


def _idle(asks: Ints, bins: Ints, plant: PlantTruth) -> list[Cells]:
    """Rows of the other connections of a pipeline's process: around each problem they are written too."""
    answers = np.unique(np.concatenate([cells.socket for cells in plant.cells]))
    struck = np.unique(np.concatenate([cells.bin for cells in plant.cells]))
    near = np.unique(np.clip(np.concatenate([struck - 1, struck, struck + 1]), 0, None))
    everyone = np.unique(np.concatenate([answers, asks]))
    sockets, times = np.repeat(everyone, len(near)), np.tile(near, len(everyone))
    random = np.random.default_rng(int(asks[0]))
    quiet = random.exponential(BUSY_US, len(sockets)).astype(np.int64)
    waits = random.integers(800_000, 2_000_000, len(asks))
    return [
        Cells(sockets, times, np.full(len(sockets), 5), np.minimum(quiet, 2_000_000)),
        Cells(asks, bins, np.full(len(asks), 5), waits),
    ]


def _query(table: str, plan: Plan) -> str:
    """The rows of the hosts from `{first}` to `{last}` in an hour `{hour}`, in order."""
    hour_begin = f"({plan.begin_ns} + {{hour}} * {HOUR_NS})"
    return {
        "fleet_problems": _problems(plan),
        "fleet_intervals": _intervals(plan),
        "fleet_connections": _connections(plan, hour_begin),
        "fleet_coverage": _coverage(hour_begin),
        "fleet_details": _details(plan),
    }[table]


def _columns(table: str, values: dict[str, str], default: str) -> str:
    columns = (f'CAST({values.get(name, default)} AS {kind}) AS "{name}"' for name, kind in TABLES[table].items())
    return ", ".join(["host AS host_no", *columns])


def _problems(plan: Plan) -> str:
    values = {
        "host": HOST_NAME,
        "conn_id": "conn_id",
        "begin_ns": f"{plan.begin_ns} + bin * {BIN_NS}",
        "send_buffer_us": "x0",
        "fast_retransmit_us": "x1",
        "timeout_us": "x2",
        "delayed_ack_us": "x3",
        "receiver_window_us": "x4",
        "sender_app_us": "COALESCE(idle, GREATEST(0, 2000000 - x0 - x1 - x2 - x3 - x4) // 2)",
    }
    return (
        f"SELECT {_columns('fleet_problems', values, 'NULL')} FROM cells WHERE host >= {{first}} AND host < {{last}} "
        f"AND bin >= {{hour}} * {BINS_PER_HOUR} AND bin < ({{hour}} + 1) * {BINS_PER_HOUR}"
    )


def _intervals(plan: Plan) -> str:
    most = "GREATEST(x0, x1, x2, x3, x4)"
    values = {
        "host": HOST_NAME,
        "conn_id": "conn_id",
        "begin_ns": f"{plan.begin_ns} + slot * {INTERVAL_US * 1000}",
        "length_us": str(INTERVAL_US),
        "verdict": f"CASE WHEN {most} = 0 THEN NULL WHEN x2 = {most} THEN 'retransmit_timeout' WHEN x1 = {most} THEN "
        f"'fast_retransmit' WHEN x0 = {most} THEN 'send_buffer' WHEN x3 = {most} THEN 'delayed_ack' "
        "ELSE 'receiver_window' END",
        "send_buffer_us": "x0",
        "fast_retransmit_us": "x1",
        "timeout_us": "x2",
        "delayed_ack_us": "x3",
        "receiver_window_us": "x4",
        "no_flag_us": f"GREATEST(0, {INTERVAL_US} - x0 - x1 - x2 - x3 - x4)",
        "retrans": "fast + rto",
        "timeouts": "rto",
        "segs_out": "2000 + fast + rto",
        "acked_bytes": "2896000",
        "srtt_us": "300",
        "min_rtt_us": "120",
        "cwnd_segs": "CASE WHEN rto > 0 THEN 2 WHEN fast > 0 THEN 7 ELSE 64 END",
        "snd_wnd_bytes": "CASE WHEN x4 > 0 THEN 4 ELSE 65536 END",
        "polls": "20",
        "poll_gap_us": "750000",
        "writes": "200",
        "written_bytes": "2896000",
        "writes_to_32k": "200",
    }
    return (
        f"SELECT {_columns('fleet_intervals', values, '0')} FROM intervals WHERE host >= {{first}} AND host < {{last}} "
        f"AND slot >= {{hour}} * 360 AND slot < ({{hour}} + 1) * 360"
    )


def _connections(plan: Plan, hour_begin: str) -> str:
    watched = plan.hours * 3_600_000_000
    own = "'10.' || ({0} >> 16) || '.' || (({0} >> 8) & 255) || '.' || ({0} & 255)"
    values = {
        "host": HOST_NAME,
        "conn_id": "conn_id",
        "time_ns": f"{hour_begin} + {HOUR_NS - 1}",
        "netns": "4026531840",
        "local_address": own.format("host").replace("{", "{{").replace("}", "}}"),
        "local_port": "CASE WHEN client THEN client_port ELSE server_port END",
        "peer_address": own.format("peer"),
        "peer_port": "CASE WHEN client THEN server_port ELSE client_port END",
        "role": "CASE WHEN client THEN 'client' ELSE 'server' END",
        "process": "format('proc-{{:03d}}', app)",
        "pid": "1000 + app",
        "app": "format('app-{{:03d}}', app)",
        "tier": "CASE WHEN client THEN 'front' ELSE 'back' END",
        "delay_sensitive": f"(app * 37) % 100 < {100 * SENSITIVE_SHARE:.0f}",
        "first_ns": str(plan.begin_ns - HOUR_NS),
        "congestion": "'cubic'",
        "nodelay": "true",
        "sndbuf_bytes": "87040",
        "rcvbuf_bytes": "131072",
        "watched_us": str(watched),
        "send_buffer_us": "x0",
        "congestion_us": "xc",
        "delayed_ack_us": "x3",
        "receiver_window_us": "x4",
        "no_flag_us": f"GREATEST(0, {watched} - x0 - xc - x3 - x4)",
        "acked_bytes": "conn_id & 1073741823",
        "received_bytes": "(conn_id >> 20) & 1073741823",
        "retrans": "fast + rto",
        "timeouts": "rto",
    }
    columns = _columns("fleet_connections", values, "NULL")
    return f"SELECT {columns} FROM totals WHERE host >= {{first}} AND host < {{last}}"


def _coverage(hour_begin: str) -> str:
    values = {
        "host": HOST_NAME,
        "begin_ns": f"{hour_begin} + minute * {60 * SECOND_NS}",
        "length_us": "60000000",
        "boot_id": "format('{{:08x}}-0000-4000-8000-000000000000', boot)",
        "agent": "'simulated'",
        "kernel": "'6.12.0'",
        "detail": "'calls'",
        "connections": "n",
        "polled": "n",
        "polls": f"n * {60_000_000 // POLL_US}",
        "poll_interval_us": str(POLL_US),
        "poll_gap_us": "750000",
        "cpu_us": "n * 40 + 200000",
        "rss_bytes": "50000000",
        "clock_error_us": "2000",
        "lacks": "NULL",
        "bpf_us": "n * 10",
    }
    return (
        f"SELECT {_columns('fleet_coverage', values, '0')} FROM range(60) AS r(minute), "
        "(SELECT b.host, b.boot, COUNT(s.socket) AS n FROM boots AS b LEFT JOIN sockets AS s ON b.host = s.host "
        "WHERE b.host >= {first} AND b.host < {last} GROUP BY b.host, b.boot) AS c ORDER BY host_no, minute"
    )


def _details(plan: Plan) -> str:
    values = details.values(plan.begin_ns, BIN_NS)
    return (
        f"SELECT {_columns('fleet_details', values, '0')} FROM details WHERE host >= {{first}} AND host < {{last}} "
        f"AND bin >= {{hour}} * {BINS_PER_HOUR} AND bin < ({{hour}} + 1) * {BINS_PER_HOUR} "
        "ORDER BY host_no, time_ns, conn_id"
    )
