-- The connections of resources that count: what each suffered, and how it goes with the others.
SELECT
    k.resource AS resource,
    k.conn AS conn,
    k.coefficient AS coefficient,
    s.x1 AS x1,
    s.x2 AS x2,
    s.x3 AS x3,
    s.x4 AS x4,
    s.x5 AS x5
FROM coefficients AS k
JOIN (
    SELECT
        c.conn AS conn,
        CAST(SUM(CASE WHEN c.cell >= 0 * ${bins} AND c.cell < 1 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x1,
        CAST(SUM(CASE WHEN c.cell >= 1 * ${bins} AND c.cell < 2 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x2,
        CAST(SUM(CASE WHEN c.cell >= 2 * ${bins} AND c.cell < 3 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x3,
        CAST(SUM(CASE WHEN c.cell >= 3 * ${bins} AND c.cell < 4 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x4,
        CAST(SUM(CASE WHEN c.cell >= 4 * ${bins} AND c.cell < 5 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x5
    FROM cells AS c
    WHERE c.conn IN (SELECT m.conn FROM ${members} AS m)
    GROUP BY c.conn
) AS s ON k.conn = s.conn
