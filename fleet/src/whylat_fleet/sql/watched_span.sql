-- From when to when any host was watched.
SELECT
    CAST(MIN(c.begin_ns) AS BIGINT) AS begin_ns,
    CAST(MAX(c.begin_ns + c.length_us * 1000) AS BIGINT) AS end_ns
FROM fleet_coverage AS c
WHERE c.begin_ns >= ${begin_ns} AND c.begin_ns < ${end_ns}
HAVING COUNT(*) > 0
