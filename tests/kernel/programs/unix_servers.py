"""Starts a real server that listens at a UNIX socket, drives it with its own client, and ends it. Prints, as JSON, how
many requests were answered.

Arguments: which server, and an empty directory that it may use."""

import atexit
import glob
import http.client
import json
import os
import pwd
import socket
import subprocess
import sys

ROUNDS = 211
NGINX = """
daemon off; worker_processes 1; pid {0}/pid; error_log {0}/errors; user root;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;
  uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
  server {{ listen 127.0.0.1:{1}; location / {{ proxy_pass http://unix:{0}/app.sock; }} }}
}}
"""
APPLICATION = "def answer(environ, start):\n    start('200 OK', [('Content-Length', '3')])\n    return [b'yes']\n"


def connected(address, server, family=socket.AF_UNIX):
    """The server's first connection: a caller waits only as long as the server needs."""
    while server.poll() is None:
        one = socket.socket(family)
        try:
            one.connect(address)
            return one
        except (FileNotFoundError, ConnectionRefusedError):
            one.close()
            os.sched_yield()
    sys.exit(f"the server ended with {server.returncode}")


def start(*words, **more):
    server = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, **more)
    atexit.register(server.terminate)  # also where its client fails
    return server


def run(*words, **more):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, **more)


def redis(directory):
    path = f"{directory}/redis.sock"
    server = start("redis-server", "--port", 0, "--unixsocket", path, "--save", "", cwd=directory)
    connected(path, server).close()
    run("redis-benchmark", "-s", path, "-q", "-n", ROUNDS, "-c", 4, "-t", "get")
    server.terminate()
    server.wait()
    # one more: redis-benchmark asks for the server's configuration
    return {"path": path, "client": "redis-benchmark", "server": "redis-server", "requests": ROUNDS + 1}


def postgresql(directory):
    binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    user = pwd.getpwnam("postgres")
    os.chown(directory, user.pw_uid, user.pw_gid)
    of_user = {"user": user.pw_uid, "group": user.pw_gid, "cwd": directory, "stderr": subprocess.DEVNULL}
    run(f"{binaries}/initdb", "-D", f"{directory}/data", "-A", "trust", **of_user)
    with open(f"{directory}/log", "wb") as log:
        server = start(
            *[f"{binaries}/postgres", "-D", f"{directory}/data", "-k", directory],
            *["-c", "listen_addresses=", "-c", "fsync=off", "-c", "log_line_prefix=<%a>"],
            *["-c", "log_statement=all", "-c", "log_connections=on"],
            **{**of_user, "stderr": log},
        )
    while subprocess.run([f"{binaries}/pg_isready", "-q", "-h", directory], check=False).returncode:
        os.sched_yield()
    run(f"{binaries}/pgbench", "-h", directory, "-i", "-q", "postgres", **of_user)
    with open(f"{directory}/log", "rb") as log:
        before = len(log.read())
    run(f"{binaries}/psql", "-h", directory, "-c", "checkpoint", "postgres", **of_user)
    server_name = "pgselect"
    os.symlink(f"{binaries}/pgbench", f"{directory}/{server_name}")
    run(f"{directory}/{server_name}", "-h", directory, "-S", "-n", "-c", 2, "-t", ROUNDS, "postgres", **of_user)
    server.terminate()
    server.wait()
    with open(f"{directory}/log", encoding="utf-8") as log:
        lines = log.read()[before:].splitlines()
    answered = [line for line in lines if line.startswith(f"<{server_name}>") and "statement: " in line]
    path = f"{directory}/.s.PGSQL.5432"
    # the log-in of a connection is a part of its first request if the thread waited for it, else a request of its own
    return {"path": path, "client": server_name, "requests": len(answered), "log_ins": True}


def nginx(directory):
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    with open(f"{directory}/conf", "w", encoding="ascii") as conf:
        conf.write(NGINX.format(directory, port))
    with open(f"{directory}/application.py", "w", encoding="ascii") as source:
        source.write(APPLICATION)
    path = f"{directory}/app.sock"
    words = ["gunicorn", "-w", 1, "-b", f"unix:{path}", "--log-level", "critical", "application:answer"]
    application = start(*words, cwd=directory, stderr=subprocess.DEVNULL)
    connected(path, application).close()
    server = start("nginx", "-p", directory, "-c", f"{directory}/conf")
    connected(("127.0.0.1", port), server, socket.AF_INET).close()
    client = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(ROUNDS):
        client.request("GET", "/")
        assert client.getresponse().read() == b"yes"
    client.close()
    for one in (server, application):
        one.terminate()
        one.wait()
    return {"path": path, "client": "nginx", "server": "gunicorn", "requests": ROUNDS}


def pair(_):
    """A process and its child."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        near.close()
        while message := far.recv(100):
            far.send(message)
        os._exit(0)
    far.close()
    for _ in range(ROUNDS):
        near.send(b"x" * 71)
        assert len(near.recv(100)) == 71
    near.close()
    os.wait()
    return {"path": "socketpair", "client": "python3", "server": "python3", "requests": ROUNDS}


which, where = sys.argv[1:]
print(json.dumps({f.__name__: f for f in [redis, postgresql, nginx, pair]}[which](where)))
