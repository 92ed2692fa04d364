-- Connections without a problem of their own in a bin in which, or beside which, one of the same process had one: agents
-- write how long the application gave them nothing to send.
SELECT
    p.conn_id AS conn,
    h.host_no AS host_no,
    CAST(FLOOR(CAST(p.begin_ns - ${begin_ns} AS DOUBLE) / ${bin_ns}) AS INTEGER) AS bin,
    p.sender_app_us AS idle_us
FROM fleet_problems AS p
JOIN hosts AS h ON p.host = h.host
WHERE p.begin_ns >= ${begin_ns} AND p.begin_ns < ${end_ns}
    AND p.sender_app_us IS NOT NULL
    AND p.send_buffer_us + p.fast_retransmit_us + p.timeout_us + COALESCE(p.delayed_ack_us, 0) + p.receiver_window_us = 0
