-- A set in which some suffer together and the others have nothing to do with it has coefficients of two sizes, and
-- sum(a*a)/sum(a) is the greater one. Half of it parts them.
SELECT c.resource AS resource, 0.5 * SUM(c.coefficient * c.coefficient) / SUM(c.coefficient) AS least
FROM coefficients AS c
GROUP BY c.resource
HAVING SUM(c.coefficient) > 0
