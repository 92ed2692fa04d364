-- Of each problem: how often it filled so many milliseconds of a bin.
SELECT a.problem AS problem, a.ms AS ms, COUNT(*) AS cells
FROM (
    SELECT
        CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) AS problem,
        CAST(FLOOR(CAST(c.x AS DOUBLE) / 1000.0) AS INTEGER) AS ms
    FROM cells AS c
    WHERE c.conn NOT IN (SELECT x.conn FROM removed AS x)
) AS a
GROUP BY a.problem, a.ms
