-- All that the chosen connections suffered, a row for each bin.
SELECT
    c.conn AS conn,
    c.cell % ${bins} AS bin,
    MIN(c.host_no) AS host_no,
    CAST(SUM(CASE WHEN c.cell >= 0 * ${bins} AND c.cell < 1 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x1,
    CAST(SUM(CASE WHEN c.cell >= 1 * ${bins} AND c.cell < 2 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x2,
    CAST(SUM(CASE WHEN c.cell >= 2 * ${bins} AND c.cell < 3 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x3,
    CAST(SUM(CASE WHEN c.cell >= 3 * ${bins} AND c.cell < 4 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x4,
    CAST(SUM(CASE WHEN c.cell >= 4 * ${bins} AND c.cell < 5 * ${bins} THEN c.x ELSE 0 END) AS BIGINT) AS x5
FROM cells AS c
JOIN chosen AS k ON c.conn = k.conn
GROUP BY c.conn, c.cell % ${bins}
