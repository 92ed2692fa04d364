"""Streams that do not go the plain way, over loopback with itself. Prints a line of JSON for each call that moved bytes:
the connection, which way, how many, and where its bytes end in the stream.

Argument: which one.

half-closed   the answer comes when both ends have closed, and is read afterwards
shared        two threads send on one socket that is full, then one alone
again         one socket connects twice
error-queue   stamps of what was sent are read beside the stream, and an urgent byte
sendfile      sendfile() waits for room
"""

import ctypes
import json
import os
import socket
import struct
import sys
import tempfile
import threading
import time

SO_COOKIE = 57
TCP_CLOSE = 7
# on x86-64 and on arm64
SENDTO, SENDFILE = ("44", "206"), ("40", "71")
SO_TIMESTAMPING = 37
TX_SOFTWARE, SOFTWARE, OPT_CMSG = 1 << 1, 1 << 4, 1 << 10
LIBC = ctypes.CDLL(None, use_errno=True)


def pair(**options):
    """Both ends of a connection; `sndbuf` of the one that is given first."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.socket()
    if "sndbuf" in options:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options["sndbuf"])
    client.connect(listener.getsockname())
    return client, listener.accept()[0]


def until(condition):
    """Looks every millisecond; the test that started this ends it if it takes too long."""
    while not condition():
        time.sleep(0.001)


class Log:
    """The calls of one end, one way."""

    def __init__(self, connection, direction):
        cookie = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), "little")
        self.known = {"conn": cookie, "direction": direction}
        self.offset = 0

    def add(self, moved, **more):
        self.offset += moved
        print(json.dumps({**self.known, "bytes": moved, "offset_end": self.offset, **more}), flush=True)


def read_to_end(connection, log, size):
    while data := connection.recv(size):
        log.add(len(data))


def state(connection):
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


def half_closed():
    client, server = pair()
    log = Log(client, "received")
    client.send(b"request")
    client.shutdown(socket.SHUT_WR)
    while server.recv(100):
        pass
    server.send(bytes(1009))
    server.close()
    until(lambda: state(client) == TCP_CLOSE)
    read_to_end(client, log, 101)


def waits_in(tid, calls):
    """Is the thread blocked in one of these system calls?"""
    with open(f"/proc/self/task/{tid}/syscall", encoding="ascii") as file:
        return file.read().split()[0] in calls


def has_no_window(connection):
    """Does all that left have its acknowledgement, and does the receiver's window hold back the rest?"""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 148)
    (unacked,), (unsent,) = struct.unpack_from("I", info, 24), struct.unpack_from("I", info, 144)
    return unacked == 0 and unsent > 0


def sending(connection, sent, size, count, tids):
    tids.append(threading.get_native_id())
    for _ in range(count):
        assert connection.send(bytes(size)) == size
        sent.append(size)


def read_exactly(connection, size):
    while size:
        size -= len(connection.recv(min(size, 65536)))


def shared():
    client, server = pair(sndbuf=16384)
    log, sent = Log(client, "sent"), []
    # the first waits for room with what it has begun, and the other one comes between
    for size, count in ((300_007, 7), (31, 41)):
        tids = []
        threading.Thread(target=sending, args=(client, sent, size, count, tids), daemon=True).start()
        # one that waits for acknowledgements alone goes on by itself
        until(lambda tids=tids: tids and waits_in(tids[0], SENDTO) and has_no_window(client))
    read_exactly(server, 300_007 * 7 + 31 * 41)
    until(lambda: len(sent) == 48)
    log.add(sum(sent), calls=len(sent))
    for _ in range(97):
        assert client.send(bytes(211)) == 211
        log.add(211)
        read_exactly(server, 211)


def again():
    client, server = pair()
    for size in (1013, 499):
        sent, received = Log(client, "sent"), Log(client, "received")
        for _ in range(3):
            client.send(bytes(size))
            sent.add(size)
            read_exactly(server, size)
            server.send(bytes(size + 2))
            until(lambda: len(client.recv(4096, socket.MSG_PEEK)) == size + 2)
            client.recv(4096)
            received.add(size + 2)
        if size == 1013:
            assert LIBC.connect(client.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16) == 0
            server.close()
            listener = socket.create_server(("127.0.0.1", 0))
            client.connect(listener.getsockname())
            server = listener.accept()[0]


def error_queue():
    client, server = pair()
    client.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE | OPT_CMSG)
    log = Log(client, "received")

    def stamped():
        try:
            return client.recvmsg(4096, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None

    for _ in range(13):
        client.send(bytes(773))
        until(stamped)
        read_exactly(server, 773)
        server.send(bytes(17))
        log.add(len(client.recv(100)))
    server.send(b"!", socket.MSG_OOB)

    def urgent():
        try:
            return client.recv(1, socket.MSG_OOB)
        except OSError:
            return None

    until(urgent)


def sendfile():
    client, server = pair(sndbuf=16384)
    log = Log(client, "sent")
    tids = []

    def send(file):
        tids.append(threading.get_native_id())
        offset = 0
        while offset < 3_000_017:
            moved = os.sendfile(client.fileno(), file.fileno(), offset, 3_000_017 - offset)
            offset += moved
        log.add(offset)

    with tempfile.TemporaryFile() as file:
        file.truncate(3_000_017)
        thread = threading.Thread(target=send, args=(file,), daemon=True)
        thread.start()
        until(lambda: tids and waits_in(tids[0], SENDFILE))
        read_exactly(server, 3_000_017)
        thread.join()


{"half-closed": half_closed, "shared": shared, "again": again, "error-queue": error_queue, "sendfile": sendfile}[
    sys.argv[1]
]()
