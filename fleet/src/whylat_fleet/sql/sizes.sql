-- Of each resource: how many connections count, the mean of its sum vector in each problem (c_p, in 1/scale) and what
-- each connection contributes to itself.
SELECT
    m.resource AS resource,
    COUNT(*) AS members,
    CAST(ROUND(SUM(w.g1) * ${scale} / ${bins}) AS BIGINT) AS c1,
    CAST(ROUND(SUM(w.g2) * ${scale} / ${bins}) AS BIGINT) AS c2,
    CAST(ROUND(SUM(w.g3) * ${scale} / ${bins}) AS BIGINT) AS c3,
    CAST(ROUND(SUM(w.g4) * ${scale} / ${bins}) AS BIGINT) AS c4,
    CAST(ROUND(SUM(w.g5) * ${scale} / ${bins}) AS BIGINT) AS c5,
    SUM(w.g1) / ${bins} AS mean1,
    SUM(w.g2) / ${bins} AS mean2,
    SUM(w.g3) / ${bins} AS mean3,
    SUM(w.g4) / ${bins} AS mean4,
    SUM(w.g5) / ${bins} AS mean5,
    SUM(w.e1) AS e1,
    SUM(w.e2) AS e2,
    SUM(w.e3) AS e3,
    SUM(w.e4) AS e4,
    SUM(w.e5) AS e5,
    SUM(w.eb) AS eb
FROM ${members} AS m
JOIN weights AS w ON m.conn = w.conn
GROUP BY m.resource
