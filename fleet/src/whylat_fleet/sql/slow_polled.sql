-- Connections with readings further apart than a bin is long: what they suffered cannot be put into bins.
SELECT
    i.conn_id AS conn,
    MAX(i.poll_gap_us) AS poll_gap_us
FROM fleet_intervals AS i
JOIN slow_hosts AS h ON i.host = h.host
WHERE i.poll_gap_us > ${bin_us} AND i.begin_ns >= ${begin_ns} AND i.begin_ns < ${end_ns}
GROUP BY i.conn_id
