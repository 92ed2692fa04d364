-- Resources of each connection, by numbers within the kind; -1 is not known. A route is a pair of top-of-rack switches.
SELECT
    e.conn AS conn,
    e.w AS w,
    CAST(e.host_no AS INTEGER) AS host,
    CAST(e.peer_no AS INTEGER) AS peer,
    CAST(a.app_no AS INTEGER) AS application,
    CAST(e.route AS INTEGER) AS route
FROM ends AS e
JOIN app_numbers AS a ON e.app = a.app
UNION ALL
SELECT
    c.conn AS conn,
    c.w AS w,
    CAST(c.host_no AS INTEGER) AS host,
    CAST(-1 AS INTEGER) AS peer,
    CAST(b.app_no AS INTEGER) AS application,
    CAST(-1 AS INTEGER) AS route
FROM conns AS c
JOIN app_numbers AS b ON c.app = b.app
WHERE c.conn NOT IN (SELECT f.conn FROM ends AS f)
UNION ALL
SELECT
    w.conn AS conn,
    w.w AS w,
    CAST(w.host_no AS INTEGER) AS host,
    CAST(-1 AS INTEGER) AS peer,
    CAST(-1 AS INTEGER) AS application,
    CAST(-1 AS INTEGER) AS route
FROM weights AS w
WHERE w.conn NOT IN (SELECT k.conn FROM conns AS k)
