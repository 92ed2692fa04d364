-- What each connection suffered in each bin: a row for each bin with a problem, microseconds.
SELECT
    p.conn_id AS conn,
    h.host_no AS host_no,
    CAST(FLOOR(CAST(p.begin_ns - ${begin_ns} AS DOUBLE) / ${bin_ns}) AS INTEGER) AS bin,
    CAST(p.send_buffer_us AS INTEGER) AS x1,
    CAST(p.fast_retransmit_us AS INTEGER) AS x2,
    CAST(p.timeout_us AS INTEGER) AS x3,
    CAST(COALESCE(p.delayed_ack_us, 0) AS INTEGER) AS x4,
    CAST(p.receiver_window_us AS INTEGER) AS x5
FROM fleet_problems AS p
JOIN hosts AS h ON p.host = h.host
WHERE p.begin_ns >= ${begin_ns} AND p.begin_ns < ${end_ns}
    AND p.send_buffer_us + p.fast_retransmit_us + p.timeout_us + COALESCE(p.delayed_ack_us, 0) + p.receiver_window_us > 0
