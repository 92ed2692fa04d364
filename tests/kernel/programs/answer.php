<?php
// Asks the server behind for each request, and answers what that one does.
$upstream = stream_socket_client("tcp://127.0.0.1:UPSTREAM");
fwrite($upstream, "GET / HTTP/1.1\r\nHost: lab\r\n\r\n");
$answer = explode("\r\n\r\n", stream_get_contents($upstream), 2)[1];
header("Content-Length: " . strlen($answer));
echo $answer;
