"""A server with threads and its client, in two processes: they note when each request began and ended.

usage: requests.py TRUTH: writes {"port": port, "requests": [[begin_ns, end_ns, sleeps], ...]} to it.
Times are of CLOCK_MONOTONIC, and enclose all calls of a request.
"""

import json
import os
import signal
import socket
import sys
import threading
import time

KEPT = 211  # requests on one connection
SINGLE = 53  # connections with one request
LOG = 31  # messages that nobody answers
SLEEP_EVERY = 17  # one request of so many sleeps
SLEEP_NS = 20_000_000


def read(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


def serve(sock):
    """Answers requests: 4 bytes of the number, 4 of the size of the answer."""
    while (head := read(sock, 8)) is not None:
        number, size = int.from_bytes(head[:4]), int.from_bytes(head[4:])
        if size == 0:
            continue  # of the log
        if number % SLEEP_EVERY == 0:
            time.sleep(SLEEP_NS / 1e9)
        sock.sendall(b"a" * (size // 2))
        sock.sendall(b"b" * (size - size // 2))
    sock.close()


def server(listener):
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


def ask(sock, number, size):
    sock.sendall(number.to_bytes(4) + size.to_bytes(4))
    assert read(sock, size) is not None


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    child = os.fork()
    if child == 0:
        server(listener)
    listener.close()
    requests = []
    begin_ns = time.monotonic_ns()
    with socket.create_connection(address) as sock:
        for number in range(KEPT):
            if number > 0:
                begin_ns = time.monotonic_ns()
            ask(sock, number, 2 + number * 101)
            requests.append((begin_ns, time.monotonic_ns(), number % SLEEP_EVERY == 0))
    for number in range(SINGLE):
        begin_ns = time.monotonic_ns()
        with socket.create_connection(address) as sock:
            ask(sock, number, 1_000)
            requests.append((begin_ns, time.monotonic_ns(), number % SLEEP_EVERY == 0))
    with socket.create_connection(address) as sock:
        for number in range(LOG):
            sock.sendall(number.to_bytes(4) + (0).to_bytes(4))
        # the server closes its end when it has read all
        sock.shutdown(socket.SHUT_WR)
        assert read(sock, 1) is None
    with open(sys.argv[1], "w") as out:
        json.dump({"port": address[1], "requests": requests}, out)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


main()
