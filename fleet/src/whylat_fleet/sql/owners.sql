-- The process of each connection on hosts where connections were quiet beside a problem: of several rows, the latest.
SELECT l.conn AS conn, l.host_no AS host_no, l.pid AS pid
FROM (
    SELECT
        f.conn_id AS conn,
        q.host_no AS host_no,
        f.pid AS pid,
        ROW_NUMBER() OVER (PARTITION BY f.conn_id ORDER BY f.time_ns DESC) AS place
    FROM fleet_connections AS f
    JOIN hosts AS h ON f.host = h.host
    JOIN (SELECT DISTINCT k.host_no AS host_no FROM quiet AS k) AS q ON h.host_no = q.host_no
    WHERE f.time_ns < ${end_ns} AND f.pid IS NOT NULL
) AS l
WHERE l.place = 1
