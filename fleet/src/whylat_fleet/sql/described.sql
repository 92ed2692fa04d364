-- Names of connections: of several rows of one, the latest.
SELECT l.conn AS conn, l.process AS process, l.local_port AS local_port, l.peer_address AS peer_address, l.peer_port AS peer_port
FROM (
    SELECT
        f.conn_id AS conn,
        COALESCE(f.process, '') AS process,
        f.local_port AS local_port,
        f.peer_address AS peer_address,
        f.peer_port AS peer_port,
        ROW_NUMBER() OVER (PARTITION BY f.conn_id ORDER BY f.time_ns DESC) AS place
    FROM fleet_connections AS f
    JOIN wanted AS w ON f.conn_id = w.conn
    WHERE f.time_ns < ${end_ns}
) AS l
WHERE l.place = 1
