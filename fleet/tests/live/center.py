"""A small data centre on this host: eight network namespaces in two racks, real traffic, and a real agent in each.

    host 1-4 == bridge of rack 1 == uplink (token bucket) == bridge of rack 2 == host 5-8

The bridges are in a namespace of their own. Needs root. Everything that it makes ends with it.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from namespaces import Namespaces, run

HOSTS = range(1, 9)
BAD_HOST, DELAYING = 8, "logger"
APPS = ("chat", "pause", "bulk", "copy", "store", "queue", "logger")
"""In pairs that do the same, so that what they share explains more than each of them: the uplink, the bad host."""
PORTS = {app: 7001 + number for number, app in enumerate(APPS)}
FAR = {1: 5, 2: 6, 3: 7, 4: 5, 5: 1, 6: 2, 7: 3, 8: 4}
"""Of each host, the one that it talks to in the other rack."""
RATE, BURST, QUEUE = "100mbit", "32k", "48k"


def rack(host: int) -> int:
    """1 or 2."""
    return 1 if host <= 4 else 2


def address(host: int) -> str:
    """Its address."""
    return f"10.77.{rack(host)}.{host}"


class Center(Namespaces):
    """The network, while the context lasts."""

    def __init__(self, whylat: Path, directory: Path, seed: int) -> None:
        super().__init__("wl")
        self.whylat, self.directory, self.seed = whylat, directory, seed
        self.dataset = directory / "dataset"
        self.talkers: list[subprocess.Popen[str]] = []
        self.agents: list[subprocess.Popen[bytes]] = []

    def __exit__(self, *_: object) -> None:
        children: list[subprocess.Popen[Any]] = [*self.talkers, *self.agents]
        for child in children:
            child.kill()
            child.wait()
        super().__exit__()

    def network(self) -> None:
        """Two racks, and an uplink between them."""
        self.add("switch")
        switch = self.name("switch")
        for number in (1, 2):
            self.add_bridge("switch", f"rack{number}")
        run("ip", "-n", switch, "link", "add", "up1", "type", "veth", "peer", "name", "up2")
        for number in (1, 2):
            run("ip", "-n", switch, "link", "set", f"up{number}", "master", f"rack{number}", "up")
        bucket = ["root", "tbf", "rate", RATE, "burst", BURST, "limit", QUEUE]
        run("tc", "-n", switch, "qdisc", "add", "dev", "up1", *bucket)
        for host in HOSTS:
            self.add(host)
            self.connect(host, f"{address(host)}/16", "switch", f"rack{rack(host)}")

    def topology(self) -> None:
        """Writes what the operator would."""
        (self.dataset / "topology.json").write_text(
            json.dumps(
                {
                    "schema": "whylat.topology/1",
                    "hosts": {f"h{host}": {"tor": f"tor-{rack(host)}", "addresses": [address(host)]} for host in HOSTS},
                    "switches": {"tor-1": {"uplinks": ["agg"]}, "tor-2": {"uplinks": ["agg"]}, "agg": {}},
                }
            )
        )

    def watch(self, interval_s: int = 10) -> None:
        """Starts the agents, and waits until each has written that it watches."""
        self.dataset.mkdir(parents=True)
        self.topology()
        for host in HOSTS:
            self._agent(host, interval_s)
        until = time.monotonic() + 120
        while len({path.name.split(".")[0] for path in self.dataset.glob("fleet_coverage/*/*/*.parquet")}) < len(HOSTS):
            if time.monotonic() > until or any(agent.poll() is not None for agent in self.agents):
                raise RuntimeError(f"not all agents watch: see {self.directory}/agent*.log")
            time.sleep(0.1)

    def _agent(self, host: int, interval_s: int) -> None:
        spool = self.directory / f"spool{host}"
        spool.mkdir()
        rules = "".join(f'[[application]]\nname = "{app}"\ncomm = "{app}"\n' for app in PORTS)
        config = self.directory / f"h{host}.toml"
        config.write_text(
            f'[host]\nname = "h{host}"\n[watch]\nnetns = "own"\ninterval_s = {interval_s}\ncpu_high = 0.1\n'
            f'[ship]\ntarget = "{self.dataset}"\nspool = "{spool}"\n[metrics]\nlisten = ""\n{rules}'
        )
        command = ["ip", "netns", "exec", self.name(host), str(self.whylat), "agent", "--config", str(config)]
        with (self.directory / f"agent{host}.log").open("wb") as log:
            self.agents.append(subprocess.Popen(command, stdout=log, stderr=log))

    def plan(self, app: str, host: int) -> list[tuple[str, int, bool, int]]:
        """Returns the peers of a host's application: address, port, whether all at once, connections."""
        others = [other for other in HOSTS if other != host]
        near = next(other for other in others if rack(other) == rack(host))
        # what suffers by chance, now and then, each connection by itself
        neighbours = [(other, 9) for other in others if rack(other) == rack(host) and other != BAD_HOST]
        far, stores = FAR[host], [(6, 4), (BAD_HOST, 4)] if rack(host) == rack(BAD_HOST) else [(3, 4)]
        peers = {
            "chat": neighbours,
            "pause": neighbours,
            # of each host as many to the other rack as in its own; nothing else crosses the uplink
            "bulk": [(far, 5), (near, 5)],
            "copy": [(far, 5), (near, 5)],
            "store": stores,
            "queue": stores,
            "logger": [(near, 6)],
        }[app]
        return [
            # what crosses the uplink the way that is shaped is sent at once
            (address(other), PORTS[app], rack(host) < rack(other), count)
            for other, count in peers
            if other != host
        ]

    def talk(self, seconds: int) -> None:
        """Real traffic for so long."""
        for app, port in PORTS.items():
            # the command name is that of the file that is run
            program = self.directory / app / ("chat" if app == "pause" else app)
            program.parent.mkdir()
            shutil.copy(os.path.realpath(sys.executable), program)
            for host in HOSTS:
                plan: dict[str, Any] = {
                    "app": app,
                    "listen": port,
                    "connect": self.plan(app, host),
                    "seed": self.seed * 100 + host,
                }
                plan["slow"] = app in ("store", "queue") and host == BAD_HOST
                command = [str(program), str(Path(__file__).with_name("talk.py")), json.dumps(plan)]
                self.talkers.append(
                    subprocess.Popen(
                        ["ip", "netns", "exec", self.name(host), *command],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                        env=os.environ | {"PYTHONHOME": sys.base_prefix},
                    )
                )  # fmt: skip
        self._all("listening", None)
        self._all("connected", "connect")
        self._send("go")
        time.sleep(seconds)  # the time that is watched, not a wait for something
        self._send("end")
        for child in self.talkers:
            child.wait(timeout=30)

    def _send(self, word: str) -> None:
        for child in self.talkers:
            assert child.stdin is not None
            child.stdin.write(word + "\n")
            child.stdin.flush()

    def _all(self, word: str, command: str | None) -> None:
        if command:
            self._send(command)
        for child in self.talkers:
            assert child.stdout is not None
            answer = child.stdout.readline().strip()
            if answer != word:
                raise RuntimeError(f"a talker printed {answer!r}, not {word}")

    def stop(self) -> None:
        """Ends the agents; they write their open interval."""
        for agent in self.agents:
            agent.send_signal(signal.SIGTERM)
        for agent in self.agents:
            agent.wait(timeout=60)

    def correlate(self, begin: str, hours: int) -> dict[str, Any]:
        """The verdict."""
        options = ["--from", begin, "--hours", str(hours), "--trust-clocks", "--format", "json"]
        command = [sys.executable, "-m", "whylat_fleet", "correlate", str(self.dataset), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def missing(found: dict[str, Any]) -> list[str]:
    """Returns the planted culprits that are not named."""
    named = {
        name
        for culprit in found["culprits"]
        for name in (*(f"{it['kind']} {it['name']}" for it in culprit["problems"]), *culprit["same_connections"])
    }
    wanted = {
        "link": {"link tor-1>agg", "link agg>tor-2"},
        "host": {f"peer h{BAD_HOST}", f"host h{BAD_HOST} (as the peer)"},
        "application": {f"application {DELAYING}"},
    }
    return [what for what, names in wanted.items() if not names & named]


def once(whylat: Path, directory: Path, seed: int, seconds: int = 60) -> dict[str, Any]:
    """One run; returns the report."""
    first = time.gmtime()
    with Center(whylat, directory, seed) as center:
        center.watch()
        center.talk(seconds)
        center.stop()
        hours = 1 + (time.gmtime().tm_hour != first.tm_hour)
        return center.correlate(time.strftime("%Y-%m-%dT%H:00", first), hours)


def several(whylat: Path, seeds: range, seconds: int) -> int:
    """Runs one after the other, a line each; returns how many named all three."""
    right = 0
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="whylat-live-") as place:
            answer = once(whylat, Path(place), seed, seconds)
        lacks = missing(answer)
        right += not lacks
        named = [f"{it['kind']} {it['name']} ({it['problem']}, {it['when']})" for it in answer["culprits"]]
        print(f"{seed}: missing {', '.join(lacks) or 'nothing'}; named: {'; '.join(named) or 'nothing'}", flush=True)
    print(f"link, host and application named in {right} of {len(seeds)} runs")
    return right


def main() -> int:
    """See `--help`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whylat", type=Path, help="the program whylat: it runs the agents")
    parser.add_argument("--runs", type=int, default=10, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--seconds", type=int, default=90, help="of traffic in each")
    options = parser.parse_args()
    # its namespaces end with it, also on a signal
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    seeds = range(options.seed, options.seed + options.runs)
    return 0 if several(options.whylat.resolve(), seeds, options.seconds) == len(seeds) else 1


if __name__ == "__main__":
    sys.exit(main())
