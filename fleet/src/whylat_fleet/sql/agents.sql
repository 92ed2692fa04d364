-- Costs and gaps of each host's agent.
SELECT
    c.host AS host,
    CAST(SUM(c.length_us) AS BIGINT) AS watched_us,
    CAST(SUM(c.cpu_us) AS BIGINT) AS cpu_us,
    SUM(c.bpf_us) AS bpf_us,
    CAST(MAX(c.rss_bytes) AS BIGINT) AS rss_bytes,
    CAST(SUM(c.polls) AS BIGINT) AS polls,
    CAST(SUM(c.lost) AS BIGINT) AS lost,
    CAST(SUM(c.rows) AS BIGINT) AS stored_rows,
    CAST(MAX(c.dropped_files) AS BIGINT) AS dropped_files
FROM fleet_coverage AS c
WHERE c.begin_ns >= ${begin_ns} AND c.begin_ns < ${end_ns}
GROUP BY c.host
