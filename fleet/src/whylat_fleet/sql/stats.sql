-- Sums of each connection's vector, exact: whole microseconds and their squares (s_p and q_p of problem p).
SELECT
    t.conn AS conn,
    MIN(t.host_no) AS host_no,
    CAST(SUM(t.cells) AS BIGINT) AS cells,
    CAST(SUM(CASE WHEN t.problem = 0 THEN t.s ELSE 0 END) AS BIGINT) AS s1,
    CAST(SUM(CASE WHEN t.problem = 1 THEN t.s ELSE 0 END) AS BIGINT) AS s2,
    CAST(SUM(CASE WHEN t.problem = 2 THEN t.s ELSE 0 END) AS BIGINT) AS s3,
    CAST(SUM(CASE WHEN t.problem = 3 THEN t.s ELSE 0 END) AS BIGINT) AS s4,
    CAST(SUM(CASE WHEN t.problem = 4 THEN t.s ELSE 0 END) AS BIGINT) AS s5,
    CAST(SUM(CASE WHEN t.problem = 0 THEN t.q ELSE 0 END) AS BIGINT) AS q1,
    CAST(SUM(CASE WHEN t.problem = 1 THEN t.q ELSE 0 END) AS BIGINT) AS q2,
    CAST(SUM(CASE WHEN t.problem = 2 THEN t.q ELSE 0 END) AS BIGINT) AS q3,
    CAST(SUM(CASE WHEN t.problem = 3 THEN t.q ELSE 0 END) AS BIGINT) AS q4,
    CAST(SUM(CASE WHEN t.problem = 4 THEN t.q ELSE 0 END) AS BIGINT) AS q5
FROM (
    SELECT
        c.conn AS conn,
        CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) AS problem,
        MIN(c.host_no) AS host_no,
        COUNT(*) AS cells,
        CAST(SUM(CAST(c.x AS BIGINT)) AS BIGINT) AS s,
        CAST(SUM(CAST(c.x AS BIGINT) * CAST(c.x AS BIGINT)) AS BIGINT) AS q
    FROM cells AS c
    GROUP BY c.conn, CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER)
) AS t
GROUP BY t.conn
