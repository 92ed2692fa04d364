-- Connections by a resource of which each has one.
SELECT p.conn AS conn, p.w AS w, p.${kind} + ${first} AS resource FROM places AS p WHERE p.${kind} >= 0
