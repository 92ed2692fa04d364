-- `quiet`, with each connection's process.
SELECT q.conn AS conn, o.host_no AS host_no, o.pid AS pid, q.bin AS bin, CAST(q.idle_us AS BIGINT) AS idle_us
FROM quiet AS q
JOIN owners AS o ON q.conn = o.conn
