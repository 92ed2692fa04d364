-- Entries of what lies on a connection's way.
SELECT k.resource AS resource, e.cell AS cell, e.g AS g
FROM ${entries} AS e
JOIN routes_${kind} AS k ON e.route = k.route
