-- Of each resource, the connections that it explains: those that go with the others more than `least`.
SELECT k.resource AS resource, k.conn AS conn, k.coefficient AS coefficient
FROM coefficients AS k
JOIN thresholds AS t ON k.resource = t.resource
WHERE k.coefficient > t.least
