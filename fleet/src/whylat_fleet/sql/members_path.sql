-- Connections by what lies between their two top-of-rack switches, those included.
SELECT e.conn AS conn, e.w AS w, p.resource AS resource
FROM ends AS e
JOIN ${paths} AS p ON e.from_tor = p.from_tor AND e.to_tor = p.to_tor
