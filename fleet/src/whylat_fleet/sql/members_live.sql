-- Members of the resources that are still in question.
SELECT m.conn AS conn, m.resource AS resource
FROM ${members} AS m
JOIN live AS l ON m.resource = l.resource
