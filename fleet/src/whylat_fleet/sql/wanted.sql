-- The connections of `${conns}`, and which problems are left of each.
SELECT
    c.conn AS conn,
    1 AS k1,
    1 AS k2,
    1 AS k3,
    1 AS k4,
    1 AS k5
FROM ${conns} AS c
WHERE c.conn NOT IN (SELECT x.conn FROM masks AS x)
UNION ALL
SELECT
    d.conn AS conn,
    y.k1 AS k1,
    y.k2 AS k2,
    y.k3 AS k3,
    y.k4 AS k4,
    y.k5 AS k5
FROM ${conns} AS d
JOIN masks AS y ON d.conn = y.conn
