"""A thread that lets datagrams wait in its sockets, and notes for how long.

usage: unread_datagrams.py TRUTH: writes a list to it, of each receive call: {"situation", "cookie", "offset_end",
"least_ns", "most_ns"}; of the first one of a socket, from when on its times are kept, without the last two. Both ends are
in one thread, which never sleeps: it computes while datagrams wait.
"""

import ctypes
import errno
import json
import os
import socket
import struct
import sys
import time

ROUNDS = 7
SO_COOKIE = 57
SO_MEMINFO = 55
WAIT_NS = 1_500_000

LIBC = ctypes.CDLL(None, use_errno=True)


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Header(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_len", ctypes.c_uint32),
        ("pieces", ctypes.POINTER(Piece)),
        ("pieces_len", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_len", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class Message(ctypes.Structure):
    _fields_ = [("header", Header), ("len", ctypes.c_uint)]


def receive_many(sock, count):
    """recvmmsg() of so many; returns their lengths."""
    buffers = [ctypes.create_string_buffer(100) for _ in range(count)]
    pieces = (Piece * count)(*(Piece(ctypes.addressof(it), 100) for it in buffers))
    messages = (Message * count)()
    for message, number in zip(messages, range(count), strict=True):
        message.header.pieces = ctypes.pointer(pieces[number])
        message.header.pieces_len = 1
    found = LIBC.recvmmsg(sock.fileno(), messages, count, 0, None)
    assert found == count, ctypes.get_errno()
    return [message.len for message in messages]


def compute(ns):
    until = time.monotonic_ns() + ns
    while time.monotonic_ns() < until:
        pass


def queued_bytes(sock):
    return struct.unpack_from("I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[0]


def bind_to_port(sock, address):
    """Binds to a free port, which this program names: that is how a server differs from a client."""
    for port in range(20_000 + os.getpid() % 10_000, 60_000):
        try:
            return sock.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError("no port is free")


class Server:
    """A socket that receives from one client, which notes how long datagrams waited."""

    def __init__(self, family, address, is_connected, truth):
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.client = socket.socket(family, socket.SOCK_DGRAM)
        bind_to_port(self.sock, address)
        self.client.bind((address, 0))
        self.client.connect(self.sock.getsockname())
        if is_connected:
            self.sock.connect(self.client.getsockname())
        self.kind = "connected " if is_connected else ""
        self.truth = truth
        self.cookie = struct.unpack("Q", self.sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]
        self.received = 0
        self.waiting = []  # (size, before, after): of each, when it came

    def give(self, size):
        """The client sends a datagram; returns when it is there."""
        queued = queued_bytes(self.sock)
        before = time.monotonic_ns()
        self.client.send(b"x" * size)
        while queued_bytes(self.sock) == queued:
            pass
        self.waiting.append((size, before, time.monotonic_ns()))

    def note(self, situation, before, after):
        size, *came = self.waiting.pop(0)
        self.received += size
        if not size:
            return
        row = {"situation": self.kind + situation, "cookie": self.cookie, "offset_end": self.received}
        if situation != "first":
            row |= {"least_ns": before - came[1], "most_ns": after - came[0]}
        self.truth.append(row)

    def take(self, situation):
        """Receives a datagram."""
        before = time.monotonic_ns()
        received, _ = self.sock.recvfrom(100)
        assert len(received) == self.waiting[0][0]
        self.note(situation, before, time.monotonic_ns())

    def take_many(self, situation):
        """Receives all that wait with one call."""
        before = time.monotonic_ns()
        lengths = receive_many(self.sock, len(self.waiting))
        after = time.monotonic_ns()
        assert lengths == [size for size, *_ in self.waiting]
        for _ in lengths:
            self.note(situation, before, after)


def one(server):
    server.give(11)
    compute(WAIT_NS)
    server.take("one")


def several(server):
    """Three wait at a time, and another comes while they are taken."""
    for size in (13, 17, 19):
        server.give(size)
        compute(WAIT_NS)
    server.take("several")
    server.give(23)
    for _ in range(3):
        compute(WAIT_NS)
        server.take("several")


def peeked(server):
    server.give(29)
    compute(WAIT_NS)
    assert len(server.sock.recvfrom(100, socket.MSG_PEEK)[0]) == 29
    compute(WAIT_NS)
    server.take("peeked")


def empty(server):
    """An empty datagram is taken before another."""
    server.give(0)
    compute(WAIT_NS)
    server.give(31)
    compute(WAIT_NS)
    server.take("empty")
    server.take("after an empty one")


def many(server):
    """recvmmsg()"""
    for size in (37, 41, 43):
        server.give(size)
        compute(WAIT_NS)
    server.take_many("many at once")


def main():
    truth = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        for is_connected in (False, True):
            for _ in range(ROUNDS):
                server = Server(family, address, is_connected, truth)
                server.give(5)
                server.take("first")
                for situation in (one, several, peeked, empty, many, one):
                    situation(server)
    with open(sys.argv[1], "w") as file:
        json.dump(truth, file)


main()
