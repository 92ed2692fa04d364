"""redis, and its clients: what each command took is in redis' own log of slow commands, which here has all.

usage: redis.py TRUTH
"""

import subprocess
import sys

import load

# A loop of that many turns takes about a microsecond.
TURNS_IN_US = 60
SCRIPT = b"local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i end return n"
SETTINGS = ("--save", "", "--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000", "--enable-debug-command", "yes")


def command(*words):
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def words_of(kind, us):
    if kind == "s":
        return b"DEBUG", b"SLEEP", b"%.6f" % (us / 1e6)
    return b"EVAL", SCRIPT, b"0", b"%d" % (us * TURNS_IN_US)


def exchange(sock, kind, us):
    data = command(*words_of(kind, us))
    sock.sendall(data)
    answer = b""
    while not answer.endswith(b"\r\n"):
        answer += sock.recv(64)
    assert answer[:1] in b"+:", answer
    return len(data)


def value(lines):
    """Reads one value of redis' protocol."""
    head = lines.readline().strip()
    if head[:1] == b"*":
        return [value(lines) for _ in range(int(head[1:]))]
    if head[:1] == b"$":
        return lines.read(int(head[1:]) + 2)[:-2]
    return int(head[1:]) if head[:1] == b":" else head[1:]


def commands_of(port):
    """Returns the notes of redis in order of time: client's port, microseconds of the command, microseconds asleep."""
    with load.wait_for(port) as sock:
        sock.sendall(command(b"SLOWLOG", b"GET", b"-1"))
        entries = value(sock.makefile("rb"))
    entries.sort(key=lambda entry: entry[0])
    for _, _, us, words, client, *_ in entries:
        port = int(client.split(b":")[1])
        if words[0] == b"EVAL":
            yield port, us, 0
        if words[0] == b"DEBUG":
            yield port, us, round(float(words[2]) * 1e6)


def main():
    truth = sys.argv[1]
    load.sleep_exactly()
    port = load.free_port()
    server = subprocess.Popen(["redis-server", "--port", str(port), *SETTINGS], stdout=subprocess.DEVNULL)
    load.wait_for(port).close()
    asked = load.run_clients(port, exchange)
    offsets = {}
    for own, offset, *_ in asked:
        offsets.setdefault(own, []).append(offset)
    for own in offsets:
        offsets[own].sort(reverse=True)
    served = []
    for own, took_us, asleep_us in commands_of(port):
        took_ns, asleep_ns = took_us * 1_000, asleep_us * 1_000
        # of the time of a command that sleeps, the log does not say how much it slept; of one that works, not the calls
        parts = (0, load.UNKNOWN, asleep_ns, took_ns) if asleep_us else (took_ns, load.UNKNOWN)
        served.append((own, offsets[own].pop(), *parts))
    server.terminate()
    server.wait()
    load.write_truth(truth, (port, port), asked, served)


main()
