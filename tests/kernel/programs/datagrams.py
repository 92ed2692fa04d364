"""Sends datagrams of random sizes to itself and reads them. Prints a line of JSON for each call that moved one:
the socket, which way, how many bytes, and when the call began and ended; of a received one also its number,
which the sender's line has, too.

Arguments: how, the address at which it reads, and the network namespaces (paths) of the sender and of the
reader. How: `answers` (each is answered; now and then it is peeked at first, read in part, or late), `many`
(several with one call, recvmmsg), `threads` (several readers), `alike` (the same, of one size), `segments`
(UDP_SEGMENT), `joined` (the same, with UDP_GRO at the reader), `lists` (of two processes, over device v0, which gives
several at once), `everyone` (the address is a broadcast's: several sockets get each), `crowd` (the same, of two
processes), `corked` (MSG_MORE), `prompted` (prints its port, and waits for the end of its input), `full` (nobody reads
until the receive buffer is full)."""

import ctypes
import fcntl
import json
import os
import random
import socket
import struct
import sys
import threading
import time

SO_COOKIE = 57
CLONE_NEWNET = 0x40000000
SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
NUMBER = struct.Struct("I")
libc = ctypes.CDLL(None, use_errno=True)
log = []
# for datagrams that nobody has read: the receive buffer holds so many of 30 segments each, however late the reader is
places = threading.Semaphore(4)


def cookie(sock):
    return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), "little")


def note(sock, direction, moved, begin_ns, number, cut=0, parts=1):
    line = {"conn": cookie(sock), "direction": direction, "bytes": moved, "begin_ns": begin_ns}
    line.update(end_ns=time.monotonic_ns(), tid=threading.get_native_id())
    log.append({**line, "number": number, "cut": cut, "parts": parts})


def enter(netns):
    """This thread only."""
    if netns and libc.setns(os.open(netns, os.O_RDONLY), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns({netns})")


def datagram(number, choice, most=20_000):
    return NUMBER.pack(number) + bytes(choice.randint(0, most))


def send(sock, number, what, to=None, flags=0):
    begin_ns = time.monotonic_ns()
    sent = sock.sendto(what, flags, to) if to else sock.send(what, flags)
    note(sock, "sent", sent, begin_ns, number)


def receive(sock, most=65_536, flags=0):
    """Returns the sender of the datagram."""
    begin_ns = time.monotonic_ns()
    taken, _, _, sender = sock.recvmsg(most, 0, flags)
    number = NUMBER.unpack_from(taken)[0] if len(taken) >= NUMBER.size else None
    if not flags & socket.MSG_PEEK:
        note(sock, "received", len(taken), begin_ns, number)
        places.release()
    return sender


def answer(sock, count):
    choice = random.Random(7)
    for number in range(count):
        if choice.random() < 0.05:
            time.sleep(choice.random() / 200)
        if choice.random() < 0.2:
            receive(sock, flags=socket.MSG_PEEK)
        begin_ns = time.monotonic_ns()
        if choice.random() < 0.2:
            taken, sender = sock.recvfrom(64)
            size = expected[number]
            note(sock, "received", len(taken), begin_ns, number, max(0, size - 64))
        else:
            sender = receive(sock)
        send(sock, number, datagram(number, choice), sender)


def ask(netns, address, count):
    """Odd ones go through a socket that is connected."""
    enter(netns)
    choice = random.Random(8)
    free, connected = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
    connected.connect(address)
    for number in range(count):
        what = datagram(number, choice) if number % 10 else NUMBER.pack(number)
        expected.append(len(what))
        sock = connected if number % 2 else free
        send(sock, number, what, None if number % 2 else address)
        receive(sock)
    send(free, None, b"", address)


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_len", ctypes.c_uint32), ("vectors", ctypes.c_void_p)]
    _fields_ += [("vector_count", ctypes.c_size_t), ("control", ctypes.c_void_p)]
    _fields_ += [("control_len", ctypes.c_size_t), ("flags", ctypes.c_size_t), ("len", ctypes.c_uint32)]


def receive_many(sock, count):
    room = 16
    buffers = [ctypes.create_string_buffer(32_768) for _ in range(room)]
    vectors = [Vector(ctypes.addressof(it), len(it)) for it in buffers]
    while count:
        headers = (Header * room)()
        for header, vector in zip(headers, vectors):
            header.vectors, header.vector_count = ctypes.addressof(vector), 1
        begin_ns = time.monotonic_ns()
        waitforone = 0x10000
        taken = libc.recvmmsg(sock.fileno(), headers, room, waitforone, None)
        for header, buffer in zip(headers[:taken], buffers):
            note(sock, "received", header.len, begin_ns, NUMBER.unpack_from(buffer)[0])
            places.release()
        count -= taken


def send_all(netns, address, count, burst, most=1_000, is_read=True):
    enter(netns)
    choice = random.Random(9)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    for number in range(count):
        if is_read:
            places.acquire()
        send(sock, number, datagram(number, choice, most), address)
        if number % burst == 0:
            time.sleep(choice.random() / 300)


def listen_too(address):
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(address)
    return sock


def give_lists(device):
    """The driver of the pair (veth) then polls, and gives what it has in lists, as those of adapters do."""
    sioc_ethtool, ethtool_sgro = 0x8946, 0x2C
    value = ctypes.create_string_buffer(struct.pack("II", ethtool_sgro, 1))
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, sioc_ethtool, request)


