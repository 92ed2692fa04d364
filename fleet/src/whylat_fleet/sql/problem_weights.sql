-- The same for each problem alone: w_p makes the vector of problem p one of length 1 and is 0 where it is constant.
SELECT
    s.conn AS conn,
    CASE WHEN s.v1 > 1e-12 * CAST(s.q1 AS DOUBLE) THEN 1.0 / SQRT(CASE WHEN s.v1 > 0 THEN s.v1 ELSE 1.0 END) ELSE 0.0 END AS w1,
    CASE WHEN s.v2 > 1e-12 * CAST(s.q2 AS DOUBLE) THEN 1.0 / SQRT(CASE WHEN s.v2 > 0 THEN s.v2 ELSE 1.0 END) ELSE 0.0 END AS w2,
    CASE WHEN s.v3 > 1e-12 * CAST(s.q3 AS DOUBLE) THEN 1.0 / SQRT(CASE WHEN s.v3 > 0 THEN s.v3 ELSE 1.0 END) ELSE 0.0 END AS w3,
    CASE WHEN s.v4 > 1e-12 * CAST(s.q4 AS DOUBLE) THEN 1.0 / SQRT(CASE WHEN s.v4 > 0 THEN s.v4 ELSE 1.0 END) ELSE 0.0 END AS w4,
    CASE WHEN s.v5 > 1e-12 * CAST(s.q5 AS DOUBLE) THEN 1.0 / SQRT(CASE WHEN s.v5 > 0 THEN s.v5 ELSE 1.0 END) ELSE 0.0 END AS w5,
    s.m1 AS m1,
    s.m2 AS m2,
    s.m3 AS m3,
    s.m4 AS m4,
    s.m5 AS m5
FROM spread AS s
JOIN ${members} AS m ON s.conn = m.conn
GROUP BY s.conn, s.v1, s.q1, s.m1, s.v2, s.q2, s.m2, s.v3, s.q3, s.m3, s.v4, s.q4, s.m4, s.v5, s.q5, s.m5
