"""A parent and two children that share a listening socket; the second child has a child of its own, which has not.

Arguments: the port, and what the parent does: `closes` its socket, or keeps it under the name `systemd`. All wait all the
time; the file `ready` says that everything is as it should be."""

import ctypes
import os
import socket
import sys
import time

PR_SET_NAME = 15


def wait_always():
    while True:
        time.sleep(0.005)


def fork(run, *arguments):
    if os.fork() == 0:
        run(*arguments)
        os._exit(1)


def serve(listener, ready, has_child):
    if has_child:
        fork(wait_without, listener, ready)
    else:
        os.write(ready, b".")
    listener.settimeout(0.005)
    while True:
        try:
            listener.accept()[0].close()
        except TimeoutError:
            pass


def wait_without(listener, ready):
    listener.close()
    os.write(ready, b".")
    wait_always()


port, parent = sys.argv[1:]
listening = socket.create_server(("127.0.0.1", int(port)))
ready_end, signal_end = os.pipe()
fork(serve, listening, signal_end, False)
fork(serve, listening, signal_end, True)
if parent == "systemd":
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"systemd")
else:
    listening.close()
for _ in range(2):
    os.read(ready_end, 1)
open("ready", "x", encoding="ascii").close()
wait_always()
