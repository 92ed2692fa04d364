-- SNAP's average correlation coefficient of each resource in linear form, apart into what the connections do at the same
-- time (t_p, of each problem) and what they only have in common over the whole window (b: the same problems).
-- G, the sum of the vectors, is summed in whole 1/scale, and its mean is taken away before it becomes a real number.
SELECT
    e.resource AS resource,
    e.members AS members,
    (e.energy1 / ${scale} / ${scale} - e.e1) / (CAST(e.members AS DOUBLE) * (e.members - 1)) AS t1,
    (e.energy2 / ${scale} / ${scale} - e.e2) / (CAST(e.members AS DOUBLE) * (e.members - 1)) AS t2,
    (e.energy3 / ${scale} / ${scale} - e.e3) / (CAST(e.members AS DOUBLE) * (e.members - 1)) AS t3,
    (e.energy4 / ${scale} / ${scale} - e.e4) / (CAST(e.members AS DOUBLE) * (e.members - 1)) AS t4,
    (e.energy5 / ${scale} / ${scale} - e.e5) / (CAST(e.members AS DOUBLE) * (e.members - 1)) AS t5,
    (e.between - e.eb) / (CAST(e.members AS DOUBLE) * (e.members - 1)) AS b
FROM (
    SELECT
        a.resource AS resource,
        a.members AS members,
        a.d1 + (${bins} - a.present) * CAST(a.c1 AS DOUBLE) * CAST(a.c1 AS DOUBLE) AS energy1,
        a.d2 + (${bins} - a.present) * CAST(a.c2 AS DOUBLE) * CAST(a.c2 AS DOUBLE) AS energy2,
        a.d3 + (${bins} - a.present) * CAST(a.c3 AS DOUBLE) * CAST(a.c3 AS DOUBLE) AS energy3,
        a.d4 + (${bins} - a.present) * CAST(a.c4 AS DOUBLE) * CAST(a.c4 AS DOUBLE) AS energy4,
        a.d5 + (${bins} - a.present) * CAST(a.c5 AS DOUBLE) * CAST(a.c5 AS DOUBLE) AS energy5,
        a.e1 AS e1,
        a.e2 AS e2,
        a.e3 AS e3,
        a.e4 AS e4,
        a.e5 AS e5,
        a.eb AS eb,
        ${bins} * (
            (a.mean1 - a.mean) * (a.mean1 - a.mean)
            + (a.mean2 - a.mean) * (a.mean2 - a.mean)
            + (a.mean3 - a.mean) * (a.mean3 - a.mean)
            + (a.mean4 - a.mean) * (a.mean4 - a.mean)
            + (a.mean5 - a.mean) * (a.mean5 - a.mean)
        ) AS between
    FROM (
        SELECT
            z.resource AS resource,
            MIN(z.members) AS members,
            COUNT(*) AS present,
            SUM(CAST(g.g1 - z.c1 AS DOUBLE) * CAST(g.g1 - z.c1 AS DOUBLE)) AS d1,
            SUM(CAST(g.g2 - z.c2 AS DOUBLE) * CAST(g.g2 - z.c2 AS DOUBLE)) AS d2,
            SUM(CAST(g.g3 - z.c3 AS DOUBLE) * CAST(g.g3 - z.c3 AS DOUBLE)) AS d3,
            SUM(CAST(g.g4 - z.c4 AS DOUBLE) * CAST(g.g4 - z.c4 AS DOUBLE)) AS d4,
            SUM(CAST(g.g5 - z.c5 AS DOUBLE) * CAST(g.g5 - z.c5 AS DOUBLE)) AS d5,
            MIN(z.c1) AS c1, MIN(z.mean1) AS mean1, MIN(z.e1) AS e1,
            MIN(z.c2) AS c2, MIN(z.mean2) AS mean2, MIN(z.e2) AS e2,
            MIN(z.c3) AS c3, MIN(z.mean3) AS mean3, MIN(z.e3) AS e3,
            MIN(z.c4) AS c4, MIN(z.mean4) AS mean4, MIN(z.e4) AS e4,
            MIN(z.c5) AS c5, MIN(z.mean5) AS mean5, MIN(z.e5) AS e5,
            MIN((z.mean1 + z.mean2 + z.mean3 + z.mean4 + z.mean5) / 5.0) AS mean,
            MIN(z.eb) AS eb
        FROM (
            SELECT
                m.resource AS resource,
                c.bin AS bin,
                SUM(CAST(ROUND(m.w * c.x1 * ${scale}) AS BIGINT)) AS g1,
                SUM(CAST(ROUND(m.w * c.x2 * ${scale}) AS BIGINT)) AS g2,
                SUM(CAST(ROUND(m.w * c.x3 * ${scale}) AS BIGINT)) AS g3,
                SUM(CAST(ROUND(m.w * c.x4 * ${scale}) AS BIGINT)) AS g4,
                SUM(CAST(ROUND(m.w * c.x5 * ${scale}) AS BIGINT)) AS g5
            FROM cells AS c
            JOIN ${members} AS m ON c.conn = m.conn
            GROUP BY m.resource, c.bin
        ) AS g
        JOIN sizes AS z ON g.resource = z.resource
        WHERE z.members >= 2
        GROUP BY z.resource
    ) AS a
) AS e
