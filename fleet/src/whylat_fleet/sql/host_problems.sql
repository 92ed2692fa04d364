-- Of each host and application: connections, the time that they were there, and the time with each problem.
SELECT
    k.host_no AS host_no,
    k.app AS app,
    CAST(SUM(k.connections) AS BIGINT) AS connections,
    CAST(SUM(k.alive_us) AS BIGINT) AS alive_us,
    CAST(SUM(k.x1) AS BIGINT) AS x1,
    CAST(SUM(k.x2) AS BIGINT) AS x2,
    CAST(SUM(k.x3) AS BIGINT) AS x3,
    CAST(SUM(k.x4) AS BIGINT) AS x4,
    CAST(SUM(k.x5) AS BIGINT) AS x5
FROM (
    SELECT a.host_no AS host_no, a.app AS app, 1 AS connections, a.alive_us AS alive_us, 0 AS x1, 0 AS x2, 0 AS x3, 0 AS x4, 0 AS x5
    FROM alive AS a
    UNION ALL
    SELECT
        b.host_no AS host_no,
        b.app AS app,
        0 AS connections,
        0 AS alive_us,
        CASE WHEN c.cell >= 0 * ${bins} AND c.cell < 1 * ${bins} THEN c.x ELSE 0 END AS x1,
        CASE WHEN c.cell >= 1 * ${bins} AND c.cell < 2 * ${bins} THEN c.x ELSE 0 END AS x2,
        CASE WHEN c.cell >= 2 * ${bins} AND c.cell < 3 * ${bins} THEN c.x ELSE 0 END AS x3,
        CASE WHEN c.cell >= 3 * ${bins} AND c.cell < 4 * ${bins} THEN c.x ELSE 0 END AS x4,
        CASE WHEN c.cell >= 4 * ${bins} AND c.cell < 5 * ${bins} THEN c.x ELSE 0 END AS x5
    FROM alive AS b
    JOIN cells AS c ON b.conn = c.conn
) AS k
GROUP BY k.host_no, k.app
