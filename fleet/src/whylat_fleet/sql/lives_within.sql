-- Connections of the window, and how long each was open within it, s.
SELECT
    l.conn AS conn,
    (CASE WHEN l.closed_ns < ${end_ns} THEN l.closed_ns ELSE ${end_ns} END
        - CASE WHEN l.first_ns > ${begin_ns} THEN l.first_ns ELSE ${begin_ns} END) / 1000000000.0 AS seconds
FROM (
    SELECT f.conn_id AS conn, MIN(f.first_ns) AS first_ns, MAX(COALESCE(f.closed_ns, ${end_ns})) AS closed_ns
    FROM fleet_connections AS f
    JOIN hosts AS h ON f.host = h.host
    GROUP BY f.conn_id
) AS l
WHERE l.conn NOT IN (SELECT x.conn FROM removed AS x)
