-- The same in longer bins: t is a multiple of the two seconds that agents write.
SELECT
    f.conn AS conn,
    f.host_no AS host_no,
    CAST(FLOOR(CAST(f.cell AS DOUBLE) / ${merge}) AS INTEGER) AS cell,
    CAST(SUM(f.x) AS INTEGER) AS x
FROM cells_fine AS f
GROUP BY f.conn, f.host_no, CAST(FLOOR(CAST(f.cell AS DOUBLE) / ${merge}) AS INTEGER)
