-- Variance over connections of each one's mean coefficient with all others, of the whole coefficient and of its part of the
-- same time: from `coefficients` of a sample of the population.
SELECT
    COUNT(*) AS connections,
    AVG(k.coefficient * k.coefficient) - AVG(k.coefficient) * AVG(k.coefficient) AS whole,
    AVG(k.same_time * k.same_time) - AVG(k.same_time) * AVG(k.same_time) AS timed
FROM coefficients AS k
