-- How each member of a resource goes with the others: the mean of its correlation coefficients with them, and the part of
-- the same time.
SELECT
    p.resource AS resource,
    p.conn AS conn,
    (p.whole - 1.0) / (z.members - 1) AS coefficient,
    (p.timed - (w.e1 + w.e2 + w.e3 + w.e4 + w.e5)) / (z.members - 1) AS same_time
FROM (
    SELECT
        m.resource AS resource,
        m.conn AS conn,
        SUM(m.w * c.x * g.whole) AS whole,
        SUM(m.w * c.x * g.timed) AS timed
    FROM cells AS c
    JOIN ${some} AS m ON c.conn = m.conn
    JOIN sums AS g ON m.resource = g.resource AND c.cell = g.cell
    GROUP BY m.resource, m.conn
) AS p
JOIN weights AS w ON p.conn = w.conn
JOIN sizes AS z ON p.resource = z.resource
WHERE z.members >= 2
