-- How much of each step was watched: what a rate of that step is of.
SELECT
    k.step AS step,
    COUNT(DISTINCT k.host) AS hosts,
    CAST(SUM(k.length_us) AS BIGINT) AS watched_us
FROM (
    SELECT
        CAST(FLOOR(CAST(c.begin_ns - ${begin_ns} AS DOUBLE) / ${step_ns}) AS INTEGER) AS step,
        c.host AS host,
        c.length_us AS length_us
    FROM fleet_coverage AS c
    JOIN hosts AS h ON c.host = h.host
    WHERE c.begin_ns >= ${begin_ns} AND c.begin_ns < ${end_ns}
) AS k
GROUP BY k.step
