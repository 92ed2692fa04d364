-- Runs of bins with a problem, of each problem: how many, and how long they are together. In a run, cell less row number is
-- the same.
SELECT e.problem AS problem, COUNT(*) AS episodes, SUM(e.bins) AS bins
FROM (
    SELECT r.problem AS problem, r.conn AS conn, r.run AS run, COUNT(*) AS bins
    FROM (
        SELECT
            c.conn AS conn,
            CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${bins}) AS INTEGER) AS problem,
            c.cell - ROW_NUMBER() OVER (PARTITION BY c.conn ORDER BY c.cell) AS run
        FROM cells AS c
        WHERE c.conn NOT IN (SELECT x.conn FROM removed AS x)
    ) AS r
    GROUP BY r.problem, r.conn, r.run
) AS e
GROUP BY e.problem
