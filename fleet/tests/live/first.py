"""First use: one host or a few as namespaces of this machine, no time daemon, a real agent in each, and a culprit.

`ledger` has its ACKs delayed; `chat` seldom has; `ring` opens and closes short connections all the time. The programs
count what they do: connections, send calls and bytes; and what the kernel counted for them: bytes that were
acknowledged and received, segments, retransmissions. With `--pull` the cable of the last host is out for three seconds,
so that timeouts send nothing.

Needs root. Everything that it makes ends with it.
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

APPS = {"chat": 7001, "ledger": 7002, "ring": 7003}
TALK = Path(__file__).with_name("count.py")


class Rack(Namespaces):
    """Hosts and a bridge between them, while the context lasts."""

    def __init__(self, whylat: Path, place: Path, hosts: int) -> None:
        super().__init__("wf")
        self.whylat, self.place, self.hosts = whylat, place, hosts

    def address(self, host: int) -> str:
        """Its address: of one host alone, loopback."""
        return "127.0.0.1" if self.hosts == 1 else f"10.78.0.{host}"

    def network(self) -> None:
        """One host is alone; others are on a bridge."""
        if self.hosts > 1:
            self.add("bridge")
            self.add_bridge("bridge", "rack")
        for host in range(1, self.hosts + 1):
            self.add(host)
            if self.hosts > 1:
                self.connect(host, f"{self.address(host)}/24", "bridge", "rack")

    def start(self, host: int, command: list[str], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program on a host."""
        child = subprocess.Popen(["ip", "netns", "exec", self.name(host), *command], **options)
        self.stack.callback(child.wait)
        self.stack.callback(child.kill)
        return child

    def watch(self, host: int, dataset: Path) -> subprocess.Popen[Any]:
        """Starts an agent, and waits until it watches."""
        spool, ready = self.place / f"spool{host}", self.place / f"ready{host}"
        spool.mkdir()
        rules = "".join(f'[[application]]\nname = "{app}"\ncomm = "{app}"\n' for app in APPS)
        config = self.place / f"h{host}.toml"
        config.write_text(
            f'[host]\nname = "h{host}"\n[watch]\nnetns = "own"\ninterval_s = 10\n'
            f'[ship]\ntarget = "{dataset}"\nspool = "{spool}"\n{rules}'
        )
        log = (self.place / f"agent{host}.log").open("wb")
        agent_command = [str(self.whylat), "agent", "--config", str(config), "--ready-file", str(ready)]
        agent = self.start(host, agent_command, stdout=log, stderr=log)
        while not ready.exists():
            if agent.poll() is not None:
                raise RuntimeError((self.place / f"agent{host}.log").read_text())
            time.sleep(0.1)
        return agent

    def talk(self, host: int, app: str) -> subprocess.Popen[Any]:
        """Starts an application; it listens, and waits for a line."""
        program = self.place / f"bin{host}" / app
        program.parent.mkdir(exist_ok=True)
        shutil.copy(os.path.realpath(sys.executable), program)
        peer = host % self.hosts + 1
        plan = {"app": app, "port": APPS[app], "local": self.address(host), "peer": self.address(peer), "seed": host}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        environment = os.environ | {"PYTHONHOME": sys.base_prefix}
        return self.start(host, [str(program), str(TALK), json.dumps(plan)], env=environment, **pipes)

    def pull(self, seconds: float) -> None:
        """Pulls the cable of the last host out, and back in."""
        run("ip", "-n", self.name("bridge"), "link", "set", f"h{self.hosts}", "down")
        time.sleep(seconds)
        run("ip", "-n", self.name("bridge"), "link", "set", f"h{self.hosts}", "up")


def command(children: list[subprocess.Popen[Any]], line: str) -> list[str]:
    """Sends a line to each; returns the line that each answers."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write(line + "\n")
        child.stdin.flush()
    return [child.stdout.readline() for child in children if child.stdout]


def record(whylat: Path, place: Path, hosts: int, seconds: int, pull: bool = False) -> list[dict[str, Any]]:
    """Records a dataset in `place`; returns what the programs counted, a row for each socket."""
    dataset = place / "dataset"
    dataset.mkdir()
    with Rack(whylat, place, hosts) as rack:
        agents = [rack.watch(host, dataset) for host in range(1, hosts + 1)]
        children = [rack.talk(host, app) for host in range(1, hosts + 1) for app in APPS]
        command(children, "listen")
        command(children, "connect")
        command(children, "go")
        time.sleep(seconds / 2)
        if pull:
            rack.pull(3.0)
        time.sleep(seconds / 2)
        command(children, "end")
        counted = [row for answer in command(children, "count") for row in json.loads(answer)]
        for agent in agents:
            agent.send_signal(signal.SIGTERM)
        for agent in agents:
            agent.wait(timeout=60)
        command(children, "exit")
    return counted


def main() -> int:
    """See `--help`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whylat", type=Path, help="the program whylat: it runs the agents")
    parser.add_argument("--hosts", type=int, default=3, help="hosts (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=40, help="of traffic (default %(default)s)")
    parser.add_argument("--pull", action="store_true", help="pull a cable out meanwhile")
    parser.add_argument("--keep", type=Path, help="new directory to keep the dataset and the counts in")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="whylat-first-") as place:
        counted = record(options.whylat.resolve(), Path(place), options.hosts, options.seconds, options.pull)
        if options.keep:
            shutil.copytree(Path(place) / "dataset", options.keep / "dataset", ignore=shutil.ignore_patterns(".agents"))
            (options.keep / "counted.json").write_text(json.dumps(counted) + "\n", encoding="utf-8")
        correlate = [
            sys.executable,
            "-m",
            "whylat_fleet",
            "correlate",
            str(Path(place) / "dataset"),
            "--format",
            "json",
        ]
        found = json.loads(subprocess.run(correlate, capture_output=True, text=True, check=True).stdout)
    named = [(one["kind"], one["name"], one["problem"]) for one in found["culprits"]]
    print(f"named: {named}; {len(counted)} sockets counted, {found['coverage']['connections']} in the dataset")
    return 0 if [one[:2] for one in named][:1] == [("application", "ledger")] else 1


if __name__ == "__main__":
    sys.exit(main())
