"""Plants waits on descriptors that a thread has come by in many ways, and prints each as a line of JSON
with its own timing (CLOCK_MONOTONIC).

usage: objects.py | objects.py many SOCKETS | objects.py threads THREADS
"""

import ctypes
import json
import os
import queue
import resource
import socket
import sys
import threading
import time

LENGTH_S = 0.02
SO_COOKIE = 57
CLONE_NEWNET = 0x40000000
lines = []


def note(kind, sock, start_ns, tid=None):
    end_ns = time.monotonic_ns()
    conn = 0
    if kind in ("connection", "listener"):
        conn = int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), sys.byteorder)
    line = {
        "kind": kind,
        "object": os.fstat(sock.fileno()).st_ino,
        "conn": conn,
        "fd": sock.fileno(),
        "tid": tid or threading.get_native_id(),
        "start_ns": start_ns,
        "end_ns": end_ns,
    }
    lines.append(line)


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return near, far


def plant(kind, near, far):
    """Waits on `near` until another thread has sent over `far`."""

    def end():
        time.sleep(LENGTH_S)
        far.send(b"x")

    ender = threading.Thread(target=end)
    ender.start()
    start_ns = time.monotonic_ns()
    near.recv(1)
    note(kind, near, start_ns)
    ender.join()


def in_child(near, far):
    """A child waits on what it has inherited, and reports over a pipe."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        lines.clear()
        start_ns = time.monotonic_ns()
        near.recv(1)
        note("connection", near, start_ns)
        os.write(write_end, json.dumps(lines[0]).encode())
        os._exit(0)
    time.sleep(LENGTH_S)
    far.send(b"x")
    lines.append(json.loads(os.read(read_end, 4096)))
    os.waitpid(child, 0)


def passed(near, far):
    """Over a UNIX socket."""
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], [near.fileno()])
    _, descriptors, _, _ = socket.recv_fds(other, 1, 1)
    plant("connection", socket.socket(fileno=descriptors[0]), far)


def elsewhere():
    """In a network namespace of its own, by a thread that ends."""

    def work():
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        near, far = socket.socketpair()
        plant("unix", near, far)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ender = threading.Thread(target=lambda: (time.sleep(LENGTH_S), refuse(listener)))
            ender.start()
            start_ns = time.monotonic_ns()
            try:
                listener.accept()
            except OSError:
                pass
            note("listener", listener, start_ns)
            ender.join()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def refuse(listener):
    """Ends an accept() that waits: the socket listens no more."""
    listener.shutdown(socket.SHUT_RDWR)


def becomes_another():
    """A child that becomes another program, which waits on what it has inherited."""
    near, far = tcp_pair()
    os.set_inheritable(near.fileno(), True)
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    child = os.fork()
    if child == 0:
        words = [sys.executable, sys.argv[0], "inherited", str(near.fileno()), str(write_end)]
        os.execv(sys.executable, words)
    # It says when it is about to wait.
    os.read(read_end, 1)
    time.sleep(LENGTH_S)
    far.send(b"x")
    lines.append(json.loads(os.read(read_end, 4096)))
    os.waitpid(child, 0)


def inherited(near, write_end):
    near = socket.socket(fileno=near)
    os.write(write_end, b"x")
    start_ns = time.monotonic_ns()
    near.recv(1)
    note("connection", near, start_ns)
    os.write(write_end, json.dumps(lines[0]).encode())


def one_of_each():
    near, far = tcp_pair()
    plant("connection", near, far)
    plant("connection", near.dup(), far)
    in_child(near, far)
    passed(near, far)
    elsewhere()
    becomes_another()
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    plant("unix", near, far)


def many(count):
    """UDP sockets: each is one descriptor."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receivers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for receiver in receivers:
        receiver.bind(("127.0.0.1", 0))
    asked = queue.SimpleQueue()

    def end():
        for _ in range(count):
            # The other thread holds the interpreter until it is blocked in recv().
            sender.sendto(b"x", asked.get())

    ender = threading.Thread(target=end)
    ender.start()
    for receiver in receivers:
        address = receiver.getsockname()
        start_ns = time.monotonic_ns()
        asked.put(address)
        receiver.recv(1)
        note("datagram", receiver, start_ns)
    ender.join()


def threads(count):
    pairs = [socket.socketpair() for _ in range(count)]
    threading.stack_size(256 << 10)

    def wait(near):
        start_ns = time.monotonic_ns()
        near.recv(1)
        note("unix", near, start_ns)

    waiting = [threading.Thread(target=wait, args=(near,)) for near, _ in pairs]
    for thread in waiting:
        thread.start()
    for _, far in pairs:
        far.send(b"x")
    for thread in waiting:
        thread.join()


def main():
    match sys.argv[1:]:
        case []:
            one_of_each()
        case ["many", count]:
            many(int(count))
        case ["threads", count]:
            threads(int(count))
        case ["inherited", near, write_end]:
            inherited(int(near), int(write_end))
            return
    for line in lines:
        print(json.dumps(line))


if __name__ == "__main__":
    main()
