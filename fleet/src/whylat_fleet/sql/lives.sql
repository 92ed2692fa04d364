-- Of each connection the totals since its agent first saw it: of several rows the latest. Agents write totals at the start
-- of the next hour, so that `fleet_totals` holds that hour's first rows too. Of a running hour that row is yet to come: the
-- intervals after the latest row are added, and the time until the host's last interval.
SELECT
    k.conn AS conn,
    MAX(k.host_no) AS host_no,
    MAX(k.app) AS app,
    MAX(k.sensitive) AS sensitive,
    CAST(SUM(k.watched_us) AS BIGINT) AS watched_us,
    CAST(SUM(k.send_buffer_us) AS BIGINT) AS send_buffer_us,
    CAST(SUM(k.congestion_us) AS BIGINT) AS congestion_us,
    CAST(SUM(k.receiver_window_us) AS BIGINT) AS receiver_window_us,
    CAST(SUM(k.delayed_ack_us) AS BIGINT) AS delayed_ack_us,
    CAST(SUM(k.no_flag_us) AS BIGINT) AS no_flag_us
FROM (
    SELECT
        l.conn AS conn,
        l.host_no AS host_no,
        l.app AS app,
        l.sensitive AS sensitive,
        l.watched_us + l.more_us AS watched_us,
        l.send_buffer_us AS send_buffer_us,
        l.congestion_us AS congestion_us,
        l.receiver_window_us AS receiver_window_us,
        l.delayed_ack_us AS delayed_ack_us,
        l.no_flag_us + l.more_us AS no_flag_us
    FROM latest AS l
    UNION ALL
    SELECT
        i.conn_id AS conn,
        -1 AS host_no,
        '' AS app,
        0 AS sensitive,
        0 AS watched_us,
        i.send_buffer_us AS send_buffer_us,
        CASE
            WHEN i.fast_retransmit_us + i.timeout_us > i.length_us - i.no_flag_us THEN i.length_us - i.no_flag_us
            ELSE i.fast_retransmit_us + i.timeout_us
        END AS congestion_us,
        i.receiver_window_us AS receiver_window_us,
        i.delayed_ack_us AS delayed_ack_us,
        i.no_flag_us - i.length_us AS no_flag_us
    FROM fleet_intervals AS i
    JOIN latest AS t ON i.conn_id = t.conn
    WHERE t.more_us > 0 AND i.begin_ns > t.time_ns AND i.begin_ns < ${end_ns}
) AS k
GROUP BY k.conn
