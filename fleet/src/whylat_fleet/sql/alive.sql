-- How long each connection was there in the window, of all that agents have seen in it.
SELECT
    k.conn AS conn,
    k.host_no AS host_no,
    k.app AS app,
    k.peer_address AS peer_address,
    CASE WHEN k.until_ns > k.from_ns THEN CAST(FLOOR(CAST(k.until_ns - k.from_ns AS DOUBLE) / 1000.0) AS BIGINT) ELSE 0 END AS alive_us
FROM (
    SELECT
        l.conn AS conn,
        l.host_no AS host_no,
        l.app AS app,
        l.peer_address AS peer_address,
        CASE WHEN l.first_ns > ${begin_ns} THEN l.first_ns ELSE ${begin_ns} END AS from_ns,
        CASE WHEN l.closed_ns < ${end_ns} THEN l.closed_ns ELSE ${end_ns} END AS until_ns
    FROM (
        SELECT
            f.conn_id AS conn,
            h.host_no AS host_no,
            COALESCE(f.app, '') AS app,
            ${peer} AS peer_address,
            f.first_ns AS first_ns,
            COALESCE(f.closed_ns, ${end_ns}) AS closed_ns,
            ROW_NUMBER() OVER (PARTITION BY f.conn_id ORDER BY f.time_ns DESC) AS place
        FROM fleet_connections AS f
        JOIN hosts AS h ON f.host = h.host
        WHERE f.time_ns >= ${begin_ns} AND f.time_ns < ${end_ns}
    ) AS l
    WHERE l.place = 1
) AS k
