"""Questions over UDP, and their answers, from a server that is a child: with a connected socket each; over one socket that is
not connected, some dropped by the server, so that they are asked again; and datagrams that nobody answers. Prints, as
JSON, the address of the server and the numbers."""

import json
import os
import select
import socket

ROUNDS = 101
DROPPED_EACH = 10
AGAIN_S = 0.02


def datagram_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def serve(server, note):
    dropped = set()
    while True:
        question, client = server.recvfrom(2048)
        if question == b"end":
            os._exit(0)
        if question.startswith(b"drop") and question not in dropped:
            dropped.add(question)
            note.send(b"!")
        else:
            server.sendto(b"answer to " + question, client)


def main():
    server, sink = datagram_socket(), datagram_socket()
    server.bind(("127.0.0.1", 0))
    sink.bind(("127.0.0.1", 0))
    at = server.getsockname()
    note, its_note = socket.socketpair()
    if os.fork() == 0:
        serve(server, its_note)
    server.close()
    for number in range(ROUNDS):
        with datagram_socket() as one:
            one.connect(at)
            one.send(b"question %d" % number)
            one.recv(2048)
    one = datagram_socket()
    for number in range(ROUNDS):
        drops = number % DROPPED_EACH == 0
        question = b"%s %d" % (b"drop" if drops else b"keep", number)
        one.sendto(question, at)
        # only a question that is never answered is asked again: a server that is late answers each question once
        if drops:
            assert not select.select([one], [], [], AGAIN_S)[0]
            # a thread that is preempted for so long does not wait: this call shows that it did something else
            note.recv(1)
            one.sendto(question, at)
        assert one.recvfrom(2048)[0] == b"answer to " + question
    with datagram_socket() as logger:
        logger.connect(sink.getsockname())
        for _ in range(ROUNDS):
            logger.send(b"counter:1|c")
    one.sendto(b"end", at)
    os.wait()
    print(json.dumps({"server": "%s:%d" % at, "sink": "%s:%d" % sink.getsockname(), "rounds": ROUNDS}))


main()
