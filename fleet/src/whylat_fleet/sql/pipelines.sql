-- Of two connections of one process: where ACKs to the first begin to be withheld, how much longer than just before does
-- the application give the second nothing to send, in the same bin (lag 0) and the next?
SELECT
    s.conn AS conn,
    a.conn AS held,
    n.lag AS lag,
    MIN(s.host_no) AS host_no,
    MIN(s.pid) AS pid,
    COUNT(*) AS onsets,
    CAST(SUM(a.idle_us - b.idle_us) AS BIGINT) AS more_us,
    CAST(SUM((a.idle_us - b.idle_us) * (a.idle_us - b.idle_us)) AS BIGINT) AS squares
FROM onsets AS s
CROSS JOIN lags AS n
JOIN quiet_owned AS b ON s.host_no = b.host_no AND s.pid = b.pid AND s.bin - 1 = b.bin
JOIN quiet_owned AS a ON b.conn = a.conn AND s.bin + n.lag = a.bin
WHERE s.conn <> b.conn
GROUP BY s.conn, a.conn, n.lag
HAVING COUNT(*) >= ${least}
