-- Cells that are left, of the chosen connections.
SELECT c.conn AS conn, c.host_no AS host_no, c.cell AS cell, c.x AS x
FROM ${cells} AS c
JOIN wanted AS k ON c.conn = k.conn
WHERE CASE
    WHEN c.cell < 1 * ${bins} THEN k.k1
    WHEN c.cell < 2 * ${bins} THEN k.k2
    WHEN c.cell < 3 * ${bins} THEN k.k3
    WHEN c.cell < 4 * ${bins} THEN k.k4
    ELSE k.k5
END = 1
