-- How many cells lie where: cells are cut into strips of the same length.
SELECT k.strip AS strip, COUNT(*) AS cells
FROM (SELECT CAST(FLOOR(CAST(c.cell AS DOUBLE) / ${length}) AS INTEGER) AS strip FROM cells AS c) AS k
GROUP BY k.strip
