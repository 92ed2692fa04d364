"""A thread that lets bytes wait in its sockets, and notes for how long.

usage: unread.py TRUTH: writes a list to it, of each receive call: {"situation", "cookie", "offset_end", "least_ns",
"most_ns", "is_peek"}. Both ends are in one thread, which never sleeps: it computes while bytes wait. The sender of a stream
is a process of its own.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import sys
import termios
import time

ROUNDS = 7
STREAM_ROUNDS = 101
STREAM_BYTES = 1 << 20  # of a send call
SO_COOKIE = 57
WAIT_NS = 1_500_000  # less than a jiffy, by which the kernel knows it anyway


def compute_until(is_true):
    while not is_true():
        pass


def compute(ns):
    until = time.monotonic_ns() + ns
    compute_until(lambda: time.monotonic_ns() >= until)


def unread(sock):
    return struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, b"    "))[0]


def unacked(sock):
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return struct.unpack_from("I", info, 24)[0]


class End:
    """One end of a connection, which notes how long bytes waited that it receives."""

    def __init__(self, sock, truth):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.truth = truth
        self.cookie = struct.unpack("Q", sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]
        self.received = 0
        self.asked = None  # (before, after): when the first byte came that is not read
        self.waiting = 0

    def give(self, other, size):
        """Sends bytes to the other end, and returns when they are there."""
        before = time.monotonic_ns()
        self.sock.sendall(b"x" * size)
        other.waiting += size
        compute_until(lambda: unread(other.sock) == other.waiting)
        if other.asked is None:
            other.asked = (before, time.monotonic_ns())

    def note(self, situation, before, after, is_peek=False):
        """Notes a receive call: bytes had waited for it since they were asked for."""
        self.truth.append(
            {
                "situation": situation,
                "cookie": self.cookie,
                "is_peek": is_peek,
                "offset_end": self.received,
                "least_ns": before - self.asked[1],
                "most_ns": after - self.asked[0],
            }
        )
        # what is left waits for the next call, from now on
        self.asked = (before, after) if self.waiting else None

    def take(self, situation, size):
        """Receives bytes, some of those that wait."""
        before = time.monotonic_ns()
        assert len(self.sock.recv(size)) == size
        after = time.monotonic_ns()
        self.received += size
        self.waiting -= size
        self.note(situation, before, after)

    def peek(self, situation, size):
        """Looks at bytes that wait: they wait for the next call from now on."""
        before = time.monotonic_ns()
        assert len(self.sock.recv(size, socket.MSG_PEEK)) == size
        self.note(situation, before, time.monotonic_ns(), is_peek=True)

    def take_all(self, situation, size, other, rest):
        """Receives bytes that wait, and others that a process sends when the call has blocked for a while."""
        before = time.monotonic_ns()
        pid = os.fork()
        if pid == 0:
            compute_until(lambda: unread(self.sock) == 0)
            compute(WAIT_NS)
            other.sock.sendall(b"x" * rest)
            os._exit(0)
        assert len(self.sock.recv(size + rest, socket.MSG_WAITALL)) == size + rest
        after = time.monotonic_ns()
        os.waitpid(pid, 0)
        self.received += size + rest
        self.waiting -= size
        # the first bytes had waited until it blocked
        self.note(situation, before, after - WAIT_NS)

    def acknowledge(self, other):
        """Acknowledges all that the other end has sent, by a segment without data."""
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        compute_until(lambda: unacked(other.sock) == 0)


def first(client, server):
    """The first bytes of a connection."""
    client.give(server, 11)
    compute(WAIT_NS)
    server.take("first", 11)


def turns(client, server):
    """A request that acknowledges the response before it, and its response."""
    server.give(client, 5)
    compute(WAIT_NS)
    client.take("response", 5)
    client.give(server, 13)
    compute(WAIT_NS)
    server.take("request", 13)


def after_ack(client, server):
    """A request after a segment that acknowledged the response before it."""
    server.give(client, 5)
    client.take("short", 5)
    client.acknowledge(server)
    compute(WAIT_NS)
    client.give(server, 17)
    compute(WAIT_NS)
    server.take("after an ACK", 17)


def response_after_ack(client, server):
    """A response after a segment that acknowledged its request."""
    client.give(server, 17)
    server.take("short", 17)
    server.acknowledge(client)
    compute(WAIT_NS)
    server.give(client, 7)
    compute(WAIT_NS)
    client.take("response after an ACK", 7)


def parts(client, server):
    """A request of three segments: the first one's time counts."""
    for size in (19, 23, 29):
        client.give(server, size)
        compute(WAIT_NS)
    server.take("parts", 19 + 23 + 29)


