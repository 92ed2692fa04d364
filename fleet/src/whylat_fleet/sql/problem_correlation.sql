-- The average correlation coefficient of each resource in each problem alone: only what happens at the same time counts.
SELECT
    z.resource AS resource,
    z.problem AS problem,
    MIN(z.members) AS members,
    (
        (
            SUM(CAST(g.g - z.c AS DOUBLE) * CAST(g.g - z.c AS DOUBLE))
            + (${bins} - COUNT(*)) * CAST(MIN(z.c) AS DOUBLE) * CAST(MIN(z.c) AS DOUBLE)
        ) / ${scale} / ${scale} - MIN(z.members)
    ) / (CAST(MIN(z.members) AS DOUBLE) * (MIN(z.members) - 1)) AS coefficient
FROM (
    SELECT
        m.resource AS resource,
        w.problem AS problem,
        c.cell AS cell,
        CAST(SUM(CAST(ROUND(w.w * c.x * ${scale}) AS BIGINT)) AS BIGINT) AS g
    FROM cells AS c
    JOIN ${members} AS m ON c.conn = m.conn
    JOIN problem_weights AS w ON c.conn = w.conn AND CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) = w.problem
    GROUP BY m.resource, w.problem, c.cell
) AS g
JOIN problem_sizes AS z ON g.resource = z.resource AND g.problem = z.problem
WHERE z.members >= 2
GROUP BY z.resource, z.problem
