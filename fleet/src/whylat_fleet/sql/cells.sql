-- What each connection suffered in each bin, microseconds: a row for each bin and problem. `cell` numbers both: problem *
-- bins + bin. Most rows of `fleet_problems` have one problem, so that this is about as long, and a third as wide.
SELECT k.conn AS conn, k.host_no AS host_no, CAST(k.problem * ${bins} + k.bin AS INTEGER) AS cell, CAST(k.x AS INTEGER) AS x
FROM (
    SELECT
        p.conn_id AS conn,
        CAST(h.host_no AS INTEGER) AS host_no,
        n.problem AS problem,
        FLOOR(CAST(p.begin_ns - ${begin_ns} AS DOUBLE) / ${bin_ns}) AS bin,
        CASE
            WHEN n.problem = 0 THEN p.send_buffer_us
            WHEN n.problem = 1 THEN p.fast_retransmit_us
            WHEN n.problem = 2 THEN p.timeout_us
            WHEN n.problem = 3 THEN CASE WHEN h.delayed_ack = 1 THEN p.delayed_ack_us ELSE 0 END
            ELSE p.receiver_window_us
        END AS x
    FROM fleet_problems AS p
    JOIN hosts AS h ON p.host = h.host
    CROSS JOIN problems AS n
    WHERE p.begin_ns >= ${begin_ns} AND p.begin_ns < ${end_ns}
) AS k
WHERE k.x > 0
