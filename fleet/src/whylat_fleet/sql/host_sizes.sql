-- The most connections of each host at the end of an interval of the window.
SELECT h.host_no AS host_no, MAX(c.connections) AS connections
FROM coverage AS c
JOIN hosts AS h ON c.host = h.host
GROUP BY h.host_no
