-- Connections by the host whose sockets they are.
SELECT w.conn AS conn, w.w AS w, w.host_no + ${first} AS resource FROM weights AS w
