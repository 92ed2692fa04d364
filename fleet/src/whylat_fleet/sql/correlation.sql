-- SNAP's average correlation coefficient of each resource in linear form, apart into what the connections do at the same
-- time (t_p, of each problem) and what they only have in common over the whole window (b: the same problems).
-- G, the sum of the vectors, is summed in whole 1/scale, and its mean is taken away before it becomes a real number.
SELECT
    z.resource AS resource,
    z.members AS members,
    (a.energy1 - z.e1) / (CAST(z.members AS DOUBLE) * (z.members - 1)) AS t1,
    (a.energy2 - z.e2) / (CAST(z.members AS DOUBLE) * (z.members - 1)) AS t2,
    (a.energy3 - z.e3) / (CAST(z.members AS DOUBLE) * (z.members - 1)) AS t3,
    (a.energy4 - z.e4) / (CAST(z.members AS DOUBLE) * (z.members - 1)) AS t4,
    (a.energy5 - z.e5) / (CAST(z.members AS DOUBLE) * (z.members - 1)) AS t5,
    (z.between - z.eb) / (CAST(z.members AS DOUBLE) * (z.members - 1)) AS b
FROM (
    SELECT
        d.resource AS resource,
        SUM(CASE WHEN d.problem = 0 THEN d.energy ELSE 0.0 END) AS energy1,
        SUM(CASE WHEN d.problem = 1 THEN d.energy ELSE 0.0 END) AS energy2,
        SUM(CASE WHEN d.problem = 2 THEN d.energy ELSE 0.0 END) AS energy3,
        SUM(CASE WHEN d.problem = 3 THEN d.energy ELSE 0.0 END) AS energy4,
        SUM(CASE WHEN d.problem = 4 THEN d.energy ELSE 0.0 END) AS energy5
    FROM (
        SELECT
            y.resource AS resource,
            y.problem AS problem,
            (
                SUM(CAST(g.g - y.c AS DOUBLE) * CAST(g.g - y.c AS DOUBLE))
                + (${bins} - COUNT(*)) * CAST(MIN(y.c) AS DOUBLE) * CAST(MIN(y.c) AS DOUBLE)
            ) / ${scale} / ${scale} AS energy
        FROM (
            SELECT
                m.resource AS resource,
                c.cell AS cell,
                CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) AS problem,
                CAST(SUM(CAST(ROUND(m.w * c.x * ${scale}) AS BIGINT)) AS BIGINT) AS g
            FROM cells AS c
            JOIN ${members} AS m ON c.conn = m.conn
            GROUP BY m.resource, c.cell
        ) AS g
        JOIN means AS y ON g.resource = y.resource AND g.problem = y.problem
        GROUP BY y.resource, y.problem
    ) AS d
    GROUP BY d.resource
) AS a
JOIN sizes AS z ON a.resource = z.resource
WHERE z.members >= 2
