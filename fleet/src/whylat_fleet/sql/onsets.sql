-- Bins in which delayed ACKs to a connection begin: the first of each run of bins with a delayed ACK. In a run, bin
-- less row number is the same.
SELECT r.conn AS conn, r.host_no AS host_no, r.pid AS pid, MIN(r.bin) AS bin
FROM (
    SELECT
        c.conn AS conn,
        o.host_no AS host_no,
        o.pid AS pid,
        c.cell - ${first} AS bin,
        c.cell - ${first} - ROW_NUMBER() OVER (PARTITION BY c.conn ORDER BY c.cell) AS run
    FROM cells AS c
    JOIN owners AS o ON c.conn = o.conn
    WHERE c.cell >= ${first} AND c.cell < ${first} + ${bins}
) AS r
GROUP BY r.conn, r.host_no, r.pid, r.run
