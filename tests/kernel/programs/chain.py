"""A client, a chain of three servers, and others that have nothing to do with the client.

Each is a process. The client asks the first server over TCP, that one the second server, and this one the third over a UNIX
socket, at which a request takes a sleep. Another client asks the first server, too, and two more processes talk to each
other. The first server has a child that only waits. Every connection but the client's later ones is open, and was used,
before the first line is printed: the processes by name. With a line on standard input all ask; the second line printed is
how often each side asked."""

import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time

SIZE = 61
KEPT, SINGLE, OTHER = 53, 7, 11
SLEEP_S = 0.001


PR_SET_PDEATHSIG = 1


def fork(run, *arguments):
    """Starts a process, which ends with this one and has no listening socket but that of its arguments."""
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for listener in listeners:
            if listener not in arguments:
                listener.close()
        run(*arguments)
        os._exit(1)
    return pid


def ask(connection):
    connection.sendall(b"?" * SIZE)
    assert len(connection.recv(SIZE, socket.MSG_WAITALL)) == SIZE


def serve_one(connection, connect_next):
    behind = connect_next() if connect_next else None
    while connection.recv(SIZE, socket.MSG_WAITALL):
        if behind:
            ask(behind)
        else:
            time.sleep(SLEEP_S)
        connection.sendall(b"!" * SIZE)


def serve(listener, connect_next, has_child):
    if has_child:
        fork(wait_beside, listener)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_one, args=(connection, connect_next), daemon=True).start()


def wait_beside(_listener):
    wait_always()


def wait_always():
    while True:
        time.sleep(0.005)


def ask_all(connect, ready, go, done, kept, single):
    connection = connect()
    ask(connection)
    os.write(ready, b".")
    os.read(go, 1)
    for _ in range(kept):
        ask(connection)
    for _ in range(single):
        with connect() as other:
            ask(other)
    os.write(done, b".")
    wait_always()


def connector(address):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET

    def connect():
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.connect(address)
        return connection

    return connect


back_end = socket.socket(socket.AF_UNIX)
back_end.bind(sys.argv[1])
back_end.listen()
middle_end, front_end, apart_end = (socket.create_server(("127.0.0.1", 0)) for _ in range(3))
listeners = [back_end, middle_end, front_end, apart_end]
(ready, is_ready), (done, is_done) = os.pipe(), os.pipe()
goes = [os.pipe() for _ in range(3)]
pids = {
    "back": fork(serve, back_end, None, False),
    "middle": fork(serve, middle_end, connector(sys.argv[1]), False),
    "front": fork(serve, front_end, connector(middle_end.getsockname()), True),
    "apart": fork(serve, apart_end, None, False),
}
front, apart = connector(front_end.getsockname()), connector(apart_end.getsockname())
pids["client"] = fork(ask_all, front, is_ready, goes[0][0], is_done, KEPT, SINGLE)
pids["other"] = fork(ask_all, front, is_ready, goes[1][0], is_done, OTHER, 0)
pids["asker"] = fork(ask_all, apart, is_ready, goes[2][0], is_done, OTHER, 0)
for listener in listeners:
    listener.close()
for _ in goes:
    os.read(ready, 1)
print(json.dumps(pids), flush=True)
sys.stdin.readline()
for _, go in goes:
    os.write(go, b".")
for _ in goes:
    os.read(done, 1)
print(json.dumps({"client": KEPT + SINGLE, "other": OTHER}), flush=True)
sys.stdin.readline()
