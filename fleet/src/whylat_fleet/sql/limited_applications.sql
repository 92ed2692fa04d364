-- The other half of Table 4: applications with a problem for more than a share of their connections' time.
SELECT
    COUNT(*) AS applications,
    SUM(CASE WHEN a.us * 100 > a.watched_us * 5 THEN 1 ELSE 0 END) AS over_50,
    SUM(CASE WHEN a.us * 100 > a.watched_us * 50 THEN 1 ELSE 0 END) AS over_500,
    SUM(CASE WHEN a.sensitive = 1 AND a.us * 100 > a.watched_us * 5 THEN 1 ELSE 0 END) AS sensitive_over_50,
    SUM(CASE WHEN a.sensitive = 1 AND a.us * 100 > a.watched_us * 50 THEN 1 ELSE 0 END) AS sensitive_over_500
FROM (
    SELECT
        l.app AS app,
        MAX(l.sensitive) AS sensitive,
        SUM(l.${column}) AS us,
        SUM(CASE WHEN l.${column} IS NULL THEN 0 ELSE l.watched_us END) AS watched_us
    FROM lives AS l
    WHERE l.app <> '' AND l.watched_us > 0
    GROUP BY l.app
) AS a
