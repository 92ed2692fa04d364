-- Of each connection the latest totals, and for how long it was watched after them.
SELECT
    l.conn AS conn,
    l.host_no AS host_no,
    l.app AS app,
    l.sensitive AS sensitive,
    l.time_ns AS time_ns,
    CASE
        WHEN l.is_open = 1 AND e.until_ns > l.time_ns
        THEN CAST(FLOOR(CAST(e.until_ns - l.time_ns AS DOUBLE) / 1000.0) AS BIGINT)
        ELSE 0
    END AS more_us,
    l.watched_us AS watched_us,
    l.send_buffer_us AS send_buffer_us,
    l.congestion_us AS congestion_us,
    l.receiver_window_us AS receiver_window_us,
    l.delayed_ack_us AS delayed_ack_us,
    l.no_flag_us AS no_flag_us
FROM (
    SELECT
        f.conn_id AS conn,
        h.host_no AS host_no,
        f.host AS host,
        COALESCE(f.app, '') AS app,
        CASE WHEN f.delay_sensitive THEN 1 ELSE 0 END AS sensitive,
        f.time_ns AS time_ns,
        CASE WHEN f.closed_ns IS NULL THEN 1 ELSE 0 END AS is_open,
        f.watched_us AS watched_us,
        f.send_buffer_us AS send_buffer_us,
        f.congestion_us AS congestion_us,
        f.receiver_window_us AS receiver_window_us,
        f.delayed_ack_us AS delayed_ack_us,
        f.no_flag_us AS no_flag_us,
        ROW_NUMBER() OVER (PARTITION BY f.conn_id ORDER BY f.time_ns DESC, f.watched_us DESC) AS place
    FROM fleet_totals AS f
    JOIN hosts AS h ON f.host = h.host
    WHERE f.time_ns >= ${begin_ns} AND f.time_ns < ${until_ns} AND f.first_ns < ${end_ns}
) AS l
JOIN (
    SELECT c.host AS host, MAX(c.begin_ns + c.length_us * 1000) AS until_ns
    FROM coverage AS c
    GROUP BY c.host
) AS e ON l.host = e.host
WHERE l.place = 1
