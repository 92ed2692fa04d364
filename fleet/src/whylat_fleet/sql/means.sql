-- The means of `sizes`, a row for each problem: also in whole 1/scale (c), and that over all problems.
SELECT
    k.resource AS resource,
    k.problem AS problem,
    CAST(ROUND(k.mean * ${scale}) AS BIGINT) AS c,
    k.mean AS mean,
    k.overall AS overall
FROM (
    SELECT
        z.resource AS resource,
        n.problem AS problem,
        z.mean AS overall,
        CASE
            WHEN n.problem = 0 THEN z.mean1
            WHEN n.problem = 1 THEN z.mean2
            WHEN n.problem = 2 THEN z.mean3
            WHEN n.problem = 3 THEN z.mean4
            ELSE z.mean5
        END AS mean
    FROM sizes AS z
    CROSS JOIN problems AS n
) AS k
