-- Of a resource: its connections, those that another has too, and those of them that it explains.
SELECT 0 AS line, COUNT(*) AS connections
FROM members_live_all AS m
WHERE m.resource = ${one}
UNION ALL
SELECT 1 AS line, COUNT(*) AS connections
FROM members_live_all AS a
JOIN members_live_all AS b ON a.conn = b.conn
WHERE a.resource = ${one} AND b.resource = ${other}
UNION ALL
SELECT 2 AS line, COUNT(*) AS connections
FROM explained AS e
JOIN members_live_all AS c ON e.conn = c.conn
WHERE e.resource = ${one} AND c.resource = ${other}
