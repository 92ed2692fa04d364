"""Readings near planted problems, as agents write them into `fleet_details`.

Bounded, as no plant needs more to be examined: of each plant `CONNECTIONS` connections, of each of these its `WORST`
bins and their neighbours. What a reading shows follows from the problem alone; no socket has ever been read.
"""

import numpy as np

from whylat_fleet.simulate.layout import Ints
from whylat_fleet.simulate.plants import PlantTruth

CONNECTIONS = 2000
WORST = 3

DETAILS = f"""
CREATE TABLE details AS
WITH struck AS (
    SELECT c.host, c.conn_id, c.socket, c.bin,
        ROW_NUMBER() OVER (PARTITION BY c.socket ORDER BY c.x0 + c.x1 + c.x2 + c.x3 + c.x4 DESC, c.bin) AS place
    FROM cells AS c JOIN detailed_in AS d ON c.socket = d.socket
    WHERE c.planted AND c.x0 + c.x1 + c.x2 + c.x3 + c.x4 > 0
), near AS (
    SELECT DISTINCT s.host, s.conn_id, s.socket, s.bin + r.side AS bin
    FROM struck AS s, range(-1, 2) AS r(side) WHERE s.place <= {WORST}
)
SELECT n.host, n.conn_id, n.bin, r.reading, CASE
    WHEN c.socket IS NULL OR r.reading * 500000 >= GREATEST(c.x0, c.x1, c.x2, c.x3, c.x4)
        THEN CASE WHEN c.idle > r.reading * 500000 THEN 'sender_app' ELSE 'in_flight' END
    WHEN c.x2 = GREATEST(c.x0, c.x1, c.x2, c.x3, c.x4) THEN 'retransmit_timeout'
    WHEN c.x1 = GREATEST(c.x0, c.x1, c.x2, c.x3, c.x4) THEN 'fast_retransmit'
    WHEN c.x0 = GREATEST(c.x0, c.x1, c.x2, c.x3, c.x4) THEN 'send_buffer'
    WHEN c.x3 = GREATEST(c.x0, c.x1, c.x2, c.x3, c.x4) THEN 'delayed_ack' ELSE 'receiver_window' END AS stage
FROM near AS n LEFT JOIN cells AS c ON n.socket = c.socket AND n.bin = c.bin, range(4) AS r(reading)
WHERE n.bin >= 0 ORDER BY n.host, n.bin, r.reading, n.conn_id
"""


def detailed(here: np.ndarray, planted: list[PlantTruth]) -> Ints:
    """Sockets of `here` with readings in the dataset."""
    chosen = [np.unique(np.concatenate([cells.socket for cells in plant.cells]))[:CONNECTIONS] for plant in planted]
    sockets = np.unique(np.concatenate([np.zeros(0, np.int64), *chosen]))
    chosen_here: Ints = sockets[here[sockets]]
    return chosen_here


def values(begin_ns: int, bin_ns: int) -> dict[str, str]:
    """Columns of `fleet_details` in SQL, of a row of `details`."""
    calls = {"send_buffer": 4, "receiver_window": 1, "delayed_ack": 1, "fast_retransmit": 6}
    writes = _by_stage(calls | {"retransmit_timeout": 0, "sender_app": 0}, 10)
    queue = {"send_buffer": 87040, "receiver_window": 43440, "fast_retransmit": 43440, "retransmit_timeout": 28960}
    unacked = {"send_buffer": 28, "fast_retransmit": 6, "retransmit_timeout": 1, "delayed_ack": 1, "receiver_window": 1}
    return {
        "host": "format('h{{:05}}', host)",
        "conn_id": "conn_id",
        # readings of different connections are taken at different times
        "time_ns": f"{begin_ns} + bin * {bin_ns} + reading * 500000000 + (conn_id & 255) * 1000000",
        "length_us": "500000",
        "stage": "stage",
        "writes": writes,
        "written_bytes": f"14480 * {writes}",
        "acked_bytes": f"14480 * {writes}",
        "retrans": _by_stage({"fast_retransmit": 1, "retransmit_timeout": 1}, 0),
        "timeouts": _by_stage({"retransmit_timeout": 1}, 0),
        "send_queue_bytes": _by_stage(queue | {"sender_app": 0}, 2896),
        "unacked_segs": _by_stage(unacked | {"sender_app": 0}, 2),
        "cwnd_segs": _by_stage({"fast_retransmit": 7, "retransmit_timeout": 1}, 64),
        "snd_wnd_bytes": _by_stage({"receiver_window": 4}, 65536),
        "srtt_us": _by_stage({"delayed_ack": 40300}, 300),
    }


def _by_stage(numbers: dict[str, int], other: int) -> str:
    cases = " ".join(f"WHEN '{stage}' THEN {number}" for stage, number in numbers.items())
    return f"CASE stage {cases} ELSE {other} END"
