"""A client that asks its server, a child, a number of questions: over one connection (`kept`), or over one each (`each`).

usage: questioner.py kept|each QUESTIONS
"""

import os
import socket
import sys


def answer(sock):
    while sock.recv(64):
        sock.sendall(b"answer")
    sock.close()


def ask(sock):
    sock.sendall(b"question")
    assert sock.recv(64) == b"answer"


def main():
    is_kept, questions = sys.argv[1] == "kept", int(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0))
    connections = 1 if is_kept else questions
    if os.fork() == 0:
        for _ in range(connections):
            answer(listener.accept()[0])
        os._exit(0)
    for _ in range(connections):
        with socket.create_connection(listener.getsockname()) as sock:
            for _ in range(questions // connections):
                ask(sock)
    os.wait()
    print("asked", questions)


main()
