-- The means of `sizes`, a row for each problem: that of the sum vector, also in whole 1/scale (c), and what its connections'
-- own means make (`overall`).
SELECT
    k.resource AS resource,
    k.problem AS problem,
    ROUND(k.mean * ${scale}) AS c,
    k.mean AS mean,
    k.overall AS overall
FROM (
    SELECT
        z.resource AS resource,
        n.problem AS problem,
        CASE
            WHEN n.problem = 0 THEN z.mean1
            WHEN n.problem = 1 THEN z.mean2
            WHEN n.problem = 2 THEN z.mean3
            WHEN n.problem = 3 THEN z.mean4
            ELSE z.mean5
        END AS mean,
        CASE
            WHEN n.problem = 0 THEN z.over1
            WHEN n.problem = 1 THEN z.over2
            WHEN n.problem = 2 THEN z.over3
            WHEN n.problem = 3 THEN z.over4
            ELSE z.over5
        END AS overall
    FROM sizes AS z
    CROSS JOIN problems AS n
) AS k
