-- Connections of each host at the end of its last interval in the window.
SELECT k.host_no AS host_no, k.connections AS connections
FROM (
    SELECT
        h.host_no AS host_no,
        c.connections AS connections,
        ROW_NUMBER() OVER (PARTITION BY c.host ORDER BY c.begin_ns DESC) AS place
    FROM fleet_coverage AS c
    JOIN hosts AS h ON c.host = h.host
    WHERE c.begin_ns >= ${begin_ns} AND c.begin_ns < ${end_ns}
) AS k
WHERE k.place = 1
