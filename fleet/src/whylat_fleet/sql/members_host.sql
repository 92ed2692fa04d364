-- Connections by the host that has their sockets.
SELECT w.conn AS conn, w.w AS w, w.host_no + ${first} AS resource FROM weights AS w
