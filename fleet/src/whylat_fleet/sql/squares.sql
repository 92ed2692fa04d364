-- Of each resource and problem: squares of the sum vector G less its mean, over the cells in which it has something, and how
-- many these are. G is summed in whole 1/scale, which real numbers hold exactly up to 2^53, and its mean is taken away
-- before it is squared.
SELECT
    y.resource AS resource,
    y.problem AS problem,
    SUM((g.g - y.c) * (g.g - y.c)) AS squares,
    COUNT(*) AS cells
FROM (
    SELECT
        e.resource AS resource,
        e.cell AS cell,
        CAST(FLOOR(CAST(e.cell AS DOUBLE) / ${bins}) AS INTEGER) AS problem,
        SUM(e.g) AS g
    FROM (
${entries}
    ) AS e
    GROUP BY e.resource, e.cell
) AS g
JOIN means AS y ON g.resource = y.resource AND g.problem = y.problem
GROUP BY y.resource, y.problem
