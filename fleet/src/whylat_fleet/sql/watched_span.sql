-- From when to when any host was watched.
SELECT
    CAST(MIN(c.begin_ns) AS BIGINT) AS begin_ns,
    CAST(MAX(c.begin_ns + c.length_us * 1000) AS BIGINT) AS end_ns
FROM coverage AS c
HAVING COUNT(*) > 0
