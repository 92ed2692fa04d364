-- Fast retransmissions against timeouts by the rate at which a connection got data through (SNAP figure 5): each interval
-- of each connection is a point. A timeout is a loss also where it could send nothing again.
SELECT
    k.rate_class AS rate_class,
    COUNT(*) AS intervals,
    SUM(CASE WHEN k.fast + k.timeouts > 0 THEN 1 ELSE 0 END) AS with_loss,
    SUM(CASE WHEN k.timeouts > k.fast THEN 1 ELSE 0 END) AS more_timeouts,
    CAST(SUM(k.fast) AS BIGINT) AS fast,
    CAST(SUM(k.timeouts) AS BIGINT) AS timeouts
FROM (
    SELECT
        ${rate_class} AS rate_class,
        CASE WHEN i.retrans > i.timeouts THEN i.retrans - i.timeouts ELSE 0 END AS fast,
        i.timeouts AS timeouts
    FROM fleet_intervals AS i
    JOIN hosts AS h ON i.host = h.host
    WHERE i.begin_ns >= ${begin_ns} AND i.begin_ns < ${end_ns} AND i.timeouts IS NOT NULL AND i.length_us > 0
) AS k
GROUP BY k.rate_class