def rest(client, server):
    """Bytes that a call has left, and more that came since."""
    client.give(server, 31)
    compute(WAIT_NS)
    server.take("some", 10)
    compute(WAIT_NS)
    client.give(server, 37)
    compute(WAIT_NS)
    server.take("the rest", 21 + 37)


def wait_for_all(client, server):
    """A call that takes what had waited, and then more."""
    client.give(server, 41)
    compute(WAIT_NS)
    server.take_all("all", 41, client, 43)
    client.give(server, 47)
    compute(WAIT_NS)
    server.take("after all", 47)


def ack_while_unread(client, server):
    """A segment without data comes while bytes wait."""
    server.give(client, 3)
    client.take("short", 3)
    client.acknowledge(server)
    client.give(server, 41)
    server.give(client, 3)
    client.take("short", 3)
    compute(WAIT_NS)
    client.acknowledge(server)
    compute(WAIT_NS)
    server.take("an ACK while unread", 41)


def peeked(client, server):
    """A reader looks at bytes first: at some that acknowledge a response, and at some that acknowledge nothing."""
    server.give(client, 3)
    client.take("short", 3)
    for size in (43, 47):
        client.give(server, size)
        compute(WAIT_NS)
        server.peek("a look", size)
        compute(WAIT_NS)
        server.take("after a look", size)


def stream(truth):
    """A slow reader of a stream takes all there is, while more comes: the first of it had waited."""
    sender, receiver = connect(socket.AF_INET, "127.0.0.1")
    begin = time.monotonic_ns()
    pid = os.fork()
    if pid == 0:
        receiver.close()
        while True:
            sender.sendall(bytes(STREAM_BYTES))
    sender.close()
    end = End(receiver, truth)
    buffer = bytearray(8 * STREAM_BYTES)
    for _ in range(STREAM_ROUNDS):
        compute_until(lambda: unread(receiver))
        end.asked = (begin, time.monotonic_ns())
        compute(WAIT_NS)
        begin = time.monotonic_ns()
        end.received += receiver.recv_into(buffer)
        end.note("a stream", begin, time.monotonic_ns())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    receiver.close()


def spliced(truth):
    """Bytes wait at the end of a connection. Those before them went through a splice, long ago."""
    client, server = (End(sock, truth) for sock in connect(socket.AF_INET, "127.0.0.1"))
    client.give(server, 11)
    assert os.splice(server.sock.fileno(), os.pipe()[1], 11) == 11
    server.waiting, server.asked = 0, None
    compute(WAIT_NS)
    # the next bytes acknowledge the response, and no segment does so before them
    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    server.give(client, 3)
    client.take("short", 3)
    client.give(server, 7)
    before = time.monotonic_ns()
    server.sock.close()
    server.note("after a splice", before, time.monotonic_ns())


def mptcp(client, server):
    """A request over MPTCP: nobody sees since when its bytes wait."""
    client.give(server, 43)
    compute(WAIT_NS)
    server.take("MPTCP", 43)


def connect(family, address, protocol=0):
    listener = socket.socket(family, socket.SOCK_STREAM, protocol)
    listener.bind((address, 0))
    listener.listen()
    client = socket.socket(family, socket.SOCK_STREAM, protocol)
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    listener.close()
    return client, server


def main():
    truth = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        for _ in range(ROUNDS):
            client, server = (End(sock, truth) for sock in connect(family, address))
            first(client, server)
            for situation in (turns, after_ack, response_after_ack, parts, rest):
                situation(client, server)
            for situation in (wait_for_all, ack_while_unread, peeked, turns):
                situation(client, server)
    stream(truth)
    spliced(truth)
    client, server = (End(sock, truth) for sock in connect(socket.AF_INET, "127.0.0.1", socket.IPPROTO_MPTCP))
    for _ in range(ROUNDS):
        mptcp(client, server)
    with open(sys.argv[1], "w") as file:
        json.dump(truth, file)


main()
