#!/usr/bin/env python3
"""Records programs that note what each of their requests was, and compares that with `whylat report --requests`.
A share in brackets is how much a part was at most, by the program.

Prints a table for docs/requests.md. Needs root, python3, cc, go, a JDK, node, redis, nginx, gunicorn and postgres.
"""

import argparse
import collections
import csv
import json
import pathlib
import subprocess
import tempfile

PROGRAMS = pathlib.Path(__file__).parent / "request_programs"
# A logged duration encloses the calls: this much more, or 1 %. What the client waited for a CPU is more, too: it may have
# waited after the call.
NEAR_NS, NEAR_SHARE = 50_000, 0.01
SLOWEST_OF = 100
# Records were lost: what is missing is missing in the table, too.
INCOMPLETE = 3
# The server cannot say how much a part was at most.
UNKNOWN = -1
PARTS = ("cpu", "timer", "upstream")
HEADS = ("program", "logged", "found", "false", "duration near", *PARTS, "largest part", "unknown")


def python(file, *words):
    return lambda scratch, truth: ["python3", PROGRAMS / file, truth, *words]


def compiled(build, run):
    """Of a server that is compiled first: both are functions of a folder."""

    def command(scratch, truth):
        subprocess.run(build(scratch), check=True)
        return ["python3", PROGRAMS / "programs.py", truth, "command", *run(scratch)]

    return command


KINDS = {
    "threads": ("Python, a thread a connection", python("programs.py", "threads")),
    "asyncio": ("Python asyncio", python("programs.py", "asyncio")),
    "asyncio_busy": ("Python asyncio, never idle", python("programs.py", "asyncio_busy")),
    "c": (
        "C, epoll, answers in batches",
        compiled(lambda to: ["cc", "-O2", "-o", to / "loop", PROGRAMS / "loop.c"], lambda to: [to / "loop"]),
    ),
    "go": (
        "Go",
        compiled(lambda to: ["go", "build", "-o", to / "server", PROGRAMS / "server.go"], lambda to: [to / "server"]),
    ),
    "java": (
        "Java, a pool of threads",
        compiled(
            lambda to: ["javac", "-d", to, PROGRAMS / "Server.java"],
            lambda to: ["java", "-cp", to, "Server"],
        ),
    ),
    "node": ("Node.js", python("programs.py", "command", "node", PROGRAMS / "server.js")),
    "redis": ("redis", python("redis.py")),
    "chain": ("nginx, gunicorn, postgres", lambda scratch, truth: ["python3", PROGRAMS / "chain.py", truth, scratch]),
}


def record(whylat, command, scratch):
    """Returns the truth, the rows of the report that are of it, and the connections of each port that asked."""
    truth, recording = scratch / "truth.json", scratch / "r.whylat"
    subprocess.run(
        [whylat, "run", "--as-root", "--output", recording, "--", *command(scratch, truth)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    words = [whylat, "report", "--format", "json", "--requests", "--limit", "1000000", recording]
    report = subprocess.run(words, capture_output=True)
    assert report.returncode in (0, INCOMPLETE), report.stderr
    report = json.loads(report.stdout)
    words = [whylat, "report", "--format", "csv", "--table", "connections", recording]
    connections = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    known = json.loads(truth.read_text())
    return known, rows_of(report["requests"], known), ends(connections, known)


def rows_of(requests, known):
    """Requests of both ends, by name."""
    services = (f" → 127.0.0.1:{known['clients']}", f" at 127.0.0.1:{known['servers']}")
    rows = [row for row in requests if row["service"].endswith(services)]
    return {tuple(map(int, row["id"].split(":q"))): row for row in rows}


def ends(connections, known):
    """The connections of the ends that are noted, by the port that asked."""
    port = lambda address: int(address.rpartition(":")[2])
    asked, served = {}, {}
    rows = sorted(csv.DictReader(connections), key=lambda row: int(row["opened_ns"] or row["time_ns"]))
    for row in rows:
        local, remote = port(row["local"]), port(row["remote"])
        for side, of, is_of in ((asked, local, remote == known["clients"]), (served, remote, local == known["servers"])):
            if is_of and int(row["conn"]) not in side.setdefault(of, []):
                side[of].append(int(row["conn"]))
    return asked, served


def by_name(lines, ends):
    """Returns the notes of the programs by the name of the request. A port may be used for one connection after the other."""
    named, earlier = {}, collections.Counter()
    for port, offset, *times in lines:
        conns = ends.get(port, [])
        at = earlier[port, offset]
        earlier[port, offset] += 1
        named[conns[at] if at < len(conns) else -port, offset] = times
    return named


def is_near(row, begin_ns, end_ns, waited_ns):
    logged_ns = end_ns - begin_ns
    near_ns = max(NEAR_NS, logged_ns * NEAR_SHARE)
    return -near_ns <= logged_ns - row["duration_ns"] <= near_ns + waited_ns


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "–"


def sum_cell(part, bounds):
    """Returns a sum as a share of the least that the server noted, and the share that the most is."""
    least, most = (sum(bound[at] for bound in bounds) for at in (0, 1))
    if not least:
        return "–"
    limit = "?" if any(bound[1] == UNKNOWN for bound in bounds) else f"{100 * most / least:.1f}"
    return f"{share(part, least)} (100–{limit})"


def score(known, found, connections):
    """Returns the cells of a line."""
    clients, servers = (by_name(known[side], ends) for side, ends in zip(("asked", "served"), connections))
    logged = clients.keys() | servers.keys()
    near = sum(is_near(found[it], *times) for it, times in clients.items() if it in found)
    served = [(found[it], times) for it, times in servers.items() if it in found]
    worked = sorted(served, key=lambda it: -max(least_of(it[1])))[: max(len(served) // SLOWEST_OF, 1)]
    largest = sum(is_largest(row, times) for row, times in worked)
    of = lambda part: sum(row["parts"].get(part, 0) for row, _ in served)
    everything = sum(row["duration_ns"] for row, _ in served)
    return [
        f"{len(logged):,}",
        share(len(logged & found.keys()), len(logged)),
        str(len(found.keys() - logged)),
        share(near, len(clients)),
        *(sum_cell(of(part), [bounds[at] for _, bounds in served]) for at, part in enumerate(PARTS)),
        share(largest, len(worked)),
        share(of("unknown"), everything),
    ]


def least_of(bounds):
    return [least for least, _ in bounds]


def is_largest(row, bounds):
    """Whether the largest of what the program did is the largest of these in the report, too."""
    reported, noted = [row["parts"].get(part, 0) for part in PARTS], least_of(bounds)
    return noted.index(max(noted)) == reported.index(max(reported))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whylat", default="target/release/whylat")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this program; again for more")
    args = parser.parse_args()
    print("| " + " | ".join(HEADS) + " |\n|---|" + "---:|" * (len(HEADS) - 1))
    for title, command in [KINDS[kind] for kind in args.kind or KINDS]:
        with tempfile.TemporaryDirectory() as scratch:
            cells = score(*record(args.whylat, command, pathlib.Path(scratch)))
        print("| " + " | ".join([title, *cells]) + " |", flush=True)


main()
