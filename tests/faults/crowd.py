#!/usr/bin/env python3
"""The programs of `crowds.py`: many processes, connections or namespaces, and at the end what was what.

Each says `ready`, waits for a line, and then does what its first word asks. Loopback of its own namespace only.
"""

import ctypes
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

SO_COOKIE = 57
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
# Linger with no time: closing resets, so that no port waits in TIME_WAIT.
AT_ONCE = struct.pack("ii", 1, 0)
# A port is free again long before, s.
FREE_WITHIN_S = 60


def cookie(sock):
    """Returns the kernel's name of the socket."""
    return struct.unpack("Q", sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]


def ready(*words):
    """Says so, and waits for a line."""
    print("ready", *words, flush=True)
    sys.stdin.readline()


def listener(backlog=4096):
    """A socket that answers each connection by one byte; its port."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen(backlog)
    return sock, sock.getsockname()[1]


def answer_all(sock):
    """Takes connections until the process ends."""

    def serve():
        while True:
            peer, _ = sock.accept()
            try:
                if peer.recv(1):
                    peer.send(b"a")
            except OSError:
                pass
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            peer.close()

    threading.Thread(target=serve, daemon=True).start()


def exchange(port, source=0):
    """One connection and one byte each way; its cookie and port."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        if source:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", source))
        sock.connect(("127.0.0.1", port))
        sock.send(b"q")
        sock.recv(1)
        return cookie(sock), sock.getsockname()[1]


def exchange_from(source, port):
    """The same from this port, once the other end of the connection before has closed."""
    end = time.monotonic() + FREE_WITHIN_S
    while True:
        try:
            return exchange(port, source)
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.0005)


class CloneArgs(ctypes.Structure):
    """`struct clone_args` of Linux 5.7."""

    _names = ("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls")
    _fields_ = tuple((name, ctypes.c_uint64) for name in (*_names, "set_tid", "set_tid_size", "cgroup"))


def fork_as(pid):
    """`fork`, with a pid of our choice, as long as nobody has it (clone3's set_tid): pids are used again at once."""
    clone3 = 435
    wanted = ctypes.c_int32(pid)
    arguments = CloneArgs(exit_signal=17, set_tid=ctypes.addressof(wanted), set_tid_size=1)
    made = LIBC.syscall(clone3, ctypes.byref(arguments), ctypes.sizeof(arguments))
    return os.fork() if made < 0 else made


# Pids that are used again and again.
PIDS = 8
# Of the processes that make a connection, one in this number stays for a while: a reader every 50 ms still sees it. No
# factor is shared with PIDS, so that every pid has such lives.
STAYING = 5
STAYS_S = 0.1


def forks(count, every):
    """Starts processes; one in `every` makes a connection. Those have few pids; every other one has the same name, so
    that only its start distinguishes it from the process that had its pid before.
    """
    sock, port = listener()
    reader, writer = os.pipe()
    server = os.fork()
    if server == 0:
        answer_all(sock)
        threading.Event().wait()
    sock.close()
    ready()
    pids = []
    for number in range(count):
        connects = number % every == 0
        pid = fork_as(pids[number // every % PIDS]) if connects and len(pids) == PIDS else os.fork()
        if pid == 0:
            if connects:
                own = number // every % 2
                report_exchange(f"fork-{number}" if own else "fork", port, writer)
                time.sleep(STAYS_S if number // every % STAYING == 0 else 0)
            os._exit(0)
        os.waitpid(pid, 0)
        if connects:
            sys.stdout.write(os.read(reader, 4096).decode())
        elif len(pids) < PIDS:
            pids.append(pid)
    os.kill(server, 9)


def take_name(name):
    """From now on this process has this command name: only it may choose any bytes."""
    with open("/proc/self/comm", "wb") as comm:
        comm.write(name)


def named(name):
    """Some connections under a name, given in hexadecimal digits."""
    take_name(bytes.fromhex(name))
    sock, port = listener()
    answer_all(sock)
    ready()
    for _ in range(20):
        exchange(port)


def started_ticks():
    """When this process started, in clock ticks since boot (field 22 of its `stat`; its name may hold anything)."""
    with open("/proc/self/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])


def report_exchange(name, port, writer):
    """Makes one connection under this name, and reports its process, the use of the pid, and the times around it."""
    take_name(name.encode())
    before_ns = time.monotonic_ns()
    conn, own = exchange(port)
    after_ns = time.monotonic_ns()
    words = (os.getpid(), own, name, conn, started_ticks(), before_ns, after_ns)
    os.write(writer, f"{' '.join(map(str, words))}\n".encode())


def flows(count, ports):
    """So many connections, from `ports` ports in turn."""
    sock, port = listener()
    answer_all(sock)
    sources = []
    while len(sources) < ports:
        free = socket.socket()
        free.bind(("127.0.0.1", 0))
        sources.append(free)
    numbers = [free.getsockname()[1] for free in sources]
    for free in sources:
        free.close()
    ready()
    lines = [exchange_from(numbers[number % ports], port) for number in range(count)]
    sys.stdout.write("".join(f"{conn} {own}\n" for conn, own in lines))


def namespaces(count):
    """So many network namespaces one after the other, each with a connection over its loopback."""
    ready()
    for _ in range(count):
        if LIBC.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        with socket.socket() as control:  # SIOCSIFFLAGS: lo up and running
            import fcntl

            fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
        sock, port = listener(4)
        client = socket.create_connection(("127.0.0.1", port))
        server, _ = sock.accept()
        client.send(b"q")
        server.recv(1)
        inode = os.stat("/proc/thread-self/ns/net").st_ino
        print(cookie(client), inode)
        for end in (client, server, sock):
            end.close()


def hold(pairs, holders):
    """So many connections at once, in several processes: none may have as many open files."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sock, port = listener()
    ready(port)
    made = multiprocessing.Barrier(holders)
    each = [pairs // holders + (number < pairs % holders) for number in range(holders)]
    started = [
        multiprocessing.Process(target=hold_some, args=(number, some, sock, port, made))
        for number, some in enumerate(each)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    sock.close()
    sys.exit(any(process.exitcode for process in started))


def hold_some(number, pairs, sock, port, made):
    """So many of them, until all have theirs."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    ends = []
    try:
        for _ in range(pairs):
            client = socket.socket()
            # more connections than one address has ports
            client.bind((f"127.0.{1 + number}.1", 0))
            client.connect(("127.0.0.1", port))
            # perhaps another's: as many are taken as are made
            ends += [client, sock.accept()[0]]
    except OSError:
        made.abort()  # nobody waits for this one
        raise
    made.wait(timeout=600)
    time.sleep(4)  # two polls see them all
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        end.close()


def churn(seconds):
    """Connections, and a program now and then, for so long."""
    sock, port = listener()
    answer_all(sock)
    ready()
    end, made, execs = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        for _ in range(40):
            exchange(port)
            made += 1
        subprocess.run(["true"], check=False)
        execs += 1
    print(made, execs)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    programs = {program.__name__: program for program in (forks, flows, namespaces, hold, churn)}
    if what == "named":
        named(*numbers)
    else:
        programs[what](*(int(float(number)) for number in numbers))
