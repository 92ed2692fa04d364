-- Both hosts of each connection with a known peer's host, and the route between their racks; -1 where a rack is unknown.
SELECT
    c.conn AS conn,
    c.w AS w,
    c.app AS app,
    c.host_no AS host_no,
    p.host_no AS peer_no,
    CASE WHEN a.tor_no >= 0 AND b.tor_no >= 0 THEN a.tor_no * ${tors} + b.tor_no ELSE -1 END AS route
FROM conns AS c
JOIN addresses AS p ON c.peer_address = p.address
JOIN hosts AS a ON c.host_no = a.host_no
JOIN hosts AS b ON p.host_no = b.host_no
WHERE c.host_no <> p.host_no
