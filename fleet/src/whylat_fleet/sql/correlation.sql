-- SNAP's average correlation coefficient of each resource in linear form, apart into what the connections do at the same
-- time (t_p, of each problem) and what they only have in common over the whole window (b: the same problems). `squares`
-- are those of all cells, in parts; a cell in which G has nothing has the square of its mean.
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
            (SUM(q.squares) + (${bins} - SUM(q.cells)) * MIN(y.c) * MIN(y.c)) / ${scale} / ${scale} AS energy
        FROM (
${squares}
        ) AS q
        JOIN means AS y ON q.resource = y.resource AND q.problem = y.problem
        GROUP BY y.resource, y.problem
    ) AS d
    GROUP BY d.resource
) AS a
JOIN sizes AS z ON a.resource = z.resource
WHERE z.members >= 2
