-- Both hosts of each connection whose peer's host is known.
SELECT
    c.conn AS conn,
    c.w AS w,
    c.host_no AS host_no,
    p.host_no AS peer_no,
    a.tor_no AS from_tor,
    b.tor_no AS to_tor
FROM conns AS c
JOIN addresses AS p ON c.peer_address = p.address
JOIN hosts AS a ON c.host_no = a.host_no
JOIN hosts AS b ON p.host_no = b.host_no
WHERE c.host_no <> p.host_no
