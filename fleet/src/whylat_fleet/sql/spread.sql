-- Spread of each connection's vector. k_p: whether problem p is measured; v_p: squared deviations within problem p from its
-- mean m_p over the bins. With s = K*f + r, s*s/K is K*f*f + 2*f*r + r*r/K. Only the last part is not whole:
-- nothing cancels, however constant the vector is.
SELECT
    d.conn AS conn,
    d.host_no AS host_no,
    d.q1 AS q1,
    d.q2 AS q2,
    d.q3 AS q3,
    d.q4 AS q4,
    d.q5 AS q5,
    d.v1 AS v1,
    d.v2 AS v2,
    d.v3 AS v3,
    d.v4 AS v4,
    d.v5 AS v5,
    d.m1 AS m1,
    d.m2 AS m2,
    d.m3 AS m3,
    d.m4 AS m4,
    d.m5 AS m5,
    1 AS k1,
    1 AS k2,
    1 AS k3,
    h.delayed_ack AS k4,
    1 AS k5
FROM (
    SELECT
        r.conn AS conn,
        r.host_no AS host_no,
        r.q1 AS q1,
        r.q2 AS q2,
        r.q3 AS q3,
        r.q4 AS q4,
        r.q5 AS q5,
        CAST(r.q1 - ${bins} * r.f1 * r.f1 - 2 * r.f1 * r.r1 AS DOUBLE) - CAST(r.r1 * r.r1 AS DOUBLE) / ${bins} AS v1,
        CAST(r.q2 - ${bins} * r.f2 * r.f2 - 2 * r.f2 * r.r2 AS DOUBLE) - CAST(r.r2 * r.r2 AS DOUBLE) / ${bins} AS v2,
        CAST(r.q3 - ${bins} * r.f3 * r.f3 - 2 * r.f3 * r.r3 AS DOUBLE) - CAST(r.r3 * r.r3 AS DOUBLE) / ${bins} AS v3,
        CAST(r.q4 - ${bins} * r.f4 * r.f4 - 2 * r.f4 * r.r4 AS DOUBLE) - CAST(r.r4 * r.r4 AS DOUBLE) / ${bins} AS v4,
        CAST(r.q5 - ${bins} * r.f5 * r.f5 - 2 * r.f5 * r.r5 AS DOUBLE) - CAST(r.r5 * r.r5 AS DOUBLE) / ${bins} AS v5,
        r.f1 + CAST(r.r1 AS DOUBLE) / ${bins} AS m1,
        r.f2 + CAST(r.r2 AS DOUBLE) / ${bins} AS m2,
        r.f3 + CAST(r.r3 AS DOUBLE) / ${bins} AS m3,
        r.f4 + CAST(r.r4 AS DOUBLE) / ${bins} AS m4,
        r.f5 + CAST(r.r5 AS DOUBLE) / ${bins} AS m5
    FROM (
        SELECT
            t.conn AS conn,
            t.host_no AS host_no,
            t.q1 AS q1,
            t.q2 AS q2,
            t.q3 AS q3,
            t.q4 AS q4,
            t.q5 AS q5,
            t.f1 AS f1,
            t.f2 AS f2,
            t.f3 AS f3,
            t.f4 AS f4,
            t.f5 AS f5,
            t.s1 - ${bins} * t.f1 AS r1,
            t.s2 - ${bins} * t.f2 AS r2,
            t.s3 - ${bins} * t.f3 AS r3,
            t.s4 - ${bins} * t.f4 AS r4,
            t.s5 - ${bins} * t.f5 AS r5
        FROM (
            SELECT
                s.conn AS conn,
                s.host_no AS host_no,
                s.q1 AS q1, s.s1 AS s1,
                s.q2 AS q2, s.s2 AS s2,
                s.q3 AS q3, s.s3 AS s3,
                s.q4 AS q4, s.s4 AS s4,
                s.q5 AS q5, s.s5 AS s5,
                CAST(FLOOR(CAST(s.s1 AS DOUBLE) / ${bins}) AS BIGINT) AS f1,
                CAST(FLOOR(CAST(s.s2 AS DOUBLE) / ${bins}) AS BIGINT) AS f2,
                CAST(FLOOR(CAST(s.s3 AS DOUBLE) / ${bins}) AS BIGINT) AS f3,
                CAST(FLOOR(CAST(s.s4 AS DOUBLE) / ${bins}) AS BIGINT) AS f4,
                CAST(FLOOR(CAST(s.s5 AS DOUBLE) / ${bins}) AS BIGINT) AS f5
            FROM stats AS s
        ) AS t
    ) AS r
) AS d
JOIN hosts AS h ON d.host_no = h.host_no
