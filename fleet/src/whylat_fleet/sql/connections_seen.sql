-- Connections that agents described in the window, and those with problems in it that an earlier file describes.
SELECT COUNT(DISTINCT k.conn) AS connections
FROM (
    SELECT f.conn_id AS conn
    FROM fleet_connections AS f
    JOIN hosts AS h ON f.host = h.host
    WHERE f.time_ns >= ${begin_ns} AND f.time_ns < ${end_ns}
    UNION ALL
    SELECT s.conn AS conn FROM spread AS s
) AS k
