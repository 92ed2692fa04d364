-- For each problem alone: w makes the vector of that problem one of length 1, `mean` is its mean. Constant vectors are not
-- here.
SELECT k.conn AS conn, k.problem AS problem, 1.0 / SQRT(k.v) AS w, k.mean AS mean
FROM (
    SELECT
        s.conn AS conn,
        n.problem AS problem,
        CASE
            WHEN n.problem = 0 THEN s.v1
            WHEN n.problem = 1 THEN s.v2
            WHEN n.problem = 2 THEN s.v3
            WHEN n.problem = 3 THEN s.v4
            ELSE s.v5
        END AS v,
        CASE
            WHEN n.problem = 0 THEN s.q1
            WHEN n.problem = 1 THEN s.q2
            WHEN n.problem = 2 THEN s.q3
            WHEN n.problem = 3 THEN s.q4
            ELSE s.q5
        END AS q,
        CASE
            WHEN n.problem = 0 THEN s.m1
            WHEN n.problem = 1 THEN s.m2
            WHEN n.problem = 2 THEN s.m3
            WHEN n.problem = 3 THEN s.m4
            ELSE s.m5
        END AS mean
    FROM spread AS s
    JOIN (SELECT DISTINCT m.conn AS conn FROM ${members} AS m) AS o ON s.conn = o.conn
    CROSS JOIN problems AS n
) AS k
WHERE k.v > 1e-12 * CAST(k.q AS DOUBLE)
