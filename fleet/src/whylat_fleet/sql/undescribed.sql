-- Connections with a problem that no file describes, on hosts with files of fleet_connections that are left out.
SELECT c.conn AS conn, MIN(c.host_no) AS host_no
FROM cells AS c
JOIN lacking_hosts AS l ON c.host_no = l.host_no
WHERE c.conn NOT IN (
    SELECT f.conn_id
    FROM fleet_connections AS f
    JOIN hosts AS h ON f.host = h.host
    JOIN lacking_hosts AS k ON h.host_no = k.host_no
    WHERE f.time_ns < ${end_ns}
)
GROUP BY c.conn
