-- In each bin, how many connections of a resource had each problem.
SELECT
    m.resource AS resource,
    c.bin AS bin,
    SUM(CASE WHEN c.x1 > 0 THEN 1 ELSE 0 END) AS n1,
    SUM(CASE WHEN c.x2 > 0 THEN 1 ELSE 0 END) AS n2,
    SUM(CASE WHEN c.x3 > 0 THEN 1 ELSE 0 END) AS n3,
    SUM(CASE WHEN c.x4 > 0 THEN 1 ELSE 0 END) AS n4,
    SUM(CASE WHEN c.x5 > 0 THEN 1 ELSE 0 END) AS n5
FROM cells AS c
JOIN ${members} AS m ON c.conn = m.conn
GROUP BY m.resource, c.bin
