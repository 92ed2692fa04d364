-- How many connections two resources both explain.
SELECT a.resource AS one, b.resource AS other, COUNT(*) AS both
FROM explained AS a
JOIN explained AS b ON a.conn = b.conn
GROUP BY a.resource, b.resource
