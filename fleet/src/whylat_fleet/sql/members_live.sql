-- Members of the resources that are still in question, without the connections that a culprit explains.
SELECT m.conn AS conn, m.w AS w, m.resource AS resource
FROM ${members} AS m
JOIN live AS l ON m.resource = l.resource
WHERE m.conn NOT IN (SELECT x.conn FROM removed AS x)
