-- Descriptions of the connections that count: of several rows of one, the latest holds.
SELECT
    l.conn AS conn,
    l.w AS w,
    l.host_no AS host_no,
    l.peer_address AS peer_address,
    l.app AS app
FROM (
    SELECT
        w.conn AS conn,
        w.w AS w,
        w.host_no AS host_no,
        f.peer_address AS peer_address,
        COALESCE(f.app, '') AS app,
        ROW_NUMBER() OVER (PARTITION BY f.conn_id ORDER BY f.time_ns DESC) AS place
    FROM fleet_connections AS f
    JOIN weights AS w ON f.conn_id = w.conn
    WHERE f.time_ns < ${end_ns}
) AS l
WHERE l.place = 1
