-- Connections by application.
SELECT c.conn AS conn, c.w AS w, a.app_no + ${first} AS resource
FROM conns AS c
JOIN apps AS a ON c.app = a.app
