"""Plants drops and resets, one step a word of the command line, and prints what it planted as lines of JSON.

Runs as root between two network namespaces, a (10.99.0.1) and b (10.99.0.2), that are joined by the devices v0. All traffic is to
port PORT, unless the step says otherwise.
"""

import ctypes
import json
import os
import re
import socket
import struct
import subprocess
import sys

PORT = int(sys.argv[3])
A, B = "10.99.0.1", "10.99.0.2"
LIBC = ctypes.CDLL(None, use_errno=True)
NAMESPACES = {name: os.open(path, os.O_RDONLY) for name, path in zip("ab", sys.argv[1:3])}


def enter(name):
    if LIBC.setns(NAMESPACES[name], 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")


def run(name, *command, stdin=None):
    enter(name)
    return subprocess.run(command, input=stdin, text=True, check=True, capture_output=True).stdout


def sysctl(name, key, value):
    enter(name)
    with open("/proc/sys/" + key.replace(".", "/"), "w") as file:
        file.write(str(value))


def send(count, to=B, size=100, **options):
    """Sends datagrams from a; those that the kernel refuses are counted by it."""
    enter("a")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for option, value in options.items():
            sender.setsockopt(socket.IPPROTO_IP, getattr(socket, option), value)
        for _ in range(count):
            try:
                sender.sendto(b"x" * size, (to, PORT))
            except OSError:
                pass


def bound(name, kind=socket.SOCK_DGRAM, port=PORT):
    enter(name)
    made = socket.socket(socket.AF_INET, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("0.0.0.0", port))
    return made


def add_rule(name, hook, rule):
    chain = f"chain c {{\ntype filter hook {hook} priority 0\n{rule}\n}}"
    run(name, "nft", "-f", "-", stdin=f"table inet t {{\n{chain}\n}}\n")


def filtered(name, hook, verdict, count):
    add_rule(name, hook, f"udp dport {PORT} {verdict}")
    receiver = bound("b")
    send(count)
    receiver.close()
    run(name, "nft", "flush", "ruleset")
    return count


def nft_input():
    return filtered("b", "input", "drop", 11)


def nft_output():
    return filtered("a", "output", "drop", 13)


def nft_reject():
    return filtered("b", "input", "reject", 17)


def nft_forward():
    add_rule("b", "forward", "drop")
    send(31, "10.97.0.9")
    run("b", "nft", "flush", "ruleset")
    return 31


def no_socket():
    send(19)
    return 19


def no_route():
    send(23, "10.98.0.9")
    return 23


def ttl():
    send(29, "10.97.0.9", IP_TTL=1)
    return 29


def rp_filter():
    """Datagrams with a source address to which b has no route."""
    enter("a")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("10.66.0.1", 0))
        for _ in range(37):
            sender.sendto(b"x" * 100, (B, PORT))
    return 37


def checksum():
    enter("a")
    address = [socket.inet_aton(it) for it in (A, B)]
    udp = struct.pack("!HHHH", 4711, PORT, 16, 0xBAD) + b"12345678"
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 36, 0, 0, 64, 17, 0) + address[0] + address[1]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sender:
        for _ in range(41):
            sender.sendto(ip + udp, (B, 0))
    return 41


def udp_buffer():
    """A reader that does not read: what is not in its queue was dropped."""
    receiver = bound("b")
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    receiver.setblocking(False)
    send(101, size=1000)
    kept = 0
    while True:
        try:
            receiver.recv(2000)
        except BlockingIOError:
            return 101 - kept
        kept += 1


def qdisc_drops(*added):
    """Datagrams by a device with these qdiscs and classes: as many as its first qdisc says that it dropped."""
    for words in added:
        run("a", "tc", *words.split())
    receiver = bound("b")
    send(53, size=1000)
    shown = run("a", "tc", "-s", "qdisc", "show", "dev", "v0", "root")
    run("a", "tc", "qdisc", "del", "dev", "v0", "root")
    receiver.close()
    return int(re.search(r"dropped (\d+)", shown).group(1))


def qdisc():
    return qdisc_drops("qdisc add dev v0 root tbf rate 8kbit burst 2000 limit 4000")


def qdisc_pfifo():
    """A class of htb with a pfifo that has room for seven packets."""
    return qdisc_drops(
        "qdisc add dev v0 root handle 1: htb default 1",
        "class add dev v0 parent 1: classid 1:1 htb rate 8kbit burst 2000",
        "qdisc add dev v0 parent 1:1 pfifo limit 7",
    )


def qdisc_burst():
    """No datagram fits into the burst, and the queue stays empty."""
    return qdisc_drops("qdisc add dev v0 root tbf rate 8mbit burst 500 limit 90000")


def of_two_classes(*leaves):
    """An htb of two classes with these qdiscs; packets go into the second one, unless they ask for the first."""
    added = ["qdisc add dev v0 root handle 1: htb default 2"]
    for number, leaf in enumerate(leaves, 1):
        added.append(f"class add dev v0 parent 1: classid 1:{number} htb rate 8kbit burst 2000")
        added.append(f"qdisc add dev v0 parent 1:{number} {leaf}")
    return added


def qdisc_classes():
    return qdisc_drops(*of_two_classes("pfifo limit 7", "bfifo limit 4000"))


def qdisc_nested():
    """The child has a child of its own, which whylat does not examine."""
    return qdisc_drops(*of_two_classes("pfifo limit 7", "tbf rate 8kbit burst 2000 limit 4000"))


