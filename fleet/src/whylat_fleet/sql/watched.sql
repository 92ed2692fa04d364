-- How long each host was watched in the window, and what its agent says of itself.
SELECT
    c.host AS host,
    CAST(SUM(c.length_us) AS BIGINT) AS watched_us,
    CAST(MAX(c.poll_gap_us) AS BIGINT) AS poll_gap_us,
    CAST(MAX(COALESCE(c.clock_error_us, -1)) AS BIGINT) AS clock_error_us,
    CAST(SUM(CASE WHEN c.clock_error_us IS NULL THEN 1 ELSE 0 END) AS BIGINT) AS unsynchronised,
    CAST(SUM(CASE WHEN c.detail = 'stats' THEN 1 ELSE 0 END) AS BIGINT) AS without_calls,
    CAST(SUM(c.lost) AS BIGINT) AS lost,
    CAST(MAX(c.connections) AS BIGINT) AS connections,
    CAST(MAX(c.dropped_files) AS BIGINT) AS dropped_files,
    CAST(SUM(CASE WHEN c.agent = 'simulated' THEN 1 ELSE 0 END) AS BIGINT) AS simulated,
    MIN(c.boot_id) AS first_boot,
    MAX(c.boot_id) AS last_boot
FROM coverage AS c
WHERE c.begin_ns >= ${begin_ns} AND c.begin_ns < ${end_ns}
GROUP BY c.host
