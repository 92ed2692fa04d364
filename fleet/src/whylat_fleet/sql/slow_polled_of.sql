-- Connections that are left out for their readings, by host and application.
SELECT k.host AS host, k.app AS app, COUNT(*) AS connections
FROM (
    SELECT f.conn_id AS conn, MAX(f.host) AS host, MAX(COALESCE(f.app, '')) AS app
    FROM fleet_connections AS f
    JOIN slow_polled AS s ON f.conn_id = s.conn
    WHERE f.time_ns < ${end_ns}
    GROUP BY f.conn_id
) AS k
GROUP BY k.host, k.app
