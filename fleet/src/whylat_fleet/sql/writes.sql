-- Connections by the size of their median write: the class that holds it.
SELECT
    m.write_class AS write_class,
    COUNT(*) AS connections,
    CAST(SUM(m.writes) AS BIGINT) AS writes
FROM (
    SELECT
        k.writes AS writes,
        CASE
            WHEN k.n1 * 2 >= k.writes THEN 0
            WHEN (k.n1 + k.n2) * 2 >= k.writes THEN 1
            WHEN (k.n1 + k.n2 + k.n3) * 2 >= k.writes THEN 2
            WHEN (k.n1 + k.n2 + k.n3 + k.n4) * 2 >= k.writes THEN 3
            WHEN (k.n1 + k.n2 + k.n3 + k.n4 + k.n5) * 2 >= k.writes THEN 4
            ELSE 5
        END AS write_class
    FROM (
        SELECT
            i.conn_id AS conn,
            SUM(i.writes) AS writes,
            SUM(i.writes_to_64) AS n1,
            SUM(i.writes_to_512) AS n2,
            SUM(i.writes_to_4k) AS n3,
            SUM(i.writes_to_32k) AS n4,
            SUM(i.writes_to_256k) AS n5
        FROM fleet_intervals AS i
        JOIN hosts AS h ON i.host = h.host
        WHERE i.begin_ns >= ${begin_ns} AND i.begin_ns < ${end_ns} AND i.writes > 0
        GROUP BY i.conn_id
    ) AS k
) AS m
GROUP BY m.write_class
