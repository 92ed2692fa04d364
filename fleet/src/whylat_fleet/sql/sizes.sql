-- Of each resource: how many connections count; of its sum vector the mean in each problem (mean_p), what its connections'
-- own means make there (over_p), and how far the two lie apart (`between`); and what each connection contributes to itself
-- (e_p within problem p, eb between problems).
SELECT
    s.resource AS resource,
    s.members AS members,
    s.mean1 AS mean1,
    s.mean2 AS mean2,
    s.mean3 AS mean3,
    s.mean4 AS mean4,
    s.mean5 AS mean5,
    s.over1 AS over1,
    s.over2 AS over2,
    s.over3 AS over3,
    s.over4 AS over4,
    s.over5 AS over5,
    ${bins} * (
        (s.mean1 - s.over1) * (s.mean1 - s.over1)
        + (s.mean2 - s.over2) * (s.mean2 - s.over2)
        + (s.mean3 - s.over3) * (s.mean3 - s.over3)
        + (s.mean4 - s.over4) * (s.mean4 - s.over4)
        + (s.mean5 - s.over5) * (s.mean5 - s.over5)
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
        SUM(w.o) - SUM(w.u1) AS over1,
        SUM(w.o) - SUM(w.u2) AS over2,
        SUM(w.o) - SUM(w.u3) AS over3,
        SUM(w.o) - SUM(w.u4) AS over4,
        SUM(w.o) - SUM(w.u5) AS over5,
        SUM(w.e1) AS e1,
        SUM(w.e2) AS e2,
        SUM(w.e3) AS e3,
        SUM(w.e4) AS e4,
        SUM(w.e5) AS e5,
        SUM(w.eb) AS eb
    FROM ${members} AS m
    JOIN ${weights} AS w ON m.conn = w.conn
    GROUP BY m.resource
) AS s
