"""Clients, which note what each request was, and the file with the truth of a program.

The truth: {"clients": port, "servers": port, "asked": [[port, offset, begin_ns, end_ns, waited_ns]],
"served": [[port, offset, [cpu_ns, cpu_most_ns], [timer_ns, timer_most_ns], [upstream_ns, upstream_most_ns]]]}: the ports
that clients ask, and that of the server that notes its work; then a line a request. Its port is that of the end that asks,
its offset that of its first byte. Of each part, a server notes what the request took at least and at most: it sees its own
work, not the calls and the run queue around it. At most -1: it cannot say. `waited_ns` is how long the client could run
meanwhile and had no CPU, by the kernel: of that, some may lie between the end of a call and the clock.
"""

import ctypes
import json
import multiprocessing
import os
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
UNKNOWN = -1
own = threading.local()


def read(sock, size):
    data = b""
    while len(data) < size and (more := sock.recv(size - len(data))):
        data += more
    return data


def wait_for(port):
    """Returns a connection to a server that starts."""
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def ask(port, seed, is_eager, exchange):
    log, chosen, offset = [], random.Random(seed), 0
    with socket.create_connection(("127.0.0.1", port)) as sock:
        own_port = sock.getsockname()[1]
        for _ in range(EACH):
            kind, us = chosen.choices(KINDS, WEIGHTS)[0]
            if not is_eager:
                time.sleep(chosen.expovariate(1 / THINK_S))
            waited_ns, begin_ns = run_delay_ns(), time.monotonic_ns()
            size = exchange(sock, kind, us)
            end_ns = time.monotonic_ns()
            log.append((own_port, offset, begin_ns, end_ns, run_delay_ns() - waited_ns))
            offset += size
    return log


def run_clients(port, exchange, is_eager=False):
    """Asks on all connections at once. `exchange` sends a request, reads the response and returns the request's bytes.
    Eager clients never wait before they ask. Each client is a process: a thread would read the clock only when it has the
    interpreter's lock again."""
    with multiprocessing.get_context("fork").Pool(CONNECTIONS) as pool:
        clients = [(port, seed, is_eager, exchange) for seed in range(CONNECTIONS)]
        return [line for log in pool.starmap(ask, clients, chunksize=1) for line in log]


def run_delay_ns():
    """Returns how long this thread could run and had no CPU, as the kernel counts it."""
    if not hasattr(own, "schedstat"):
        own.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    return int(os.pread(own.schedstat, 99, 0).split()[1])


def times():
    """Returns the time, and how long this thread has had a CPU or waited for one; ns."""
    return time.monotonic_ns(), time.thread_time_ns() + run_delay_ns()


def idle_ns(since):
    """Returns how long this thread has neither had nor wanted a CPU."""
    passed_ns, active_ns = (now - then for now, then in zip(times(), since))
    return passed_ns - active_ns


def sleep_exactly():
    """Timers of this process and of its children end when they are due, not up to 50 us later."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)


def served_line(port, offset, *bounds):
    """Returns a line of the truth, of the least and the most of each part."""
    bounds = [*bounds, 0, 0, 0, 0][:6]
    return port, offset, *(bounds[at : at + 2] for at in (0, 2, 4))


def write_truth(path, ports, asked, served):
    served = [served_line(*line) for line in served]
    with open(path, "w") as out:
        json.dump({"clients": ports[0], "servers": ports[1], "asked": asked, "served": served}, out)


def read_lines(path):
    with open(path) as lines:
        return [tuple(map(int, line.split())) for line in lines]
