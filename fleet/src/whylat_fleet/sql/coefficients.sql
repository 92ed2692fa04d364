-- How each member of a resource goes with the others: the mean of its correlation coefficients with them.
SELECT
    k.resource AS resource,
    k.conn AS conn,
    (k.product - 1.0) / (k.members - 1) AS coefficient
FROM (
    SELECT
        m.resource AS resource,
        m.conn AS conn,
        MIN(z.members) AS members,
        SUM(m.w * (
            c.x1 * (g.g1 - z.mean)
            + c.x2 * (g.g2 - z.mean)
            + c.x3 * (g.g3 - z.mean)
            + c.x4 * (g.g4 - z.mean)
            + c.x5 * (g.g5 - z.mean)
        )) AS product
    FROM cells AS c
    JOIN ${members} AS m ON c.conn = m.conn
    JOIN (
        SELECT
            n.resource AS resource,
            d.bin AS bin,
            SUM(n.w * d.x1) AS g1,
            SUM(n.w * d.x2) AS g2,
            SUM(n.w * d.x3) AS g3,
            SUM(n.w * d.x4) AS g4,
            SUM(n.w * d.x5) AS g5
        FROM cells AS d
        JOIN ${members} AS n ON d.conn = n.conn
        GROUP BY n.resource, d.bin
    ) AS g ON m.resource = g.resource AND c.bin = g.bin
    JOIN (
        SELECT y.resource AS resource, y.members AS members, (y.mean1 + y.mean2 + y.mean3 + y.mean4 + y.mean5) / 5.0 AS mean FROM sizes AS y
    ) AS z ON m.resource = z.resource
    GROUP BY m.resource, m.conn
) AS k
