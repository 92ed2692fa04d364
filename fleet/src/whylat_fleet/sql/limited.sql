-- SNAP's Table 4, one line: connections with a problem for more than a share of their life, and of them those of
-- applications that are sensitive to delay.
SELECT
    COUNT(l.${column}) AS measured,
    SUM(CASE WHEN l.${column} > 0 THEN 1 ELSE 0 END) AS over_0,
    SUM(CASE WHEN l.${column} * 1000 > l.watched_us * 250 THEN 1 ELSE 0 END) AS over_250,
    SUM(CASE WHEN l.${column} * 1000 > l.watched_us * 500 THEN 1 ELSE 0 END) AS over_500,
    SUM(CASE WHEN l.${column} * 1000 > l.watched_us * 750 THEN 1 ELSE 0 END) AS over_750,
    SUM(CASE WHEN l.${column} * 1000 > l.watched_us * 999 THEN 1 ELSE 0 END) AS over_999,
    SUM(CASE WHEN l.sensitive = 1 AND l.${column} > 0 THEN 1 ELSE 0 END) AS sensitive_over_0,
    SUM(CASE WHEN l.sensitive = 1 AND l.${column} * 1000 > l.watched_us * 250 THEN 1 ELSE 0 END) AS sensitive_over_250,
    SUM(CASE WHEN l.sensitive = 1 AND l.${column} * 1000 > l.watched_us * 500 THEN 1 ELSE 0 END) AS sensitive_over_500,
    SUM(CASE WHEN l.sensitive = 1 AND l.${column} * 1000 > l.watched_us * 750 THEN 1 ELSE 0 END) AS sensitive_over_750,
    SUM(CASE WHEN l.sensitive = 1 AND l.${column} * 1000 > l.watched_us * 999 THEN 1 ELSE 0 END) AS sensitive_over_999
FROM lives AS l
WHERE l.watched_us > 0
