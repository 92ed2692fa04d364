-- Hosts that at some time of the window were recorded at detail `stats`, where delayed ACKs are not measured.
SELECT c.host AS host
FROM fleet_coverage AS c
WHERE c.detail = 'stats' AND c.begin_ns >= ${begin_ns} AND c.begin_ns < ${end_ns}
GROUP BY c.host
