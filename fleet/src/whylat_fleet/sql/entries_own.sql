-- Entries of the resources that a connection has one of.
SELECT e.${kind} + ${first} AS resource, e.cell AS cell, e.g AS g FROM ${entries} AS e WHERE e.${kind} >= 0
