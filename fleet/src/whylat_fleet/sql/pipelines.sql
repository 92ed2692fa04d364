-- Of two connections of one process: where delayed ACKs to the first start, how much longer than just before does
-- the application give the second nothing to send, in the same bin (lag 0) and the next?
SELECT
    s.conn AS conn,
    a.conn AS held,
    s.lag AS lag,
    MIN(s.host_no) AS host_no,
    MIN(s.pid) AS pid,
    COUNT(*) AS onsets,
    CAST(SUM(a.idle_us - b.idle_us) AS BIGINT) AS more_us,
    CAST(SUM((a.idle_us - b.idle_us) * (a.idle_us - b.idle_us)) AS BIGINT) AS squares
FROM (
    SELECT o.conn AS conn, o.host_no AS host_no, o.pid AS pid, o.bin - 1 AS before, o.bin + l.lag AS bin, l.lag AS lag
    FROM onsets AS o
    CROSS JOIN lags AS l
) AS s
JOIN quiet_owned AS b ON s.host_no = b.host_no AND s.pid = b.pid AND s.before = b.bin
JOIN quiet_owned AS a ON b.conn = a.conn AND s.bin = a.bin
WHERE s.conn <> b.conn
GROUP BY s.conn, a.conn, s.lag
HAVING COUNT(*) >= ${least}
