-- The weights of connections that are wanted, of what is left of them.
SELECT w.* FROM weights AS w
JOIN wanted AS k ON w.conn = k.conn
WHERE w.conn NOT IN (SELECT x.conn FROM masks AS x)
UNION ALL
SELECT l.* FROM weights_left AS l
JOIN wanted AS j ON l.conn = j.conn
