"""Sends 300 pieces of random sizes to itself and reads them in other random sizes; now and then it peeks
first, asks for all of what it wants (MSG_WAITALL), or comes late. Prints a line of JSON for each call that
took bytes: the connection, how many, and when the call began and ended."""

import json
import random
import socket
import threading
import time

PIECES = 300
SO_COOKIE = 57
FLAGS = [0] * 8 + [socket.MSG_PEEK, socket.MSG_WAITALL]


def send(connection, choice):
    for _ in range(PIECES):
        connection.sendall(bytes(choice.randint(1, 30_000)))
        if choice.random() < 0.3:
            time.sleep(choice.random() / 500)
    connection.shutdown(socket.SHUT_WR)


def receive(connection, choice):
    cookie = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), "little")
    lines = []
    while True:
        flags = choice.choice(FLAGS)
        if choice.random() < 0.05:
            time.sleep(choice.random() / 200)
        begin_ns = time.monotonic_ns()
        taken = len(connection.recv(choice.randint(1, 65_536), flags))
        end_ns = time.monotonic_ns()
        if taken == 0:
            break
        if flags != socket.MSG_PEEK:
            lines.append({"conn": cookie, "bytes": taken, "begin_ns": begin_ns, "end_ns": end_ns})
    print("\n".join(json.dumps(line) for line in lines))


listener = socket.create_server(("127.0.0.1", 0))
sender = threading.Thread(
    target=lambda: send(socket.create_connection(listener.getsockname()), random.Random(7))
)
sender.start()
receive(listener.accept()[0], random.Random(8))
sender.join()
