"""A server in a process of its own, and its clients: `load.py` has what they note.

usage: programs.py TRUTH threads|asyncio|asyncio_busy
       programs.py TRUTH command WORD...: a server that takes a port and the file for its log
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import load

REQUEST, RESPONSE = 16, 64


def compute(us):
    """Uses that much CPU time; returns how much it was, ns."""
    since_ns = time.thread_time_ns()
    while (used_ns := time.thread_time_ns() - since_ns) < us * 1_000:
        pass
    return used_ns


def serve(sock, log):
    """A thread a connection. Its CPU time since it had the request is that of the request, and some of that since the last
    request ended."""
    offset, port = 0, sock.getpeername()[1]
    since_ns = time.thread_time_ns()
    while len(data := load.read(sock, REQUEST)) == REQUEST:
        read_ns = time.thread_time_ns()
        us, slept = int(data[1:]), (0, 0)
        if data[:1] == b"s":
            begin = load.times()
            time.sleep(us / 1e6)
            slept = us * 1_000, max(us * 1_000, load.idle_ns(begin))
        else:
            compute(us)
        sock.sendall(bytes(RESPONSE))
        now_ns = time.thread_time_ns()
        log.append((port, offset, now_ns - read_ns, now_ns - since_ns, *slept))
        since_ns, offset = now_ns, offset + REQUEST


def threads(listener, path):
    log = []

    def finish(*_):
        write(path, log)
        os._exit(0)

    signal.signal(signal.SIGTERM, finish)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock, log), daemon=True).start()


class LoopClock:
    """CPU time of the loop's thread, divided among requests: what it used between two handlers may be of the later one."""

    def __init__(self):
        self.last_ns = time.thread_time_ns()

    def used(self, begin_ns):
        """Returns how much a handler used that ends now, and how much the loop did since the handler before."""
        last_ns, self.last_ns = self.last_ns, time.thread_time_ns()
        return self.last_ns - begin_ns, self.last_ns - last_ns


async def sleep(us):
    """Sleeps; returns how long at least, as was asked, and at most: until the loop ran the timer. Python rounds the time
    limit of epoll up to milliseconds, and others may have had the loop."""
    loop, begin_ns = asyncio.get_running_loop(), time.monotonic_ns()
    over = loop.create_future()
    loop.call_later(us / 1e6, lambda: over.set_result(time.monotonic_ns()))
    return us * 1_000, max(us * 1_000, await over - begin_ns)


async def handle(reader, writer, log, clock):
    offset, port = 0, writer.get_extra_info("peername")[1]
    while True:
        try:
            data = await reader.readexactly(REQUEST)
        except asyncio.IncompleteReadError:
            return writer.close()
        us, slept, used, since_ns = int(data[1:]), (0, 0), (0, 0), time.thread_time_ns()
        if data[:1] == b"s":
            used = clock.used(since_ns)
            slept = await sleep(us)
            since_ns = time.thread_time_ns()
        else:
            compute(us)
        writer.write(bytes(RESPONSE))
        used = [sum(both) for both in zip(used, clock.used(since_ns))]
        log.append((port, offset, *used, *slept))
        offset += REQUEST


async def loop(listener, path):
    log, over, clock = [], asyncio.Event(), LoopClock()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await asyncio.start_server(lambda reader, writer: handle(reader, writer, log, clock), sock=listener)
    await over.wait()
    write(path, log)
    os._exit(0)


def write(path, log):
    with open(path, "w") as out:
        out.writelines(" ".join(map(str, line)) + "\n" for line in log)


def exchange(sock, kind, us):
    sock.sendall(f"{kind}{us}".ljust(REQUEST).encode())
    assert len(load.read(sock, RESPONSE)) == RESPONSE
    return REQUEST


def begin_command(command, path):
    """Starts a server; returns its port and how to end it."""
    port = load.free_port()
    child = subprocess.Popen([*command, str(port), path])
    quit_by = load.wait_for(port)

    def end():
        quit_by.sendall(b"q".ljust(REQUEST))
        child.wait()

    return port, end


def begin_python(kind, path):
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
    truth, kind, *_ = command = sys.argv[1:]
    load.sleep_exactly()
    path = truth + ".server"
    is_python = kind in ("threads", "asyncio", "asyncio_busy")
    port, end = begin_python(kind, path) if is_python else begin_command(command[2:], path)
    asked = load.run_clients(port, exchange, is_eager=kind == "asyncio_busy")
    # a client ends when it has its response: the server may not have noted the last requests
    time.sleep(0.2)
    end()
    load.write_truth(truth, (port, port), asked, load.read_lines(path))


main()
