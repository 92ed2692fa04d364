-- Random sets. Row n of M goes to place (n * factor) mod prime, prime being the least one not below M: a shuffle. Places
-- are cut into sets of `size`.
SELECT
    r.conn AS conn,
    r.w AS w,
    d.draw * 1000000 + CAST(FLOOR(CAST((r.n * d.factor) % d.prime AS DOUBLE) / d.size) AS BIGINT) AS resource
FROM (
    SELECT p.conn AS conn, p.w AS w, ROW_NUMBER() OVER (ORDER BY p.conn) AS n FROM ${population} AS p
) AS r
CROSS JOIN draws AS d
WHERE (r.n * d.factor) % d.prime < d.size * d.sets
