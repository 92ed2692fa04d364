"""Sockets that come to a program in other ways than by its own connect() and accept(), and programs without a TCP
connection. Prints, as JSON, how many calls moved bytes in the recorded process, by kind, when it ends.

    sockets.py accepted-by-child HOST   prints its port; after a line on standard input, a child that is made then
                                        accepts, copies the descriptor (dup), and echoes on both copies
    sockets.py passed METHOD               prints the port and the process that is to get the connection, by METHOD
                                        (scm_rights or pidfd_getfd), after a line on standard input
    sockets.py client HOST PORT         sends ROUNDS messages, and reads the answers; prints nothing
    sockets.py udp | unix | nothing     exchanges messages with itself over such sockets, or none
"""

import array
import ctypes
import json
import os
import socket
import sys

ROUNDS = 23
SIZE = 71


def echo(connections):
    """Answers each message, on the copies of one connection in turn."""
    calls = {"reads": 0, "writes": 0, "pid": os.getpid()}
    while True:
        connection = connections[calls["reads"] % len(connections)]
        message = connection.recv(SIZE, socket.MSG_WAITALL)
        if not message:
            return calls
        calls["reads"] += 1
        connection.sendall(message)
        calls["writes"] += 1


def listen(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((host, 0))
    listener.listen()
    return listener


def accepted_by_child(host):
    listener = listen(host)
    print(listener.getsockname()[1], flush=True)
    sys.stdin.readline()
    child = os.fork()
    if child == 0:
        connection, _ = listener.accept()
        print(json.dumps(echo([connection, connection.dup()])), flush=True)
        os._exit(0)
    os.waitpid(child, 0)


def take_by_pidfd(pid, number):
    """pidfd_open(2), pidfd_getfd(2): numbers of x86-64 and arm64 alike."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(434, pid, 0)
    taken = libc.syscall(438, pidfd, number, 0)
    assert taken >= 0, os.strerror(ctypes.get_errno())
    return taken


def receive(method, channel, sender):
    """The process that gets the connection."""
    if method == "scm_rights":
        message, more, _, _ = channel.recvmsg(8, socket.CMSG_SPACE(4))
        numbers = array.array("i")
        numbers.frombytes(more[0][2][:4])
        number = numbers[0]
    else:
        number = take_by_pidfd(sender, int(channel.recv(8)))
    connection = socket.socket(fileno=number)
    channel.send(b"y")
    print(json.dumps(echo([connection])), flush=True)


def passed(method):
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sender = os.getpid()
    child = os.fork()
    if child == 0:
        near.close()
        receive(method, far, sender)
        os._exit(0)
    far.close()
    listener = listen("127.0.0.1")
    print(listener.getsockname()[1], child, flush=True)
    connection, _ = listener.accept()
    sys.stdin.readline()
    if method == "scm_rights":
        rights = array.array("i", [connection.fileno()])
        near.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    else:
        near.send(str(connection.fileno()).encode())
    near.recv(1)
    connection.close()
    os.waitpid(child, 0)


def client(host, port):
    with socket.create_connection((host, port)) as connection:
        print(connection.getsockname()[1], flush=True)
        sys.stdin.readline()
        for _ in range(ROUNDS):
            connection.sendall(bytes(SIZE))
            assert len(connection.recv(SIZE, socket.MSG_WAITALL)) == SIZE


def datagrams(kind):
    """Messages from one socket to another of the same process."""
    if kind == "udp":
        to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        to.bind(("127.0.0.1", 0))
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.connect(to.getsockname())
    else:
        sender, to = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for _ in range(ROUNDS):
        sender.send(bytes(SIZE))
        assert len(to.recv(SIZE)) == SIZE


def main():
    role, arguments = sys.argv[1], sys.argv[2:]
    if role == "accepted-by-child":
        accepted_by_child(arguments[0])
    elif role == "passed":
        passed(arguments[0])
    elif role == "client":
        client(arguments[0], int(arguments[1]))
    elif role in ("udp", "unix"):
        datagrams(role)


main()
