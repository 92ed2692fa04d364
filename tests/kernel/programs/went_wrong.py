import fcntl
import os
import select
import socket
import struct
import threading

ROUNDS = 31
POLL = ("7", "271", "73")  # poll, ppoll; ppoll of arm64
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def connect(address):
    with socket.socket() as one:
        one.setblocking(False)
        return one.connect_ex(address)


def until_waits(tid):
    while True:
        with open(f"/proc/self/task/{tid}/syscall") as file:
            if file.read().split()[0] in POLL:
                return


def answer(server, tid):
    for _ in range(ROUNDS):
        question, client = server.recvfrom(100)
        until_waits(tid)
        server.sendto(question, client)


loopback_up()
with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as file:
    file.write("40000 40000")

for _ in range(ROUNDS):  # nobody listens
    connect(("127.0.0.1", 9))
listener = socket.create_server(("127.0.0.1", 5000))
only = socket.create_connection(("127.0.0.1", 5000))
accepted = listener.accept()[0]
for _ in range(ROUNDS):  # the only port is in use
    connect(("127.0.0.1", 5000))
# a connection that a RST ends
accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
accepted.close()

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.53", 53))
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect(("127.0.0.53", 53))
poll = select.poll()
poll.register(client, select.POLLIN)
helper = threading.Thread(target=answer, args=(server, threading.get_native_id()))
helper.start()
for _ in range(ROUNDS):
    client.send(b"x" * 20)
    poll.poll()
    client.recv(100)
helper.join()
for _ in range(ROUNDS):  # nobody answers
    poll.poll(3)
print(os.getpid())
