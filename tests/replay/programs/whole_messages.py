"""Sends messages of one size, some at a time, and reads each whole. Prints nothing.

Arguments: the network namespaces (paths) of the sender and of the reader, the reader's address, bytes of a
message, how many at a time, how often."""

import ctypes
import os
import socket
import sys
import threading

CLONE_NEWNET = 0x40000000


def enter(netns):
    """This thread only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(os.open(netns, os.O_RDONLY), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns({netns})")


def client(where):
    enter(sender_netns)
    with socket.create_connection(where) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(rounds):
            for _ in range(at_a_time):
                connection.sendall(bytes(size))
            assert connection.recv(1)


sender_netns, own_netns, address = sys.argv[1:4]
size, at_a_time, rounds = map(int, sys.argv[4:])
enter(own_netns)
listener = socket.create_server((address, 0))
sender = threading.Thread(target=client, args=(listener.getsockname(),))
sender.start()
connection = listener.accept()[0]
for _ in range(rounds):
    for _ in range(at_a_time):
        assert len(connection.recv(size, socket.MSG_WAITALL)) == size
    connection.sendall(b"!")
sender.join()
