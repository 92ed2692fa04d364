-- Descriptions of the chosen connections: of several rows of one, the latest holds.
SELECT
    l.conn AS conn,
    l.host AS host,
    l.local_address AS local_address,
    l.local_port AS local_port,
    l.peer_address AS peer_address,
    l.peer_port AS peer_port,
    l.app AS app,
    l.process AS process,
    l.pid AS pid,
    l.congestion AS congestion,
    l.sndbuf_bytes AS sndbuf_bytes,
    l.rcvbuf_bytes AS rcvbuf_bytes
FROM (
    SELECT
        f.conn_id AS conn,
        f.host AS host,
        f.local_address AS local_address,
        f.local_port AS local_port,
        f.peer_address AS peer_address,
        f.peer_port AS peer_port,
        f.app AS app,
        f.process AS process,
        f.pid AS pid,
        f.congestion AS congestion,
        f.sndbuf_bytes AS sndbuf_bytes,
        f.rcvbuf_bytes AS rcvbuf_bytes,
        ROW_NUMBER() OVER (PARTITION BY f.conn_id ORDER BY f.time_ns DESC) AS place
    FROM fleet_connections AS f
    JOIN chosen AS k ON f.conn_id = k.conn
    WHERE f.time_ns < ${end_ns}
) AS l
WHERE l.place = 1
