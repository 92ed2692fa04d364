-- Problems that are left of connections that a culprit explains: k_p is 0 where it explains problem p.
SELECT
    x.conn AS conn,
    MIN(CASE WHEN x.problem = 0 THEN 0 ELSE 1 END) AS k1,
    MIN(CASE WHEN x.problem = 1 THEN 0 ELSE 1 END) AS k2,
    MIN(CASE WHEN x.problem = 2 THEN 0 ELSE 1 END) AS k3,
    MIN(CASE WHEN x.problem = 3 THEN 0 ELSE 1 END) AS k4,
    MIN(CASE WHEN x.problem = 4 THEN 0 ELSE 1 END) AS k5
FROM removed AS x
GROUP BY x.conn
