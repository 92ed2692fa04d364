-- Retransmissions over time (SNAP figure 4). `fast` are those that no timeout began. A timeout may send nothing
-- again, where the device or the peer's window takes nothing.
SELECT
    k.step AS step,
    CAST(SUM(k.segs_out) AS BIGINT) AS segs_out,
    CAST(SUM(k.retrans) AS BIGINT) AS retrans,
    SUM(k.fast) AS fast,
    SUM(k.timeouts) AS timeouts
FROM (
    SELECT
        CAST(FLOOR(CAST(i.begin_ns - ${begin_ns} AS DOUBLE) / ${step_ns}) AS INTEGER) AS step,
        i.segs_out AS segs_out,
        i.retrans AS retrans,
        CASE WHEN i.timeouts IS NULL THEN NULL WHEN i.retrans > i.timeouts THEN i.retrans - i.timeouts ELSE 0 END AS fast,
        i.timeouts AS timeouts
    FROM fleet_intervals AS i
    JOIN hosts AS h ON i.host = h.host
    WHERE i.begin_ns >= ${begin_ns} AND i.begin_ns < ${end_ns}
) AS k
GROUP BY k.step
