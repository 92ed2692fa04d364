-- Connections without a problem of their own in a bin in which, or beside which, one of the same process had one: agents
-- write how long the application gave them nothing to send.
SELECT
    b.conn AS conn,
    b.host_no AS host_no,
    CAST(FLOOR(CAST(b.bin AS DOUBLE) / ${merge}) AS INTEGER) AS bin,
    b.idle_us AS idle_us
FROM bins AS b
WHERE b.idle_us IS NOT NULL
