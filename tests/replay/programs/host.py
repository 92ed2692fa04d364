"""A server and its client, with a cause beyond TCP, or its healthy twin.

host.py serve MODE PORT: serves; MODE says what a request waits for. host.py ask MODE PORT PID: asks PID's server, and prints
how many requests there were and how long they took, as JSON.
"""
import ctypes, fcntl, json, os, signal, socket, sys, threading, time

ROUNDS = 23
WORKERS = 4

def listener(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", port))
    s.listen(64)
    return s

def connected(s):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s

def child():
    """Forks a child that ends with its parent; true in the child."""
    pid = os.fork()
    if not pid:
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return not pid

def use_cpu(ms):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        pass

def log_to(pause_s):
    """A pipe with a reader that takes a page, then pauses."""
    take, give = os.pipe()
    if child():
        os.close(give)
        while os.read(take, 4096):
            time.sleep(pause_s)
        os._exit(0)
    os.close(take)
    fcntl.fcntl(give, fcntl.F_SETPIPE_SZ, 4096)
    return lambda: os.write(give, b"x" * 4096)

def sync_file():
    fd = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    def sync():
        for _ in range(8):
            os.write(fd, b"x" * 4096)
            os.fdatasync(fd)
    return sync

def beside(work):
    def forever():
        while True:
            work()
            time.sleep(0.05)
    threading.Thread(target=forever, daemon=True).start()
    return lambda: None

WORK = {
    "blocked_log": lambda: log_to(0.03),
    "drained_log": lambda: log_to(0),
    "sync": sync_file,
    "sync_beside": lambda: beside(sync_file()),
    "quota": lambda: lambda: use_cpu(15),
    "quota_left": lambda: lambda: use_cpu(15),
    "stopped": lambda: lambda: None,
    "running": lambda: lambda: None,
}

def serve_one(port, work):
    s = listener(port)
    c = connected(s.accept()[0])
    while c.recv(4096):
        work()
        c.sendall(b"done")

def worker(port):
    import select
    s = listener(port)
    poll, open_ = select.epoll(), {}
    poll.register(s, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == s.fileno():
                c = connected(s.accept()[0])
                open_[c.fileno()] = c
                poll.register(c, select.EPOLLIN)
                continue
            c = open_[fd]
            asked = c.recv(4096)
            if not asked:
                poll.unregister(fd)
                open_.pop(fd).close()
                continue
            if asked != b"who":
                use_cpu(3)
            c.sendall(b"%08d" % os.getpid())

def serve_workers(port):
    for _ in range(WORKERS):
        if child():
            worker(port)
    signal.pause()

def request(s, text=b"get"):
    before = time.monotonic_ns()
    s.sendall(text)
    s.recv(100)
    return time.monotonic_ns() - before

def ask_one(mode, port, pid):
    s = connected(socket.create_connection(("127.0.0.1", port)))
    took = []
    for number in range(ROUNDS):
        stops = mode == "stopped" and number % 2
        if stops:
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(0.06, os.kill, (pid, signal.SIGCONT)).start()
        took.append(request(s))
        time.sleep(0.002)
    return took

def spread(port, wanted):
    """Connections of as many workers as wanted says, so many at each."""
    at = {}
    while True:
        s = connected(socket.create_connection(("127.0.0.1", port)))
        s.sendall(b"who")
        pid = s.recv(100)
        at.setdefault(pid, []).append(s)
        full = sorted((len(it) for it in at.values()), reverse=True)
        if len(full) >= len(wanted) and all(a >= b for a, b in zip(full, wanted)):
            most = sorted(at.values(), key=len, reverse=True)
            return [s for of, number in zip(most, wanted) for s in of[:number]]

def ask_workers(mode, port):
    sockets = spread(port, [5, 1] if mode == "uneven" else [2, 2, 1, 1])
    took, threads = [], []
    def rounds(s):
        for _ in range(ROUNDS):
            took.append(request(s))
            time.sleep(0.002)
    for s in sockets:
        threads.append(threading.Thread(target=rounds, args=(s,)))
    [it.start() for it in threads]
    [it.join() for it in threads]
    return took

def main():
    role, mode, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if role == "serve":
        if mode in WORK:
            return serve_one(port, WORK[mode]())
        return serve_workers(port)
    took = ask_one(mode, port, int(sys.argv[4])) if mode in WORK else ask_workers(mode, port)
    print(json.dumps({"requests": len(took), "total_ns": sum(took), "longest_ns": max(took)}))

main()
