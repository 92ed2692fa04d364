-- The connections of resources that count: what each suffered, and how it goes with the others. One without others has 0.
SELECT
    k.resource AS resource,
    k.conn AS conn,
    s.host_no AS host_no,
    k.coefficient AS coefficient,
    s.x1 AS x1,
    s.x2 AS x2,
    s.x3 AS x3,
    s.x4 AS x4,
    s.x5 AS x5
FROM (
    SELECT g.resource AS resource, g.conn AS conn, g.coefficient AS coefficient
    FROM coefficients AS g
    UNION ALL
    SELECT o.resource AS resource, o.conn AS conn, CAST(0 AS DOUBLE) AS coefficient
    FROM ${members} AS o
    JOIN sizes AS z ON o.resource = z.resource
    WHERE z.members = 1
) AS k
JOIN (
    SELECT
        c.conn AS conn,
        MIN(c.host_no) AS host_no,
        CAST(SUM(CASE WHEN c.cell >= 0 * ${bins} AND c.cell < 1 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x1,
        CAST(SUM(CASE WHEN c.cell >= 1 * ${bins} AND c.cell < 2 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x2,
        CAST(SUM(CASE WHEN c.cell >= 2 * ${bins} AND c.cell < 3 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x3,
        CAST(SUM(CASE WHEN c.cell >= 3 * ${bins} AND c.cell < 4 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x4,
        CAST(SUM(CASE WHEN c.cell >= 4 * ${bins} AND c.cell < 5 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x5
    FROM cells AS c
    WHERE c.conn IN (SELECT m.conn FROM ${members} AS m)
    GROUP BY c.conn
) AS s ON k.conn = s.conn
