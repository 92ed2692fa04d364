"""Clients in threads, which note what each request was, and the file with the truth of a program.

The truth: {"clients": port, "servers": port, "asked": [[port, offset, begin_ns, end_ns]],
"served": [[port, offset, cpu_ns, timer_ns, upstream_ns]]}: the ports that clients ask, and that of the server
that notes its work; then a line a request. Its port is that of the end that asks, its offset that of its first byte.
"""

import ctypes
import json
import random
import socket
import threading
import time

CONNECTIONS, EACH = 8, 400
# What a request makes the server do: compute or sleep, that many microseconds.
KINDS = (("c", 100), ("c", 300), ("c", 2_000), ("s", 1_000), ("s", 5_000))
WEIGHTS = (60, 20, 5, 10, 5)
# Between two requests of a client, on average: so the server is idle now and then.
THINK_S = 0.006
PR_SET_TIMERSLACK = 29


def read(sock, size):
    data = b""
    while len(data) < size and (more := sock.recv(size - len(data))):
        data += more
    return data


def wait_for(port):
    """Returns a connection to a server that begins."""
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def ask(port, seed, is_eager, exchange, log):
    chosen, offset = random.Random(seed), 0
    with socket.create_connection(("127.0.0.1", port)) as sock:
        own = sock.getsockname()[1]
        for _ in range(EACH):
            kind, us = chosen.choices(KINDS, WEIGHTS)[0]
            if not is_eager:
                time.sleep(chosen.expovariate(1 / THINK_S))
            begin_ns = time.monotonic_ns()
            size = exchange(sock, kind, us)
            log.append((own, offset, begin_ns, time.monotonic_ns()))
            offset += size


def run_clients(port, exchange, is_eager=False):
    """Asks on all connections at once. `exchange` sends a request, reads the response and returns the request's bytes.
    Eager clients never wait before they ask."""
    log = []
    clients = [
        threading.Thread(target=ask, args=(port, seed, is_eager, exchange, log)) for seed in range(CONNECTIONS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return log


def sleep_exactly():
    """Timers of this process and of its children end when they are due, not up to 50 us later."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)


def write_truth(path, ports, asked, served):
    with open(path, "w") as out:
        json.dump({"clients": ports[0], "servers": ports[1], "asked": asked, "served": served}, out)


def read_lines(path):
    with open(path) as lines:
        return [tuple(map(int, line.split())) for line in lines]
