-- Vectors of length 1 in whole 1/scale, each cell of a group of parts with what its connection shares.
SELECT
    c.cell AS cell,
    ROUND(p.w * c.x * ${scale}) AS g,
    p.host AS host,
    p.peer AS peer,
    p.application AS application,
    p.route AS route
FROM cells AS c
JOIN places AS p ON c.conn = p.conn
WHERE c.cell >= ${first} AND c.cell < ${end}
