-- Of a sample of connections that do not share the resource: how many go with its connections as those that it explains
-- do. A cell in which the resource has nothing counts with its mean.
SELECT COUNT(*) AS alike
FROM (
    SELECT p.conn AS conn
    FROM (
        SELECT s.conn AS conn, SUM(s.w * c.x * (g.whole + z.mean)) AS product
        FROM cells AS c
        JOIN outsiders AS s ON c.conn = s.conn
        JOIN sums AS g ON c.cell = g.cell
        JOIN sizes AS z ON g.resource = z.resource
        WHERE g.resource = ${resource}
        GROUP BY s.conn
    ) AS p
    JOIN weights AS w ON p.conn = w.conn
    CROSS JOIN (
        SELECT y.members AS members, y.mean AS mean, t.least AS least
        FROM sizes AS y
        JOIN thresholds AS t ON y.resource = t.resource
        WHERE y.resource = ${resource}
    ) AS k
    WHERE (p.product - k.mean * (w.g1 + w.g2 + w.g3 + w.g4 + w.g5)) / k.members > k.least
) AS a
