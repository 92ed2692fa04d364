-- In each bin, how many connections of a resource had each problem.
SELECT
    m.resource AS resource,
    c.cell % ${bins} AS bin,
    SUM(CASE WHEN c.cell >= 0 * ${bins} AND c.cell < 1 * ${bins} THEN 1 ELSE 0 END) AS n1,
    SUM(CASE WHEN c.cell >= 1 * ${bins} AND c.cell < 2 * ${bins} THEN 1 ELSE 0 END) AS n2,
    SUM(CASE WHEN c.cell >= 2 * ${bins} AND c.cell < 3 * ${bins} THEN 1 ELSE 0 END) AS n3,
    SUM(CASE WHEN c.cell >= 3 * ${bins} AND c.cell < 4 * ${bins} THEN 1 ELSE 0 END) AS n4,
    SUM(CASE WHEN c.cell >= 4 * ${bins} AND c.cell < 5 * ${bins} THEN 1 ELSE 0 END) AS n5
FROM cells AS c
JOIN ${members} AS m ON c.conn = m.conn
GROUP BY m.resource, c.cell % ${bins}
