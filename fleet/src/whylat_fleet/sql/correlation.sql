-- SNAP's average correlation coefficient of each resource in linear form, apart into what the connections do at the same
-- time (t_p, of each problem) and what they only have in common over the whole window (b: the same problems).
-- G, the sum of the vectors, is summed in whole 1/scale, which real numbers hold exactly up to 2^53, and its mean is taken
-- away before it is squared.
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
                SUM((g.g - y.c) * (g.g - y.c)) + (${bins} - COUNT(*)) * MIN(y.c) * MIN(y.c)
            ) / ${scale} / ${scale} AS energy
        FROM (
            SELECT
                m.resource AS resource,
                c.cell AS cell,
                CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) AS problem,
                SUM(ROUND(m.w * c.x * ${scale})) AS g
            FROM ${cells} AS c
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
