-- A part of the cells of `entries`.
SELECT e.cell AS cell, e.g AS g, e.host AS host, e.peer AS peer, e.application AS application, e.route AS route
FROM entries AS e
WHERE e.cell >= ${first} AND e.cell < ${end}
