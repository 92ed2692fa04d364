-- Vectors of length 1 in whole 1/scale, of the connections of each resource.
SELECT m.resource AS resource, c.cell AS cell, ROUND(m.w * c.x * ${scale}) AS g
FROM ${cells} AS c
JOIN ${members} AS m ON c.conn = m.conn
