-- Time with problems of each connection in each bin, microseconds: a row for each bin and problem. `cell` numbers both: problem *
-- bins + bin. Most rows of `fleet_problems` have one problem, so that this is about as long, and a third as wide. Problem
-- after problem, so that an engine that knows the least and the greatest of a block finds some cells without all others.
SELECT a.conn AS conn, a.host_no AS host_no, CAST(0 * ${bins} + a.bin AS INTEGER) AS cell, CAST(a.x1 AS INTEGER) AS x
FROM bins AS a
WHERE a.x1 > 0
UNION ALL
SELECT b.conn AS conn, b.host_no AS host_no, CAST(1 * ${bins} + b.bin AS INTEGER) AS cell, CAST(b.x2 AS INTEGER) AS x
FROM bins AS b
WHERE b.x2 > 0
UNION ALL
SELECT c.conn AS conn, c.host_no AS host_no, CAST(2 * ${bins} + c.bin AS INTEGER) AS cell, CAST(c.x3 AS INTEGER) AS x
FROM bins AS c
WHERE c.x3 > 0
UNION ALL
SELECT d.conn AS conn, d.host_no AS host_no, CAST(3 * ${bins} + d.bin AS INTEGER) AS cell, CAST(d.x4 AS INTEGER) AS x
FROM bins AS d
WHERE d.x4 > 0
UNION ALL
SELECT e.conn AS conn, e.host_no AS host_no, CAST(4 * ${bins} + e.bin AS INTEGER) AS cell, CAST(e.x5 AS INTEGER) AS x
FROM bins AS e
WHERE e.x5 > 0
