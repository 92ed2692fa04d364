"""Starts a real server, drives it with its own client over loopback, and ends it.

Arguments: which server, and an empty directory that it may use."""

import atexit
import glob
import http.client
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys

LINES = 300
FILES = [100, 5_000, 300_000, 2_000_000]
NGINX = """
daemon off; worker_processes 2; pid {0}/pid; error_log {0}/errors; user root;
events {{ worker_connections 64; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_timeout 60;
  client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;
  uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
  server {{ listen 127.0.0.1:{1}; root {0}; }}
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def connected(port, server):
    """The server's first connection: a caller waits only as long as the server needs."""
    while server.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            os.sched_yield()
    sys.exit(f"the server ended with {server.returncode}")


def start(*words, **more):
    server = subprocess.Popen([str(word) for word in words], **{"stdout": subprocess.DEVNULL, **more})
    atexit.register(server.terminate)  # also where its client fails
    return server


def run(*words, **more):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, **more)


def redis(_):
    port = free_port()
    server = start("redis-server", "--port", port, "--save", "")
    connected(port, server).close()
    run("redis-benchmark", "-p", port, "-q", "-n", 3_000, "-c", 4, "-P", 3, "-d", 700, "-t", "set,get")
    return server


def memcached(_):
    port = free_port()
    server = start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", port, "-U", 0)
    choice = random.Random(3)
    with connected(port, server) as connection:
        answers = connection.makefile("rb")
        for number in range(LINES):
            value = bytes(choice.randint(1, 40_000))
            connection.sendall(b"set k%d 0 0 %d\r\n%s\r\n" % (number, len(value), value))
            assert answers.readline() == b"STORED\r\n"
            connection.sendall(b"get k%d\r\n" % number)
            answers.readline()
            assert len(answers.read(len(value) + 7)) == len(value) + 7
    return server


def nginx(directory):
    port = free_port()
    for size in FILES:
        with open(f"{directory}/{size}", "wb") as file:
            file.write(bytes(size))
    with open(f"{directory}/conf", "w", encoding="ascii") as conf:
        conf.write(NGINX.format(directory, port))
    server = start("nginx", "-p", directory, "-c", f"{directory}/conf")
    connected(port, server).close()
    client = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(60):
        size = FILES[number % len(FILES)]
        client.request("GET", f"/{size}")
        assert len(client.getresponse().read()) == size
    client.close()
    return server


def postgresql(directory):
    binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    user = pwd.getpwnam("postgres")
    os.chown(directory, user.pw_uid, user.pw_gid)
    of_user = {"user": user.pw_uid, "group": user.pw_gid, "cwd": directory}
    run(f"{binaries}/initdb", "-D", f"{directory}/data", "-A", "trust", **of_user)
    port = free_port()
    server = start(
        *[f"{binaries}/postgres", "-D", f"{directory}/data", "-p", port, "-k", directory],
        *["-c", "fsync=off"],
        stderr=subprocess.DEVNULL,
        **of_user,
    )
    at = ["-h", "127.0.0.1", "-p", port]
    connected(port, server).close()
    while subprocess.run([f"{binaries}/pg_isready", "-q", *map(str, at)], check=False).returncode:
        os.sched_yield()
    run(f"{binaries}/pgbench", *at, "-i", "-q", "postgres", stderr=subprocess.DEVNULL, **of_user)
    run(f"{binaries}/pgbench", *at, "-c", 4, "-t", 100, "postgres", stderr=subprocess.DEVNULL, **of_user)
    return server


def iperf3(_):
    port = free_port()
    server = start("iperf3", "-s", "-p", port, "--forceflush", stdout=subprocess.PIPE, text=True)
    for load in [["-n", "200M", "-P", 2], ["-n", "20M", "-l", 3_000]]:
        # it says so before each test: until then it is busy with the one before
        if not any("Server listening" in line for line in server.stdout):
            sys.exit(f"the server ended with {server.wait()}")
        run("iperf3", "-c", "127.0.0.1", "-p", port, *load)
    return server


which, directory = sys.argv[1:]
running = {f.__name__: f for f in [redis, memcached, nginx, postgresql, iperf3]}[which](directory)
running.terminate()
running.wait()
shutil.rmtree(directory)
