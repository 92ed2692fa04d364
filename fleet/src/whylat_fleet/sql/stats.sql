-- Sums of each connection's vector, exact: whole microseconds and their squares (s_p and q_p of problem p).
SELECT
    c.conn AS conn,
    MIN(c.host_no) AS host_no,
    COUNT(*) AS cells,
    CAST(SUM(CAST(c.x1 AS BIGINT)) AS BIGINT) AS s1,
    CAST(SUM(CAST(c.x2 AS BIGINT)) AS BIGINT) AS s2,
    CAST(SUM(CAST(c.x3 AS BIGINT)) AS BIGINT) AS s3,
    CAST(SUM(CAST(c.x4 AS BIGINT)) AS BIGINT) AS s4,
    CAST(SUM(CAST(c.x5 AS BIGINT)) AS BIGINT) AS s5,
    CAST(SUM(CAST(c.x1 AS BIGINT) * CAST(c.x1 AS BIGINT)) AS BIGINT) AS q1,
    CAST(SUM(CAST(c.x2 AS BIGINT) * CAST(c.x2 AS BIGINT)) AS BIGINT) AS q2,
    CAST(SUM(CAST(c.x3 AS BIGINT) * CAST(c.x3 AS BIGINT)) AS BIGINT) AS q3,
    CAST(SUM(CAST(c.x4 AS BIGINT) * CAST(c.x4 AS BIGINT)) AS BIGINT) AS q4,
    CAST(SUM(CAST(c.x5 AS BIGINT) * CAST(c.x5 AS BIGINT)) AS BIGINT) AS q5
FROM cells AS c
GROUP BY c.conn