def send_apart(netns, address, numbers, burst):
    """In a process of its own, in bursts, one for each byte on a socket. Returns its id, and that socket."""
    ours, its = socket.socketpair()
    child = os.fork()
    if child:
        return child, ours
    ours.close()
    enter(netns)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for at in range(0, len(numbers), burst):
        its.recv(1)
        for number in numbers[at : at + burst]:
            send(sock, number, datagram(number, random.Random(number), 1_000), address)
        its.send(b".")
    os.write(1, "".join(json.dumps(line) + "\n" for line in log).encode())
    os._exit(0)


def receive_bursts(socks, senders, count, burst):
    """Each burst when it is there: then no call has a datagram before the kernel reports it to its socket."""
    for at in range(0, count, burst * len(senders)):
        for _, sender in senders:
            sender.send(b".")
        for _, sender in senders:
            sender.recv(1)
        for _ in range(min(burst * len(senders), count - at)):
            for sock in socks:
                receive(sock)
    for child, _ in senders:
        os.waitpid(child, 0)


def send_segments(netns, address, count):
    """Of 100 bytes each, the last of less."""
    enter(netns)
    choice = random.Random(9)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(SOL_UDP, UDP_SEGMENT, 100)
    for number in range(count):
        places.acquire()
        send(sock, number, datagram(number, choice, 3_000), address)


def receive_segments(sock, count, joined):
    if joined:
        sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    choice = random.Random(9)
    for number in range(count):
        rest = len(datagram(number, choice, 3_000))
        while rest:
            begin_ns = time.monotonic_ns()
            taken = len(sock.recv(65_536))
            note(sock, "received", taken, begin_ns, number, parts=-(-taken // 100))
            rest -= taken
        places.release()


def send_corked(netns, address, count):
    """In three pieces; the last one releases the datagram."""
    enter(netns)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.connect(address)
    for number in range(count):
        send(sock, number, NUMBER.pack(number), flags=socket.MSG_MORE)
        send(sock, number, bytes(10), flags=socket.MSG_MORE)
        send(sock, number, bytes(20))
        time.sleep(0.0005)


def fill(sock, count):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
    send_all(None, sock.getsockname(), count, count, is_read=False)
    sock.setblocking(False)
    try:
        while True:
            receive(sock)
    except BlockingIOError:
        pass


def start(target, *arguments):
    thread = threading.Thread(target=target, args=arguments)
    thread.start()
    return thread


how, host, sender_netns, own_netns = (sys.argv[1:] + [None] * 4)[:4]
enter(own_netns)
family = socket.AF_INET6 if ":" in host else socket.AF_INET
server = socket.socket(family, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, how in ("everyone", "crowd"))
server.bind((host, 0))
at = server.getsockname()
expected, threads = [], []
if how == "answers":
    threads.append(start(ask, sender_netns, at, 503))
    answer(server, 503)
    begin_ns = time.monotonic_ns()
    assert server.recv(10) == b""
    note(server, "received", 0, begin_ns, None)
elif how == "many":
    threads.append(start(send_all, sender_netns, at, 1009, 7))
    receive_many(server, 1009)
elif how in ("threads", "alike"):
    readers = [start(lambda: [receive(server) for _ in range(251)]) for _ in range(4)]
    send_all(sender_netns, at, 1004, 3, 0 if how == "alike" else 1_000)
    threads = readers
elif how == "segments":
    threads.append(start(send_segments, sender_netns, at, 101))
    receive_segments(server, 101, joined=False)
elif how == "joined":
    threads.append(start(send_segments, sender_netns, at, 101))
    receive_segments(server, 101, joined=True)
elif how == "lists":
    give_lists("v0")
    count, burst = 2002, 26
    senders = [send_apart(sender_netns, at, range(first, count, 2), burst) for first in (0, 1)]
    receive_bursts([server], senders, count, burst)
elif how in ("everyone", "crowd"):
    listeners = [server] + [listen_too(at) for _ in range(6)]
    count = 2 if how == "crowd" else 1
    senders = [send_apart(sender_netns, at, range(first, 211 * count, count), 5) for first in range(count)]
    receive_bursts(listeners, senders, 211 * count, 5)
elif how == "corked":
    threads.append(start(send_corked, sender_netns, at, 101))
    for _ in range(101):
        receive(server)
elif how == "prompted":
    sender = socket.socket(family, socket.SOCK_DGRAM)
    sender.connect(at)
    print(at[1], flush=True)
    sys.stdin.read()
    for number in range(101):
        send(sender, number, NUMBER.pack(number))
        receive(server)
elif how == "full":
    fill(server, 503)
for thread in threads:
    thread.join()
for line in log:
    print(json.dumps(line))
