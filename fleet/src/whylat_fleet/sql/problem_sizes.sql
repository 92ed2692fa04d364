-- Of each resource and problem: how many connections count, and the mean of their sum vector in whole 1/scale.
SELECT
    m.resource AS resource,
    w.problem AS problem,
    COUNT(*) AS members,
    ROUND(SUM(w.w * w.mean) * ${scale}) AS c
FROM ${members} AS m
JOIN problem_weights AS w ON m.conn = w.conn
GROUP BY m.resource, w.problem
