-- Of a sample of connections that do not share the resource: how many go with its connections as those that it explains
-- do. A cell in which the resource has nothing counts with its mean.
SELECT COUNT(*) AS alike
FROM (
    SELECT s.conn AS conn, SUM(s.w * c.x * g.g) AS product
    FROM ${cells} AS c
    JOIN outsiders AS s ON c.conn = s.conn
    JOIN sums AS g ON c.cell = g.cell
    WHERE g.resource = ${resource}
    GROUP BY s.conn
) AS p
JOIN ${weights} AS w ON p.conn = w.conn
CROSS JOIN (
    SELECT
        y.members AS members,
        t.least AS least,
        y.mean1 AS mean1, y.over1 AS over1,
        y.mean2 AS mean2, y.over2 AS over2,
        y.mean3 AS mean3, y.over3 AS over3,
        y.mean4 AS mean4, y.over4 AS over4,
        y.mean5 AS mean5, y.over5 AS over5
    FROM sizes AS y
    JOIN thresholds AS t ON y.resource = t.resource
    WHERE y.resource = ${resource}
) AS k
WHERE (
    p.product
    - (k.over1 * w.g1 + k.over2 * w.g2 + k.over3 * w.g3 + k.over4 * w.g4 + k.over5 * w.g5)
    + ${bins} * (
        w.u1 * (k.mean1 - k.over1)
        + w.u2 * (k.mean2 - k.over2)
        + w.u3 * (k.mean3 - k.over3)
        + w.u4 * (k.mean4 - k.over4)
        + w.u5 * (k.mean5 - k.over5)
    )
) / k.members > k.least
