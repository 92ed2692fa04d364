-- Readings of connections around the chosen moments.
SELECT
    m.conn AS conn,
    m.begin_ns AS begin_ns,
    d.time_ns AS time_ns,
    d.length_us AS length_us,
    d.stage AS stage,
    d.writes AS writes,
    d.written_bytes AS written_bytes,
    d.send_queue_bytes AS send_queue_bytes,
    d.unacked_segs AS unacked_segs,
    d.cwnd_segs AS cwnd_segs,
    d.snd_wnd_bytes AS snd_wnd_bytes,
    d.srtt_us AS srtt_us,
    d.retrans AS retrans,
    d.timeouts AS timeouts
FROM fleet_details AS d
JOIN moments AS m ON d.conn_id = m.conn
WHERE d.time_ns >= m.from_ns AND d.time_ns < m.until_ns
