-- Of each resource: how many connections count, the mean of its sum vector in each problem, how far those means lie apart
-- (`between`), and what each connection contributes to itself (e_p within problem p, eb between problems).
SELECT
    s.resource AS resource,
    s.members AS members,
    s.mean1 AS mean1,
    s.mean2 AS mean2,
    s.mean3 AS mean3,
    s.mean4 AS mean4,
    s.mean5 AS mean5,
    s.mean AS mean,
    ${bins} * (
        (s.mean1 - s.mean) * (s.mean1 - s.mean)
        + (s.mean2 - s.mean) * (s.mean2 - s.mean)
        + (s.mean3 - s.mean) * (s.mean3 - s.mean)
        + (s.mean4 - s.mean) * (s.mean4 - s.mean)
        + (s.mean5 - s.mean) * (s.mean5 - s.mean)
    ) AS between,
    s.e1 AS e1,
    s.e2 AS e2,
    s.e3 AS e3,
    s.e4 AS e4,
    s.e5 AS e5,
    s.eb AS eb
FROM (
    SELECT
        m.resource AS resource,
        COUNT(*) AS members,
        SUM(w.g1) / ${bins} AS mean1,
        SUM(w.g2) / ${bins} AS mean2,
        SUM(w.g3) / ${bins} AS mean3,
        SUM(w.g4) / ${bins} AS mean4,
        SUM(w.g5) / ${bins} AS mean5,
        (SUM(w.g1) + SUM(w.g2) + SUM(w.g3) + SUM(w.g4) + SUM(w.g5)) / ${bins} / 5.0 AS mean,
        SUM(w.e1) AS e1,
        SUM(w.e2) AS e2,
        SUM(w.e3) AS e3,
        SUM(w.e4) AS e4,
        SUM(w.e5) AS e5,
        SUM(w.eb) AS eb
    FROM ${members} AS m
    JOIN weights AS w ON m.conn = w.conn
    GROUP BY m.resource
) AS s
