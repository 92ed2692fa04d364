-- `spread` of what is left of connections that a culprit explains.
SELECT
    s.conn AS conn,
    s.host_no AS host_no,
    s.q1 * x.k1 AS q1, s.v1 * x.k1 AS v1, s.m1 * x.k1 AS m1, s.k1 * x.k1 AS k1,
    s.q2 * x.k2 AS q2, s.v2 * x.k2 AS v2, s.m2 * x.k2 AS m2, s.k2 * x.k2 AS k2,
    s.q3 * x.k3 AS q3, s.v3 * x.k3 AS v3, s.m3 * x.k3 AS m3, s.k3 * x.k3 AS k3,
    s.q4 * x.k4 AS q4, s.v4 * x.k4 AS v4, s.m4 * x.k4 AS m4, s.k4 * x.k4 AS k4,
    s.q5 * x.k5 AS q5, s.v5 * x.k5 AS v5, s.m5 * x.k5 AS m5, s.k5 * x.k5 AS k5
FROM spread AS s
JOIN masks AS x ON s.conn = x.conn
