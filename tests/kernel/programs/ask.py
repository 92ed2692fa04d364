"""Starts a server, asks it, and ends it.

usage: ask.py REQUESTS COMMAND...: the command prints the port at which it listens, and ends with its connection.
"""

import socket
import subprocess
import sys


def main():
    with subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, text=True) as server:
        with socket.create_connection(("127.0.0.1", int(server.stdout.readline()))) as sock:
            for _ in range(int(sys.argv[1])):
                sock.sendall(b"?")
                assert sock.recv(1) == b"!"


main()
