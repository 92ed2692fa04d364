"""The contract with the agents: names of tables, columns and problems.

The one declaration is `crates/table/src/fleet.rs`; `docs/fleet/tables.md` is made from it, and a test compares the
columns here with that page.
"""

from typing import Final

SCHEMA: Final = "whylat.fleet/1"
"""Value of the Parquet metadata key `whylat.schema`. Another number after the slash must not be read."""

BIN_NS: Final = 2_000_000_000
"""Length of a bin of `fleet_problems`, ns (SNAP section 3.2)."""

PROBLEMS: Final = ("send_buffer", "fast_retransmit", "timeout", "delayed_ack", "receiver_window")
"""SNAP's five (section 2.3, footnote 4), in the order of the vectors."""

LOSS: Final = ("fast_retransmit", "timeout")
"""Problems that the loss of packets makes: one of them is taken for the other."""

TITLES: Final = {
    "send_buffer": "send buffer limited",
    "fast_retransmit": "fast retransmission",
    "timeout": "timeout",
    "delayed_ack": "delayed ACK",
    "receiver_window": "receiver window limited",
}
"""Problems as people say them (SNAP Table 2)."""

SIZES: Final = ("to_64", "to_512", "to_4k", "to_32k", "to_256k", "over_256k")
"""Classes of the sizes of calls in `fleet_intervals`."""

_CALLS = [
    (f"{call}{suffix}", "BIGINT")
    for call, bytes_ in (("writes", "written_bytes"), ("reads", "read_bytes"))
    for suffix in ("", *(f"_{size}" for size in SIZES))
]
_CALLS.insert(1, ("written_bytes", "BIGINT"))
_CALLS.insert(9, ("read_bytes", "BIGINT"))

TABLES: Final[dict[str, dict[str, str]]] = {
    "fleet_problems": {
        "host": "VARCHAR",
        "conn_id": "BIGINT",
        "begin_ns": "BIGINT",
        "send_buffer_us": "INTEGER",
        "fast_retransmit_us": "INTEGER",
        "timeout_us": "INTEGER",
        "delayed_ack_us": "INTEGER",
        "receiver_window_us": "INTEGER",
        "sender_app_us": "INTEGER",
    },
    "fleet_intervals": {
        "host": "VARCHAR",
        "conn_id": "BIGINT",
        "begin_ns": "BIGINT",
        "length_us": "BIGINT",
        "verdict": "VARCHAR",
        "send_buffer_us": "BIGINT",
        "fast_retransmit_us": "BIGINT",
        "timeout_us": "BIGINT",
        "delayed_ack_us": "BIGINT",
        "receiver_window_us": "BIGINT",
        "no_flag_us": "BIGINT",
        "acked_bytes": "BIGINT",
        "received_bytes": "BIGINT",
        "segs_out": "BIGINT",
        "retrans": "BIGINT",
        "timeouts": "BIGINT",
        "srtt_us": "INTEGER",
        "min_rtt_us": "INTEGER",
        "cwnd_segs": "INTEGER",
        "snd_wnd_bytes": "BIGINT",
        "max_send_queue_bytes": "BIGINT",
        "polls": "INTEGER",
        "poll_gap_us": "BIGINT",
        **dict(_CALLS),
    },
    "fleet_connections": {
        "host": "VARCHAR",
        "conn_id": "BIGINT",
        "time_ns": "BIGINT",
        "netns": "UINTEGER",
        "local_address": "VARCHAR",
        "local_port": "INTEGER",
        "peer_address": "VARCHAR",
        "peer_port": "INTEGER",
        "role": "VARCHAR",
        "process": "VARCHAR",
        "pid": "INTEGER",
        "app": "VARCHAR",
        "tier": "VARCHAR",
        "delay_sensitive": "BOOLEAN",
        "first_ns": "BIGINT",
        "opened_ns": "BIGINT",
        "closed_ns": "BIGINT",
        "congestion": "VARCHAR",
        "nodelay": "BOOLEAN",
        "sndbuf_bytes": "BIGINT",
        "rcvbuf_bytes": "BIGINT",
        "watched_us": "BIGINT",
        "send_buffer_us": "BIGINT",
        "congestion_us": "BIGINT",
        "delayed_ack_us": "BIGINT",
        "receiver_window_us": "BIGINT",
        "no_flag_us": "BIGINT",
        "acked_bytes": "BIGINT",
        "received_bytes": "BIGINT",
        "retrans": "BIGINT",
        "timeouts": "BIGINT",
    },
    "fleet_coverage": {
        "host": "VARCHAR",
        "begin_ns": "BIGINT",
        "length_us": "BIGINT",
        "boot_id": "VARCHAR",
        "agent": "VARCHAR",
        "kernel": "VARCHAR",
        "detail": "VARCHAR",
        "connections": "BIGINT",
        "polled": "BIGINT",
        "polls": "BIGINT",
        "poll_interval_us": "BIGINT",
        "poll_gap_us": "BIGINT",
        "cpu_us": "BIGINT",
        "bpf_us": "BIGINT",
        "rss_bytes": "BIGINT",
        "lost": "BIGINT",
        "rows": "BIGINT",
        "spooled_files": "BIGINT",
        "dropped_files": "BIGINT",
        "clock_error_us": "BIGINT",
        "lacks": "VARCHAR",
        "details_left_out": "BIGINT",
        "connections_left_out": "BIGINT",
    },
    "fleet_details": {
        "host": "VARCHAR",
        "conn_id": "BIGINT",
        "time_ns": "BIGINT",
        "length_us": "BIGINT",
        "stage": "VARCHAR",
        "writes": "BIGINT",
        "written_bytes": "BIGINT",
        "reads": "BIGINT",
        "read_bytes": "BIGINT",
        "acked_bytes": "BIGINT",
        "received_bytes": "BIGINT",
        "retrans": "BIGINT",
        "timeouts": "BIGINT",
        "send_queue_bytes": "BIGINT",
        "unacked_segs": "BIGINT",
        "cwnd_segs": "INTEGER",
        "snd_wnd_bytes": "BIGINT",
        "srtt_us": "INTEGER",
    },
}
"""Columns of each table that are read, with their SQL types, in order."""

ADDED: Final = {
    "fleet_connections": {
        "pod_namespace": "VARCHAR",
        "pod": "VARCHAR",
        "container": "VARCHAR",
        "workload": "VARCHAR",
        "workload_kind": "VARCHAR",
        "workload_source": "VARCHAR",
    },
}
"""Columns that agents write and nothing here reads: they are for queries of users. Files of older agents lack them."""

CORRELATED: Final = ("fleet_problems", "fleet_intervals", "fleet_connections", "fleet_coverage")
"""The tables that `correlate` reads: `fleet_details` is for a look at single connections."""

TIME_COLUMN: Final = {
    "fleet_problems": "begin_ns",
    "fleet_intervals": "begin_ns",
    "fleet_connections": "time_ns",
    "fleet_coverage": "begin_ns",
    "fleet_details": "time_ns",
}
"""The column that puts a row into its hour."""


def are_alike(one: str, other: str) -> bool:
    """Returns whether two problems go together: the same, or both of lost packets."""
    return one == other or {one, other} <= set(LOSS)
