"""Gives each connection a process of its own: the first a child, the second another program that has it as standard
input, the third another program that has it not. Each waits all the time. Prints their pids.

Arguments: the port, and a program in Python that waits all the time."""

import ctypes
import os
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1


def become(how, connection, program):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if how == "forked":
        exec(program, {})
    given = connection.fileno() if how == "kept" else os.open("/dev/null", os.O_RDONLY)
    os.dup2(given, 0)
    os.execvp("python3", ["python3", "-c", program])


port, waiting = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", int(port)))
print("{}", flush=True)
for how in ["forked", "kept", "without"]:
    accepted = listener.accept()[0]
    accepted.recv(1)
    child = os.fork()
    if child == 0:
        become(how, accepted, waiting)
    print(child, flush=True)
signal.pause()
