-- Of each connection the totals since its agent first saw it: of several rows the latest. Agents write totals at the begin
-- of the next hour, so that `fleet_totals` holds that hour's first rows too.
SELECT
    l.conn AS conn,
    l.host_no AS host_no,
    l.app AS app,
    l.sensitive AS sensitive,
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
        COALESCE(f.app, '') AS app,
        CASE WHEN f.delay_sensitive THEN 1 ELSE 0 END AS sensitive,
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
WHERE l.place = 1
