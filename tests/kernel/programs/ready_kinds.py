import os
import select
import socket

ROUNDS = 101
EPOLL = ("232", "281", "441", "22")  # epoll_wait, epoll_pwait, epoll_pwait2; epoll_pwait of arm64

listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
to, knock = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
to.bind(("127.0.0.1", 0))
unix, other = socket.socketpair()
reader, writer = os.pipe()
event = os.eventfd(0)
done, ack = os.pipe()
calls = []

# what waits, what makes it ready, and what takes that
KINDS = [
    (near, lambda: far.send(b"x"), lambda: near.recv(1)),
    (listener, lambda: calls.append(socket.create_connection(listener.getsockname())), lambda: listener.accept()),
    (to, lambda: knock.sendto(b"x", to.getsockname()), lambda: to.recv(1)),
    (unix, lambda: other.send(b"x"), lambda: unix.recv(1)),
    (reader, lambda: os.write(writer, b"x"), lambda: os.read(reader, 1)),
    (event, lambda: os.eventfd_write(event, 1), lambda: os.eventfd_read(event)),
]


def until_waits(pid):
    while True:
        with open(f"/proc/{pid}/syscall") as file:
            if file.read().split()[0] in EPOLL:
                return


waiting = os.getpid()
child = os.fork()
if not child:
    for _, make_ready, _ in KINDS:
        for _ in range(ROUNDS):
            until_waits(waiting)
            make_ready()
            os.read(done, 1)
    os._exit(0)
print(waiting, flush=True)
poll = select.epoll()
for descriptor, _, _ in KINDS:
    poll.register(descriptor, select.EPOLLIN)
for _, _, take in KINDS:
    for _ in range(ROUNDS):
        poll.poll()
        take()
        os.write(ack, b"x")
os.waitpid(child, 0)
for _ in range(ROUNDS):
    poll.poll(0.003)
