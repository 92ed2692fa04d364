"""nginx, which asks gunicorn, which asks postgres, and their clients. The application notes its requests.

usage: chain.py TRUTH FOLDER: an empty folder
       gunicorn … chain:application, as the first one starts it
"""

import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

import load

POSTGRES_USER = "nobody"
NGINX = """
daemon off; pid nginx.pid; error_log nginx.log; worker_processes 1;
events {{ }}
http {{
    access_log off; keepalive_requests 100000;
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    server {{ listen 127.0.0.1:{clients}; location / {{ proxy_pass http://127.0.0.1:{servers}; }} }}
}}
"""
own = threading.local()


def connect():
    """Begins to speak postgres' protocol, version 3, as a user that needs no password."""
    sock = socket.create_connection(("127.0.0.1", int(os.environ["POSTGRES"])))
    begin = load.times()
    words = f"user\0{POSTGRES_USER}\0database\0postgres\0\0".encode()
    sock.sendall(struct.pack("!II", len(words) + 8, 3 << 16) + words)
    read_ready(sock)
    return sock, elapsed(begin)


def elapsed(begin):
    """Returns how long this thread has waited at least, and at most: what it had or wanted a CPU for counts, too."""
    return load.idle_ns(begin), time.monotonic_ns() - begin[0]


def read_ready(sock):
    """Reads the messages until that which says that the next question may come."""
    data = b""
    while data[-6:-1] != b"Z\0\0\0\5":
        data += sock.recv(4096)


def ask_postgres(text):
    """Returns how long it waited for postgres, ns: at least, and at most."""
    connecting = (0, 0)
    if not hasattr(own, "sock"):
        own.sock, connecting = connect()
    begin = load.times()
    data = text.encode() + b"\0"
    own.sock.sendall(b"Q" + struct.pack("!I", len(data) + 4) + data)
    read_ready(own.sock)
    return [sum(both) for both in zip(connecting, elapsed(begin))]


def compute(us):
    since_ns = time.thread_time_ns()
    while (used_ns := time.thread_time_ns() - since_ns) < us * 1_000:
        pass
    return used_ns


def application(environ, start_response):
    kind, us = environ["PATH_INFO"][1], int(environ["PATH_INFO"][2:])
    used_ns = 0 if kind == "s" else compute(us)
    upstream = ask_postgres(f"SELECT pg_sleep({us / 1e6})" if kind == "s" else "SELECT 1")
    line = (environ["REMOTE_PORT"], 0, used_ns, load.UNKNOWN, 0, 0, *upstream)
    # one write, so that lines of several processes do not mix
    os.write(LOG, (" ".join(map(str, line)) + "\n").encode())
    start_response("200 OK", [("Content-Length", "4")])
    return [b"done"]


def exchange(sock, kind, us):
    request = f"GET /{kind}{us:06} HTTP/1.1\r\nHost: chain\r\n\r\n".encode()
    sock.sendall(request)
    answer = b""
    while not answer.endswith(b"\r\n\r\ndone"):
        answer += sock.recv(4096)
    return len(request)


def begin_postgres(folder, port):
    place = folder / "postgres"
    place.mkdir(mode=0o700)
    shutil.chown(place, POSTGRES_USER)
    folder.chmod(0o711)
    as_user = ["runuser", "-u", POSTGRES_USER, "--"]
    programs = pathlib.Path(shutil.which("postgres")).resolve().parent
    words = [programs / "initdb", "--auth", "trust", "--no-sync", "--pgdata", place]
    subprocess.run([*as_user, *words], check=True, stdout=subprocess.DEVNULL, cwd="/")
    words = ["-D", place, "-p", str(port), "-h", "127.0.0.1", "-k", place]
    # as a child of its own: runuser would stay in between
    words = ["setpriv", f"--reuid={POSTGRES_USER}", "--clear-groups", programs / "postgres", *words]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL, cwd="/")


def begin_gunicorn(port, postgres, log):
    # one thread a worker answers: a second one would take the interpreter's lock, which looks like waiting for postgres
    words = ["--workers", "4", "--threads", "1", "--worker-class", "gthread", "--bind", f"127.0.0.1:{port}"]
    settings = {**os.environ, "POSTGRES": str(postgres), "CHAIN_LOG": log, "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    words = ["gunicorn", "--log-level", "error", *words, "chain:application"]
    return subprocess.Popen(words, env=settings)


def begin_nginx(folder, clients, servers):
    (folder / "nginx.conf").write_text(NGINX.format(clients=clients, servers=servers))
    return subprocess.Popen(["nginx", "-p", folder, "-c", "nginx.conf", "-g", "user root;"], stderr=subprocess.DEVNULL)


def main():
    truth, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    load.sleep_exactly()
    log = truth + ".server"
    clients, servers, postgres = (load.free_port() for _ in range(3))
    children = [begin_postgres(folder, postgres)]
    load.wait_for(postgres).close()
    children.append(begin_gunicorn(servers, postgres, log))
    load.wait_for(servers).close()
    children.append(begin_nginx(folder, clients, servers))
    load.wait_for(clients).close()
    asked = load.run_clients(clients, exchange)
    for child in reversed(children):
        child.terminate()
        child.wait()
    load.write_truth(truth, (clients, servers), asked, load.read_lines(log))


if __name__ == "__main__":
    main()
else:
    LOG = os.open(os.environ["CHAIN_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
