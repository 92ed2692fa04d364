-- Addresses that each host has used: where an address is of one host only, a peer's host is known by it.
SELECT
    f.local_address AS address,
    h.host_no AS host_no
FROM fleet_connections AS f
JOIN hosts AS h ON f.host = h.host
GROUP BY f.local_address, h.host_no
