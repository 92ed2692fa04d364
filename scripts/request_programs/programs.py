"""A server in a process of its own and its clients, in threads. Both note what each request was.

usage: programs.py threads|asyncio|c TRUTH [PROGRAM]: the server, the file to write, and the compiled loop.c.

The truth: {"port", "clients": [[cookie, offset, begin_ns, end_ns]], "servers": [[cookie, offset, cpu_ns, timer_ns]]}.
Cookies and offsets are the name that a request has in a report.
"""

import asyncio
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

SO_COOKIE = 57
REQUEST, RESPONSE = 16, 64
CONNECTIONS, EACH = 8, 250
KINDS = (("c", 100), ("c", 300), ("c", 2_000), ("s", 1_000), ("s", 5_000))
WEIGHTS = (60, 20, 5, 10, 5)


def cookie(sock):
    return struct.unpack("Q", sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]


def compute(us):
    """Uses that much CPU time; returns how much it was, ns."""
    since_ns = time.thread_time_ns()
    while (used_ns := time.thread_time_ns() - since_ns) < us * 1_000:
        pass
    return used_ns


def read(sock, size):
    data = b""
    while len(data) < size and (more := sock.recv(size - len(data))):
        data += more
    return data


def serve(sock, log):
    """A thread a connection."""
    offset = 0
    while len(data := read(sock, REQUEST)) == REQUEST:
        us, slept_ns, used_ns = int(data[1:]), 0, 0
        if data[:1] == b"s":
            time.sleep(us / 1e6)
            slept_ns = us * 1_000
        else:
            used_ns = compute(us)
        log.append((cookie(sock), offset, used_ns, slept_ns))
        sock.sendall(bytes(RESPONSE))
        offset += REQUEST


def threads(listener, path):
    log = []

    def finish(*_):
        write(path, log)
        os._exit(0)

    signal.signal(signal.SIGTERM, finish)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock, log), daemon=True).start()


async def handle(reader, writer, log):
    offset, sock = 0, writer.get_extra_info("socket")
    while True:
        try:
            data = await reader.readexactly(REQUEST)
        except asyncio.IncompleteReadError:
            return writer.close()
        us, slept_ns, used_ns = int(data[1:]), 0, 0
        if data[:1] == b"s":
            await asyncio.sleep(us / 1e6)
            slept_ns = us * 1_000
        else:
            used_ns = compute(us)
        log.append((cookie(sock), offset, used_ns, slept_ns))
        writer.write(bytes(RESPONSE))
        offset += REQUEST


async def loop(listener, path):
    log, over = [], asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await asyncio.start_server(lambda reader, writer: handle(reader, writer, log), sock=listener)
    await over.wait()
    write(path, log)
    os._exit(0)


def write(path, log):
    with open(path, "w") as out:
        out.writelines(" ".join(map(str, line)) + "\n" for line in log)


def ask(address, seed, log):
    chosen = random.Random(seed)
    with socket.create_connection(address) as sock:
        for number in range(EACH):
            kind, us = chosen.choices(KINDS, WEIGHTS)[0]
            data = f"{kind}{us}".ljust(REQUEST).encode()
            begin_ns = time.monotonic_ns()
            sock.sendall(data)
            assert len(read(sock, RESPONSE)) == RESPONSE
            log.append((cookie(sock), number * REQUEST, begin_ns, time.monotonic_ns()))


def begin_server(kind, path):
    """Starts the server; returns its port and how to end it."""
    if kind == "c":
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        child = subprocess.Popen([sys.argv[3], str(port), path])
        while True:
            try:
                quit_by = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                assert child.poll() is None

        def end():
            quit_by.sendall(b"q".ljust(REQUEST))
            child.wait()

        return port, end
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    child = os.fork()
    if child == 0:
        threads(listener, path) if kind == "threads" else asyncio.run(loop(listener, path))
    listener.close()

    def end():
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)

    return port, end


def main():
    kind, truth = sys.argv[1:3]
    path = truth + ".server"
    port, end = begin_server(kind, path)
    log = []
    clients = [
        threading.Thread(target=ask, args=(("127.0.0.1", port), seed, log)) for seed in range(CONNECTIONS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    end()
    with open(path) as lines:
        servers = [tuple(map(int, line.split())) for line in lines]
    with open(truth, "w") as out:
        json.dump({"port": port, "clients": log, "servers": servers}, out)


main()
