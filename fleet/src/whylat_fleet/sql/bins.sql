-- The rows of the window, read once. `idle_us`, what the application gave it nothing to send, is there only where the
-- connection had no problem of its own.
SELECT
    p.conn_id AS conn,
    CAST(h.host_no AS INTEGER) AS host_no,
    CAST(FLOOR(CAST(p.begin_ns - ${begin_ns} AS DOUBLE) / ${bin_ns}) AS INTEGER) AS bin,
    p.send_buffer_us AS x1,
    p.fast_retransmit_us AS x2,
    p.timeout_us AS x3,
    CASE WHEN h.delayed_ack = 1 THEN p.delayed_ack_us ELSE 0 END AS x4,
    p.receiver_window_us AS x5,
    CASE
        WHEN p.send_buffer_us + p.fast_retransmit_us + p.timeout_us + COALESCE(p.delayed_ack_us, 0) + p.receiver_window_us = 0
        THEN p.sender_app_us
        ELSE NULL
    END AS idle_us
FROM fleet_problems AS p
JOIN hosts AS h ON p.host = h.host
WHERE p.begin_ns >= ${begin_ns} AND p.begin_ns < ${end_ns}
