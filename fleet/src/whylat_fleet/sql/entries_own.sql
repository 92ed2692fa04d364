-- Entries of the resources of which a connection has one.
SELECT e.${kind} + ${first} AS resource, e.cell AS cell, e.g AS g FROM ${entries} AS e WHERE e.${kind} >= 0
