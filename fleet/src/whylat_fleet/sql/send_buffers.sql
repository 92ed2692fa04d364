-- Send buffers by the number of connections of a host (SNAP section 5.3).
SELECT
    k.size_class AS size_class,
    COUNT(DISTINCT k.host_no) AS hosts,
    COUNT(*) AS connections,
    SUM(CASE WHEN k.send_buffer_us > 0 THEN 1 ELSE 0 END) AS limited,
    CAST(SUM(k.send_buffer_us) AS BIGINT) AS limited_us,
    CAST(SUM(k.watched_us) AS BIGINT) AS watched_us
FROM (
    SELECT
        ${size_class} AS size_class,
        s.host_no AS host_no,
        l.send_buffer_us AS send_buffer_us,
        l.watched_us AS watched_us
    FROM lives AS l
    JOIN host_sizes AS s ON l.host_no = s.host_no
    WHERE l.watched_us > 0
) AS k
GROUP BY k.size_class
