-- The average correlation coefficient of each resource in each problem alone: only what happens at the same time counts.
SELECT
    z.resource AS resource,
    z.problem AS problem,
    MIN(z.members) AS members,
    (
        (
            SUM((g.g - z.c) * (g.g - z.c)) + (${bins} - COUNT(*)) * MIN(z.c) * MIN(z.c)
        ) / ${scale} / ${scale} - MIN(z.members)
    ) / (CAST(MIN(z.members) AS DOUBLE) * (MIN(z.members) - 1)) AS coefficient
FROM (
    SELECT
        m.resource AS resource,
        w.problem AS problem,
        c.cell AS cell,
        SUM(ROUND(w.w * c.x * ${scale})) AS g
    FROM cells AS c
    JOIN ${members} AS m ON c.conn = m.conn
    JOIN problem_weights AS w ON c.conn = w.conn AND CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) = w.problem
    GROUP BY m.resource, w.problem, c.cell
) AS g
JOIN problem_sizes AS z ON g.resource = z.resource AND g.problem = z.problem
WHERE z.members >= 2
GROUP BY z.resource, z.problem
