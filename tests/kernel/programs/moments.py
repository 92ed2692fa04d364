"""Messages over TCP: every fiftieth lies unread for three milliseconds. Meanwhile its reader makes
MARKS system calls that nobody else here makes. Prints one line of JSON for each of those.

Argument: how many messages."""

import json
import os
import select
import socket
import sys
import threading
import time

MARKS = 13
SIZE = 16


def echo(connection):
    while data := connection.recv(SIZE):
        connection.sendall(data)


def held_up(connection):
    """The message has come; it is not read yet."""
    select.select([connection], [], [])
    begin_ns = time.monotonic_ns()
    for mark in range(1, MARKS + 1):
        os.getpgid(0)
        while time.monotonic_ns() < begin_ns + mark * 3_000_000 // MARKS:
            pass
    return {"begin_ns": begin_ns, "end_ns": time.monotonic_ns(), "tid": threading.get_native_id()}


listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
other = threading.Thread(target=echo, args=[server])
other.start()
for number in range(1, int(sys.argv[1]) + 1):
    client.sendall(bytes(SIZE))
    if number % 50 == 0:
        truth = held_up(client)
        print(json.dumps(truth | {"offset_end": number * SIZE}), flush=True)
    left = SIZE
    while left:
        left -= len(client.recv(left))
client.close()
other.join()
