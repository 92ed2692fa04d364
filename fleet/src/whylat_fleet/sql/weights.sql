-- Factor that gives each vector the length 1: w = 1/sqrt(v). Vectors that are constant (to six digits) have no correlation and
-- are not here. A problem that is not measured (k_p = 0) has no part in the vector, nor in its mean. Of a vector of length
-- 1, g_p is the sum over the bins of problem p, o the mean over what is measured, and u_p the same where p is not measured;
-- e_p is the part of its squared length that lies within problem p, the rest (eb) lies between problems.
SELECT
    k.conn AS conn,
    k.host_no AS host_no,
    k.w AS w,
    k.w * k.m1 * ${bins} AS g1,
    k.w * k.m2 * ${bins} AS g2,
    k.w * k.m3 * ${bins} AS g3,
    k.w * k.m4 * ${bins} AS g4,
    k.w * k.m5 * ${bins} AS g5,
    k.w * k.m AS o,
    k.w * k.m * (1 - k.k1) AS u1,
    k.w * k.m * (1 - k.k2) AS u2,
    k.w * k.m * (1 - k.k3) AS u3,
    k.w * k.m * (1 - k.k4) AS u4,
    k.w * k.m * (1 - k.k5) AS u5,
    k.w * k.w * k.v1 AS e1,
    k.w * k.w * k.v2 AS e2,
    k.w * k.w * k.v3 AS e3,
    k.w * k.w * k.v4 AS e4,
    k.w * k.w * k.v5 AS e5,
    k.w * k.w * k.b AS eb
FROM (
    SELECT
        d.conn AS conn,
        d.host_no AS host_no,
        1.0 / SQRT(d.v1 + d.v2 + d.v3 + d.v4 + d.v5 + d.b) AS w,
        d.m AS m,
        d.b AS b,
        d.m1 AS m1, d.v1 AS v1, d.k1 AS k1,
        d.m2 AS m2, d.v2 AS v2, d.k2 AS k2,
        d.m3 AS m3, d.v3 AS v3, d.k3 AS k3,
        d.m4 AS m4, d.v4 AS v4, d.k4 AS k4,
        d.m5 AS m5, d.v5 AS v5, d.k5 AS k5
    FROM (
        SELECT
            t.conn AS conn,
            t.host_no AS host_no,
            t.m AS m,
            ${bins} * (
                t.k1 * (t.m1 - t.m) * (t.m1 - t.m)
                + t.k2 * (t.m2 - t.m) * (t.m2 - t.m)
                + t.k3 * (t.m3 - t.m) * (t.m3 - t.m)
                + t.k4 * (t.m4 - t.m) * (t.m4 - t.m)
                + t.k5 * (t.m5 - t.m) * (t.m5 - t.m)
            ) AS b,
            t.q AS q,
            t.m1 AS m1, t.v1 AS v1, t.k1 AS k1,
            t.m2 AS m2, t.v2 AS v2, t.k2 AS k2,
            t.m3 AS m3, t.v3 AS v3, t.k3 AS k3,
            t.m4 AS m4, t.v4 AS v4, t.k4 AS k4,
            t.m5 AS m5, t.v5 AS v5, t.k5 AS k5
        FROM (
            SELECT
                s.conn AS conn,
                s.host_no AS host_no,
                (s.m1 + s.m2 + s.m3 + s.m4 + s.m5) / CAST(s.k1 + s.k2 + s.k3 + s.k4 + s.k5 AS DOUBLE) AS m,
                CAST(s.q1 + s.q2 + s.q3 + s.q4 + s.q5 AS DOUBLE) AS q,
                s.m1 AS m1, s.v1 AS v1, s.k1 AS k1,
                s.m2 AS m2, s.v2 AS v2, s.k2 AS k2,
                s.m3 AS m3, s.v3 AS v3, s.k3 AS k3,
                s.m4 AS m4, s.v4 AS v4, s.k4 AS k4,
                s.m5 AS m5, s.v5 AS v5, s.k5 AS k5
            FROM ${spread} AS s
            WHERE s.k1 + s.k2 + s.k3 + s.k4 + s.k5 > 0
        ) AS t
    ) AS d
    WHERE d.v1 + d.v2 + d.v3 + d.v4 + d.v5 + d.b > 1e-12 * d.q
) AS k
