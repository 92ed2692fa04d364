-- Of each resource and problem: how many connections count (n_p), and the mean of their sum vector (c_p, in 1/scale).
SELECT
    m.resource AS resource,
    SUM(CASE WHEN w.w1 > 0 THEN 1 ELSE 0 END) AS n1,
    SUM(CASE WHEN w.w2 > 0 THEN 1 ELSE 0 END) AS n2,
    SUM(CASE WHEN w.w3 > 0 THEN 1 ELSE 0 END) AS n3,
    SUM(CASE WHEN w.w4 > 0 THEN 1 ELSE 0 END) AS n4,
    SUM(CASE WHEN w.w5 > 0 THEN 1 ELSE 0 END) AS n5,
    CAST(ROUND(SUM(w.w1 * w.m1) * ${scale}) AS BIGINT) AS c1,
    CAST(ROUND(SUM(w.w2 * w.m2) * ${scale}) AS BIGINT) AS c2,
    CAST(ROUND(SUM(w.w3 * w.m3) * ${scale}) AS BIGINT) AS c3,
    CAST(ROUND(SUM(w.w4 * w.m4) * ${scale}) AS BIGINT) AS c4,
    CAST(ROUND(SUM(w.w5 * w.m5) * ${scale}) AS BIGINT) AS c5
FROM ${members} AS m
JOIN problem_weights AS w ON m.conn = w.conn
GROUP BY m.resource
