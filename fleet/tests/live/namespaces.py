"""Network namespaces that stand for hosts, on bridges in another one, while a context lasts. Needs root."""

import os
import subprocess
from contextlib import ExitStack
from typing import Self


def run(*command: str) -> None:
    """Runs a command; its standard error is in the exception when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


class Namespaces:
    """Hosts by number, and the namespace of the bridges. Subclasses make them in `network()`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = f"{prefix}{os.getpid() % 100000}"
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self.network()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def network(self) -> None:
        """Makes the namespaces and what connects them."""
        raise NotImplementedError

    def name(self, host: int | str) -> str:
        """Name of a namespace."""
        return f"{self.prefix}-{host}"

    def add(self, host: int | str) -> None:
        """Makes a namespace."""
        run("ip", "netns", "add", self.name(host))
        self.stack.callback(run, "ip", "netns", "del", self.name(host))
        run("ip", "-n", self.name(host), "link", "set", "lo", "up")

    def add_bridge(self, switch: str, bridge: str) -> None:
        """Makes a bridge in the namespace of the bridges."""
        run("ip", "-n", self.name(switch), "link", "add", bridge, "type", "bridge")
        run("ip", "-n", self.name(switch), "link", "set", bridge, "up")

    def connect(self, host: int, address: str, switch: str, bridge: str) -> None:
        """Connects a host with a bridge, by a device of this address and prefix length."""
        ours, theirs = ["-n", self.name(host)], ["-n", self.name(switch)]
        ends = ["eth0", "type", "veth", "peer", "name", f"h{host}", "netns", self.name(switch)]
        run("ip", *ours, "link", "add", *ends)
        run("ip", *theirs, "link", "set", f"h{host}", "master", bridge, "up")
        run("ip", *ours, "address", "add", address, "dev", "eth0")
        run("ip", *ours, "link", "set", "eth0", "up")
