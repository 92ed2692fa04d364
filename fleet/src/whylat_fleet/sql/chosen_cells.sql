-- All that the chosen connections suffered.
SELECT c.conn AS conn, c.bin AS bin, c.x1 AS x1, c.x2 AS x2, c.x3 AS x3, c.x4 AS x4, c.x5 AS x5
FROM cells AS c
JOIN chosen AS k ON c.conn = k.conn
