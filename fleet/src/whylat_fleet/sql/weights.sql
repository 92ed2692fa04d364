-- What makes each vector one of length 1: w = 1/sqrt(v). Vectors that are constant (to six digits) have no correlation and are not here. Of a
-- vector of length 1, g_p is the sum over the bins of problem p, e_p the part of its squared length that lies within
-- problem p, the rest lies between problems.
SELECT
    k.conn AS conn,
    k.host_no AS host_no,
    k.w AS w,
    k.w * k.m1 * ${bins} AS g1,
    k.w * k.m2 * ${bins} AS g2,
    k.w * k.m3 * ${bins} AS g3,
    k.w * k.m4 * ${bins} AS g4,
    k.w * k.m5 * ${bins} AS g5,
    k.w * k.w * k.v1 AS e1,
    k.w * k.w * k.v2 AS e2,
    k.w * k.w * k.v3 AS e3,
    k.w * k.w * k.v4 AS e4,
    k.w * k.w * k.v5 AS e5,
    k.w * k.w * k.b AS eb
FROM (
    SELECT
        s.conn AS conn,
        s.host_no AS host_no,
        1.0 / SQRT(s.v1 + s.v2 + s.v3 + s.v4 + s.v5 + s.b) AS w,
        s.m1 AS m1, s.v1 AS v1,
        s.m2 AS m2, s.v2 AS v2,
        s.m3 AS m3, s.v3 AS v3,
        s.m4 AS m4, s.v4 AS v4,
        s.m5 AS m5, s.v5 AS v5,
        s.b AS b
    FROM spread AS s
    WHERE s.v1 + s.v2 + s.v3 + s.v4 + s.v5 + s.b > 1e-12 * CAST(s.q1 + s.q2 + s.q3 + s.q4 + s.q5 AS DOUBLE)
) AS k
