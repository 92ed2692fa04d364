-- Every connection of the window, with or without a problem: how long it was there, and how long it had each problem. Sums of
-- time need no bins, so that connections that were read seldom are here too.
SELECT
    k.conn AS conn,
    MAX(k.host_no) AS host_no,
    MAX(k.app) AS app,
    MAX(k.peer_address) AS peer_address,
    CAST(MAX(k.alive_us) AS BIGINT) AS alive_us,
    CAST(SUM(k.x1) AS BIGINT) AS x1,
    CAST(SUM(k.x2) AS BIGINT) AS x2,
    CAST(SUM(k.x3) AS BIGINT) AS x3,
    CAST(SUM(k.x4) AS BIGINT) AS x4,
    CAST(SUM(k.x5) AS BIGINT) AS x5
FROM (
    SELECT
        a.conn AS conn,
        a.host_no AS host_no,
        a.app AS app,
        a.peer_address AS peer_address,
        a.alive_us AS alive_us,
        0 AS x1, 0 AS x2, 0 AS x3, 0 AS x4, 0 AS x5
    FROM alive AS a
    UNION ALL
    SELECT
        p.conn_id AS conn,
        -1 AS host_no,
        '' AS app,
        '' AS peer_address,
        -1 AS alive_us,
        p.send_buffer_us AS x1,
        COALESCE(p.fast_retransmit_us, 0) AS x2,
        COALESCE(p.timeout_us, 0) AS x3,
        COALESCE(p.delayed_ack_us, 0) AS x4,
        p.receiver_window_us AS x5
    FROM fleet_problems AS p
    JOIN hosts AS h ON p.host = h.host
    WHERE p.begin_ns >= ${begin_ns} AND p.begin_ns < ${end_ns}
) AS k
GROUP BY k.conn
HAVING MAX(k.alive_us) > 0
