-- The same in longer bins: t is a multiple of the two seconds that agents write.
SELECT
    f.conn AS conn,
    f.host_no AS host_no,
    CAST(FLOOR(CAST(f.bin AS DOUBLE) / ${merge}) AS INTEGER) AS bin,
    CAST(SUM(f.x1) AS INTEGER) AS x1,
    CAST(SUM(f.x2) AS INTEGER) AS x2,
    CAST(SUM(f.x3) AS INTEGER) AS x3,
    CAST(SUM(f.x4) AS INTEGER) AS x4,
    CAST(SUM(f.x5) AS INTEGER) AS x5
FROM cells_fine AS f
GROUP BY f.conn, f.host_no, CAST(FLOOR(CAST(f.bin AS DOUBLE) / ${merge}) AS INTEGER)
