-- Connections by a resource that each has one of.
SELECT p.conn AS conn, p.w AS w, p.${kind} + ${first} AS resource FROM places AS p WHERE p.${kind} >= 0
