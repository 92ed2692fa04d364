"""A client and 67 servers: processes with a listening socket each, that answer and sleep. The first line printed is who they
are; with a line on standard input the client asks each of them some times, over connections that it opens then. The
second line says that it has asked."""

import ctypes
import json
import os
import signal
import socket
import sys
import time

SERVERS, ROUNDS, SIZE = 67, 5, 61
PR_SET_PDEATHSIG = 1


def fork(run, *arguments):
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        run(*arguments)
        os._exit(1)
    return pid


def serve(announce):
    listener = socket.create_server(("127.0.0.1", 0))
    os.write(announce, b"%6d" % listener.getsockname()[1])
    connection, _ = listener.accept()
    listener.close()
    while connection.recv(SIZE, socket.MSG_WAITALL):
        time.sleep(0.001)
        connection.sendall(b"!" * SIZE)
    time.sleep(1000)


def ask(ports, go, done):
    os.read(go, 1)
    connections = [socket.create_connection(("127.0.0.1", port)) for port in ports]
    for _ in range(ROUNDS):
        for connection in connections:
            connection.sendall(b"?" * SIZE)
            assert len(connection.recv(SIZE, socket.MSG_WAITALL)) == SIZE
    os.write(done, b".")
    time.sleep(1000)


announced, announce = os.pipe()
go, is_go = os.pipe()
done, is_done = os.pipe()
servers, ports = [], []
for _ in range(SERVERS):
    servers.append(fork(serve, announce))
    ports.append(int(os.read(announced, 6)))
client = fork(ask, ports, go, is_done)
print(json.dumps({"client": client, "servers": servers}), flush=True)
sys.stdin.readline()
os.write(is_go, b".")
os.read(done, 1)
print("{}", flush=True)
sys.stdin.readline()
