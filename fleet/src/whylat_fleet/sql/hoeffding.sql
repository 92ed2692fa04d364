-- Over the connections of a population: mean and variance of each one's mean coefficient with all others, of the whole
-- coefficient and of its part of the same time. `sizes` must be those of the population as one resource.
SELECT
    AVG(k.whole) AS mean_whole,
    AVG(k.whole * k.whole) - AVG(k.whole) * AVG(k.whole) AS variance_whole,
    AVG(k.timed) AS mean_timed,
    AVG(k.timed * k.timed) - AVG(k.timed) * AVG(k.timed) AS variance_timed
FROM (
    SELECT
        (j.whole - 1.0) / (j.members - 1) AS whole,
        (j.timed - j.own) / (j.members - 1) AS timed
    FROM (
        SELECT
            p.conn AS conn,
            MIN(z.members) AS members,
            MIN(v.e1 + v.e2 + v.e3 + v.e4 + v.e5) AS own,
            SUM(p.w * (
                c.x1 * (g.g1 - z.mean)
                + c.x2 * (g.g2 - z.mean)
                + c.x3 * (g.g3 - z.mean)
                + c.x4 * (g.g4 - z.mean)
                + c.x5 * (g.g5 - z.mean)
            )) AS whole,
            SUM(p.w * (
                c.x1 * (g.g1 - z.mean1)
                + c.x2 * (g.g2 - z.mean2)
                + c.x3 * (g.g3 - z.mean3)
                + c.x4 * (g.g4 - z.mean4)
                + c.x5 * (g.g5 - z.mean5)
            )) AS timed
        FROM cells AS c
        JOIN ${population} AS p ON c.conn = p.conn
        JOIN weights AS v ON p.conn = v.conn
        JOIN (
            SELECT
                d.bin AS bin,
                SUM(n.w * d.x1) AS g1,
                SUM(n.w * d.x2) AS g2,
                SUM(n.w * d.x3) AS g3,
                SUM(n.w * d.x4) AS g4,
                SUM(n.w * d.x5) AS g5
            FROM cells AS d
            JOIN ${population} AS n ON d.conn = n.conn
            GROUP BY d.bin
        ) AS g ON c.bin = g.bin
        CROSS JOIN (
            SELECT
                y.members AS members,
                y.mean1 AS mean1,
                y.mean2 AS mean2,
                y.mean3 AS mean3,
                y.mean4 AS mean4,
                y.mean5 AS mean5,
                (y.mean1 + y.mean2 + y.mean3 + y.mean4 + y.mean5) / 5.0 AS mean
            FROM sizes AS y
        ) AS z
        GROUP BY p.conn
    ) AS j
) AS k
