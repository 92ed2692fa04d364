-- G of each resource in each cell, and less its mean over all problems (`whole`) and over the cell's problem (`timed`).
SELECT
    g.resource AS resource,
    g.cell AS cell,
    g.g AS g,
    g.g - y.overall AS whole,
    g.g - y.mean AS timed
FROM (
    SELECT
        m.resource AS resource,
        c.cell AS cell,
        CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) AS problem,
        SUM(m.w * c.x) AS g
    FROM ${cells} AS c
    JOIN ${members} AS m ON c.conn = m.conn
    GROUP BY m.resource, c.cell
) AS g
JOIN means AS y ON g.resource = y.resource AND g.problem = y.problem
