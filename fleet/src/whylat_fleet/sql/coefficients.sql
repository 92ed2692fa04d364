-- How each member of a resource goes with the others: the mean of its correlation coefficients with them, and the part of
-- the same time. The sum vector's mean over all cells is 0, over those that are measured of a connection perhaps not.
SELECT
    p.resource AS resource,
    p.conn AS conn,
    (
        p.whole - 1.0 + ${bins} * (
            w.u1 * (z.mean1 - z.over1)
            + w.u2 * (z.mean2 - z.over2)
            + w.u3 * (z.mean3 - z.over3)
            + w.u4 * (z.mean4 - z.over4)
            + w.u5 * (z.mean5 - z.over5)
        )
    ) / (z.members - 1) AS coefficient,
    (p.timed - (w.e1 + w.e2 + w.e3 + w.e4 + w.e5)) / (z.members - 1) AS same_time
FROM (
    SELECT
        m.resource AS resource,
        m.conn AS conn,
        SUM(m.w * c.x * g.whole) AS whole,
        SUM(m.w * c.x * g.timed) AS timed
    FROM ${cells} AS c
    JOIN ${members} AS m ON c.conn = m.conn
    JOIN sums AS g ON m.resource = g.resource AND c.cell = g.cell
    GROUP BY m.resource, m.conn
) AS p
JOIN ${weights} AS w ON p.conn = w.conn
JOIN sizes AS z ON p.resource = z.resource
WHERE z.members >= 2