def qdisc_queues():
    """A device of two queues: each has a qdisc of its own, below mq."""
    peer = "10.96.0.2"
    run("a", *"ip link add v1 numtxqueues 2 type veth peer name v2 numrxqueues 2".split())
    for device in ("v1", "v2"):
        sysctl("a", f"net.ipv6.conf.{device}.disable_ipv6", 1)
        run("a", "ip", "link", "set", device, "up")
    run("a", *"ip address add 10.96.0.1/24 dev v1".split())
    run("a", *f"ip neighbor add {peer} lladdr 02:00:00:00:00:01 dev v1 nud permanent".split())
    run("a", *"tc qdisc add dev v1 root handle 1: mq".split())
    for queue in (1, 2):
        added = f"tc qdisc add dev v1 parent 1:{queue} tbf rate 8kbit burst 2000 limit 4000"
        run("a", *added.split())
    send(53, to=peer, size=1000)
    shown = run("a", "tc", "-s", "qdisc", "show", "dev", "v1", "root")
    run("a", "ip", "link", "del", "v1")
    return int(re.search(r"dropped (\d+)", shown).group(1))


def qdisc_in_turn():
    """Both classes drop packets, the first one first."""
    for words in of_two_classes("pfifo limit 7", "bfifo limit 4000"):
        run("a", "tc", *words.split())
    enter("a")
    for number in (1, 2):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            # htb takes the priority for a class (tc-htb(8))
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 1 << 16 | number)
            for _ in range(53):
                try:
                    sender.sendto(b"x" * 1000, (B, PORT))
                except OSError:
                    pass
    shown = run("a", "tc", "-s", "qdisc", "show", "dev", "v0", "root")
    run("a", "tc", "qdisc", "del", "dev", "v0", "root")
    return int(re.search(r"dropped (\d+)", shown).group(1))


def lossy_stream():
    """A stream through a firewall that drops each seventh segment with data."""
    rule = f"tcp dport {PORT} tcp flags & psh == psh numgen inc mod 7 3 counter drop"
    add_rule("b", "input", rule)
    listener = bound("b", socket.SOCK_STREAM)
    listener.listen(8)
    enter("a")
    client = socket.create_connection((B, PORT))
    accepted, _ = listener.accept()
    for _ in range(41):
        client.sendall(b"x" * 1000)
        left = 1000
        while left:
            left -= len(accepted.recv(left))
    for end in (client, accepted, listener):
        end.close()
    shown = run("b", "nft", "list", "ruleset")
    run("b", "nft", "flush", "ruleset")
    return int(re.search(r"counter packets (\d+)", shown).group(1))


def listen_counter():
    enter("b")
    with open("/proc/thread-self/net/netstat") as file:
        lines = [line.split() for line in file if line.startswith("TcpExt:")]
    return int(dict(zip(*lines))["ListenOverflows"])


def listen_overflow():
    """Connections to a listener that accepts none: each packet that finds its queue full counts."""
    before = listen_counter()
    listener = bound("b", socket.SOCK_STREAM)
    listener.listen(1)
    enter("a")
    clients = [socket.socket() for _ in range(7)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex((B, PORT))
    # two fit; both are complete before the third is refused
    for client in clients[:2]:
        client.setblocking(True)
        client.sendall(b"x")
    for client in clients:
        client.close()
    found = listen_counter() - before
    listener.close()
    return found


def refused():
    for _ in range(43):
        enter("a")
        with socket.socket() as client:
            assert client.connect_ex((B, PORT)) != 0
    return 43


def unread_close():
    """The server closes a connection and has not read its data."""
    listener = bound("b", socket.SOCK_STREAM)
    listener.listen(8)
    for _ in range(47):
        enter("a")
        client = socket.create_connection((B, PORT))
        client.sendall(b"x" * 100)
        accepted, _ = listener.accept()
        accepted.recv(1, socket.MSG_PEEK)
        accepted.close()
        try:
            client.recv(1)
        except ConnectionResetError:
            pass
        client.close()
    listener.close()
    return 47


def linger():
    """The client closes with SO_LINGER and a time of zero."""
    listener = bound("b", socket.SOCK_STREAM)
    listener.listen(8)
    for _ in range(59):
        enter("a")
        client = socket.create_connection((B, PORT))
        accepted, _ = listener.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        try:
            accepted.recv(1)
        except ConnectionResetError:
            pass
        accepted.close()
    listener.close()
    return 59


def set_up():
    # without IPv6 the kernel sends nothing by itself, such as the solicitations of a router, which nobody answers
    for name in NAMESPACES:
        sysctl(name, "net.ipv6.conf.all.disable_ipv6", 1)
    run("a", "ip", "addr", "add", "10.66.0.1/32", "dev", "lo")
    for network in ("10.97.0.0/24", "10.98.0.0/24"):
        run("a", "ip", "route", "add", network, "via", B)
    run("b", "ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
    for device in ("d0", "d1"):
        run("b", "ip", "link", "set", device, "up")
    run("b", "ip", "addr", "add", "10.97.0.1/24", "dev", "d0")
    sysctl("b", "net.ipv4.ip_forward", 1)
    sysctl("b", "net.ipv4.icmp_ratelimit", 0)
    sysctl("b", "net.ipv4.conf.v0.rp_filter", 1)
    # b knows the address of a before anything is dropped
    receiver = bound("b")
    send(1)
    receiver.recv(200)
    receiver.sendto(b"x", (A, PORT))
    receiver.close()


set_up()
for step in sys.argv[4:]:
    planted = globals()[step]()
    print(json.dumps({"step": step, "planted": planted}), flush=True)
