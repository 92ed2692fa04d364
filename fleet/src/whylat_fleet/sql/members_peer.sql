-- Connections by the host at their other end.
SELECT e.conn AS conn, e.w AS w, e.peer_no + ${first} AS resource FROM ends AS e
