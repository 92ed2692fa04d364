"""Machines that qemu emulates, one an architecture: how each is run, compiled for, and given programs."""

import dataclasses
import pathlib
import platform
import re
import shutil
import subprocess
import sys


@dataclasses.dataclass(frozen=True)
class Machine:
    """An architecture, by Debian's name of it."""

    name: str
    emulator: str  # qemu's program
    tools: tuple  # programs of this machine that its guests need, each with its package
    kind: tuple  # qemu's options
    compiler: tuple
    console: str  # the kernel's device for its messages
    results: str  # the guest's device for its results
    results_port: tuple  # qemu's options for that device, which take the path of a file


X86 = Machine(
    name="amd64",
    emulator="qemu-system-x86_64",
    tools=(
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("cc", "gcc libc6-dev"),
        ("busybox", "busybox-static"),
        ("ip", "iproute2"),
        ("tc", "iproute2"),
    ),
    kind=("-machine", "q35,accel=tcg", "-cpu", "max"),
    compiler=("cc",),
    console="ttyS0",
    results="ttyS1",
    results_port=("-serial", "file:{}"),
)

# With signatures of return addresses (pointer authentication), by an algorithm that takes less time to emulate.
ARM = Machine(
    name="arm64",
    emulator="qemu-system-aarch64",
    tools=(
        ("qemu-system-aarch64", "qemu-system-arm"),
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
        ("readelf", "binutils"),
    ),
    kind=("-machine", "virt,accel=tcg", "-cpu", "max,pauth-impdef=on,lpa2=off"),
    compiler=("aarch64-linux-gnu-gcc", "-static", "-mbranch-protection=standard"),
    console="ttyAMA0",
    results="ttyS0",
    results_port=("-chardev", "file,id=results,path={}", "-device", "pci-serial,chardev=results"),
)


def demand_x86():
    """Refuses to go on elsewhere: guests of x86-64 take their programs and libraries from the machine that runs them."""
    if platform.machine() != "x86_64":
        sys.exit(
            f"error: guests cannot run on {platform.machine()}: those of x86-64 take programs of this machine\n"
            "hint: run this on x86-64, which emulates AArch64, too"
        )


class OwnPrograms:
    """Programs of this machine, for a guest of the same architecture."""

    @staticmethod
    def find(name):
        """The path of a program."""
        return pathlib.Path(shutil.which(name))

    @staticmethod
    def libraries(program):
        """(path in the guest, file) of each shared library of a program, its loader among them."""
        output = subprocess.run(["ldd", program], text=True, capture_output=True, check=True).stdout
        return [(path, pathlib.Path(path)) for path in re.findall(r"(/\S+) \(0x", output)]


class UnpackedPrograms:
    """Programs in a folder of unpacked packages, of another architecture than this machine's."""

    def __init__(self, folder):
        self.folder = folder

    def find(self, name):
        """The path of a program. A link may lead to this machine's own."""
        return next(path for path in self.folder.glob(f"**/*bin/{name}") if not path.is_symlink())

    def libraries(self, program):
        """As `OwnPrograms.libraries`, by what the files themselves name."""
        found, left = {}, [pathlib.Path(program)]
        while left:
            for name in self._needs(left.pop()) - found.keys():
                path = next(self.folder.glob(f"**/lib/*-linux-gnu*/{name}"), None)
                if path is None:
                    raise FileNotFoundError(f"{name}, which {program} needs, is not in {self.folder}")
                found[name] = path
                left.append(path)
        return [(f"/lib/{name}", path) for name, path in found.items()]

    @staticmethod
    def _needs(program):
        """Names of the libraries and of the loader that a file asks for; none, if it is linked statically."""
        command = ["readelf", "--wide", "--dynamic", "--program-headers", program]
        output = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output)
        return set(needed + re.findall(r"interpreter: .*/([^/\]]+)\]", output))
