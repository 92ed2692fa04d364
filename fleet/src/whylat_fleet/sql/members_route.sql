-- Connections by what lies between their two top-of-rack switches, those included.
SELECT p.conn AS conn, p.w AS w, k.resource AS resource
FROM places AS p
JOIN routes_${kind} AS k ON p.route = k.route
