"""A server that uses 50 ms of CPU time in burn() for each byte that comes."""

import socket
import time


class Work:
    def burn(self):
        end = time.thread_time() + 0.05
        total = 0
        while time.thread_time() < end:
            for number in range(1000):
                total += number
        return total


def serve(sock):
    while sock.recv(1):
        Work().burn()
        sock.sendall(b"!")


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    sock, _ = listener.accept()
    serve(sock)


main()
