-- Of each resource, the connections that it explains: a set in which some suffer together and the others have nothing to
-- do with it has coefficients of two sizes, and sum(a*a)/sum(a) is the greater one. Half of it parts them.
SELECT k.resource AS resource, k.conn AS conn, k.coefficient AS coefficient
FROM coefficients AS k
JOIN (
    SELECT c.resource AS resource, 0.5 * SUM(c.coefficient * c.coefficient) / SUM(c.coefficient) AS least
    FROM coefficients AS c
    GROUP BY c.resource
    HAVING SUM(c.coefficient) > 0
) AS t ON k.resource = t.resource
WHERE k.coefficient > t.least
