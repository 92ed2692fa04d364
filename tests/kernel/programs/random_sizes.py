"""Sends 300 pieces of random sizes to itself and reads them in other random sizes; now and then it peeks
first, asks for all of what it wants (MSG_WAITALL), or comes late. Prints a line of JSON for each call that
moved bytes: the connection, which way, how many, and when the call began and ended.

Arguments: the address at which it reads, and the network namespaces (paths) of the sender and of the reader;
with the name that the device has in both, packets are cut before it and joined behind it (GRO). With `late` instead
of all but the address, nothing is read before the sender has closed its socket, which takes all that there is."""

import ctypes
import fcntl
import json
import os
import random
import socket
import struct
import sys
import threading
import time

PIECES = 300
SO_COOKIE = 57
CLONE_NEWNET = 0x40000000
SO_SNDBUFFORCE = 32
ROOM_FOR_ALL = 16 << 20
# include/uapi/linux/ethtool.h, sockios.h
SIOCETHTOOL, ETHTOOL_STSO, ETHTOOL_SGRO = 0x8946, 0x1F, 0x2C
FLAGS = [0] * 8 + [socket.MSG_PEEK, socket.MSG_WAITALL]


class Log:
    """The calls of one end, one way."""

    def __init__(self, connection, direction):
        cookie = connection.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8)
        self.known = {"conn": int.from_bytes(cookie, "little"), "direction": direction}
        self.lines = []

    def add(self, moved, begin_ns, end_ns):
        line = {**self.known, "bytes": moved, "begin_ns": begin_ns, "end_ns": end_ns}
        self.lines.append(json.dumps(line))


def send(connection, choice):
    log = Log(connection, "sent")
    for _ in range(PIECES):
        rest = bytes(choice.randint(1, 30_000))
        while rest:
            begin_ns = time.monotonic_ns()
            given = connection.send(rest)
            log.add(given, begin_ns, time.monotonic_ns())
            rest = rest[given:]
        if choice.random() < 0.3:
            time.sleep(choice.random() / 500)
    connection.shutdown(socket.SHUT_WR)
    return log


def receive(connection, choice):
    log = Log(connection, "received")
    while True:
        flags = choice.choice(FLAGS)
        if choice.random() < 0.05:
            time.sleep(choice.random() / 200)
        begin_ns = time.monotonic_ns()
        taken = len(connection.recv(choice.randint(1, 65_536), flags))
        end_ns = time.monotonic_ns()
        if taken == 0:
            return log
        if flags != socket.MSG_PEEK:
            log.add(taken, begin_ns, end_ns)


def enter(netns):
    """This thread only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(os.open(netns, os.O_RDONLY), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns({netns})")


def offload(device, what, on):
    value = ctypes.create_string_buffer(struct.pack("II", what, on))
    request = struct.pack("16sP", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def client(address, netns, device, is_late, logs):
    if netns:
        enter(netns)
    if device:
        offload(device, ETHTOOL_STSO, 0)
    with socket.create_connection(address) as connection:
        if is_late:
            connection.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, ROOM_FOR_ALL)
        logs.append(send(connection, random.Random(7)))


address, client_netns, own_netns, device = (sys.argv[1:] + [None] * 4)[:4]
is_late = client_netns == "late"
if is_late:
    client_netns = None
if own_netns:
    enter(own_netns)
if device:
    offload(device, ETHTOOL_SGRO, 1)
listener = socket.create_server((address, 0))
logs = []
sender = threading.Thread(target=client, args=(listener.getsockname(), client_netns, device, is_late, logs))
sender.start()
connection = listener.accept()[0]
if is_late:
    sender.join()
logs.append(receive(connection, random.Random(8)))
sender.join()
for log in logs:
    print("\n".join(log.lines))
