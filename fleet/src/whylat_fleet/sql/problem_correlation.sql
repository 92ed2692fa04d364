-- The average correlation coefficient of each resource in each problem alone (a_p): only what happens at the same time
-- counts. -2 where fewer than two connections count.
SELECT
    a.resource AS resource,
    a.n1 AS n1,
    a.n2 AS n2,
    a.n3 AS n3,
    a.n4 AS n4,
    a.n5 AS n5,
    CASE WHEN a.n1 < 2 THEN -2.0 ELSE ((a.d1 + (${bins} - a.present) * CAST(a.c1 AS DOUBLE) * CAST(a.c1 AS DOUBLE)) / ${scale} / ${scale} - a.n1) / (CAST(a.n1 AS DOUBLE) * (CASE WHEN a.n1 < 2 THEN 1 ELSE a.n1 - 1 END)) END AS a1,
    CASE WHEN a.n2 < 2 THEN -2.0 ELSE ((a.d2 + (${bins} - a.present) * CAST(a.c2 AS DOUBLE) * CAST(a.c2 AS DOUBLE)) / ${scale} / ${scale} - a.n2) / (CAST(a.n2 AS DOUBLE) * (CASE WHEN a.n2 < 2 THEN 1 ELSE a.n2 - 1 END)) END AS a2,
    CASE WHEN a.n3 < 2 THEN -2.0 ELSE ((a.d3 + (${bins} - a.present) * CAST(a.c3 AS DOUBLE) * CAST(a.c3 AS DOUBLE)) / ${scale} / ${scale} - a.n3) / (CAST(a.n3 AS DOUBLE) * (CASE WHEN a.n3 < 2 THEN 1 ELSE a.n3 - 1 END)) END AS a3,
    CASE WHEN a.n4 < 2 THEN -2.0 ELSE ((a.d4 + (${bins} - a.present) * CAST(a.c4 AS DOUBLE) * CAST(a.c4 AS DOUBLE)) / ${scale} / ${scale} - a.n4) / (CAST(a.n4 AS DOUBLE) * (CASE WHEN a.n4 < 2 THEN 1 ELSE a.n4 - 1 END)) END AS a4,
    CASE WHEN a.n5 < 2 THEN -2.0 ELSE ((a.d5 + (${bins} - a.present) * CAST(a.c5 AS DOUBLE) * CAST(a.c5 AS DOUBLE)) / ${scale} / ${scale} - a.n5) / (CAST(a.n5 AS DOUBLE) * (CASE WHEN a.n5 < 2 THEN 1 ELSE a.n5 - 1 END)) END AS a5
FROM (
    SELECT
        z.resource AS resource,
        COUNT(*) AS present,
        SUM(CAST(g.g1 - z.c1 AS DOUBLE) * CAST(g.g1 - z.c1 AS DOUBLE)) AS d1,
        SUM(CAST(g.g2 - z.c2 AS DOUBLE) * CAST(g.g2 - z.c2 AS DOUBLE)) AS d2,
        SUM(CAST(g.g3 - z.c3 AS DOUBLE) * CAST(g.g3 - z.c3 AS DOUBLE)) AS d3,
        SUM(CAST(g.g4 - z.c4 AS DOUBLE) * CAST(g.g4 - z.c4 AS DOUBLE)) AS d4,
        SUM(CAST(g.g5 - z.c5 AS DOUBLE) * CAST(g.g5 - z.c5 AS DOUBLE)) AS d5,
        MIN(z.c1) AS c1, MIN(z.n1) AS n1,
        MIN(z.c2) AS c2, MIN(z.n2) AS n2,
        MIN(z.c3) AS c3, MIN(z.n3) AS n3,
        MIN(z.c4) AS c4, MIN(z.n4) AS n4,
        MIN(z.c5) AS c5, MIN(z.n5) AS n5
    FROM (
        SELECT
            m.resource AS resource,
            c.bin AS bin,
            SUM(CAST(ROUND(w.w1 * c.x1 * ${scale}) AS BIGINT)) AS g1,
            SUM(CAST(ROUND(w.w2 * c.x2 * ${scale}) AS BIGINT)) AS g2,
            SUM(CAST(ROUND(w.w3 * c.x3 * ${scale}) AS BIGINT)) AS g3,
            SUM(CAST(ROUND(w.w4 * c.x4 * ${scale}) AS BIGINT)) AS g4,
            SUM(CAST(ROUND(w.w5 * c.x5 * ${scale}) AS BIGINT)) AS g5
        FROM cells AS c
        JOIN ${members} AS m ON c.conn = m.conn
        JOIN problem_weights AS w ON c.conn = w.conn
        GROUP BY m.resource, c.bin
    ) AS g
    JOIN problem_sizes AS z ON g.resource = z.resource
    GROUP BY z.resource
) AS a
