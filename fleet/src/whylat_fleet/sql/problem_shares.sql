-- Of each problem, connections that had it for more than a share of their time: their number for each of `shares`.
SELECT t.problem AS problem, s.share AS share, COUNT(*) AS connections
FROM (
    SELECT
        c.conn AS conn,
        CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) AS problem,
        SUM(CAST(c.x AS DOUBLE)) / 1000000.0 AS seconds
    FROM cells AS c
    GROUP BY c.conn, CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER)
) AS t
JOIN lives AS l ON t.conn = l.conn
CROSS JOIN shares AS s
WHERE l.seconds > 0 AND t.seconds / l.seconds > s.share
GROUP BY t.problem, s.share
