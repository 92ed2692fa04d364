"""Debian kernels for the guests, and what guests need beside them. Each is kept unpacked in the cache directory."""

import dataclasses
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import debian  # noqa: E402
from debian import Apt, Missing  # noqa: E402
from machines import ARM, X86, Machine, OwnPrograms, UnpackedPrograms  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel: Debian's release (its newest kernel changes with time), package and architecture."""

    release: str
    package: str
    machine: Machine = X86


# The kernel for virtual machines: a fifth of the other's size, and with all that whylat needs, but no drivers
# of network adapters.
SMALL, WHOLE = "linux-image-cloud-amd64", "linux-image-amd64"

# By their names here.
KERNELS = {
    "5.10": Kernel("bullseye", SMALL),
    "6.1": Kernel("bookworm", SMALL),
    "6.12": Kernel("trixie", SMALL),
    "sid": Kernel("sid", SMALL),
    "sid-igb": Kernel("sid", WHOLE),
    "6.12-arm64": Kernel("trixie", "linux-image-cloud-arm64", ARM),
}

# What guests with adapters need: a qemu that has igb, since 8.0, and the program that switches timestamps on. That is run by
# the libraries of this machine, and so must be no newer than those.
EMULATOR, STAMPING = ("trixie", "qemu-system-x86"), ("bookworm", "linuxptp")

# Programs of guests of another architecture than this machine's.
USERLAND = ("bookworm", ["busybox-static", "iproute2"])


def cache():
    """Where kernels are kept."""
    return debian.cache() / "kernels"


def cached(name):
    """The folder of an unpacked kernel and its version, or None."""
    folder = cache() / name
    versions = sorted(path.name for path in folder.glob("**/lib/modules/*"))
    return (folder, versions[-1]) if versions else None


def fetch(name):
    """Downloads and unpacks a kernel that is not there yet."""
    if cached(name):
        return cached(name)
    kernel = KERNELS[name]
    apt = Apt(kernel.release, kernel.machine.name)
    debian.unpack(cache() / name, [(apt, parts(apt, kernel.package))])
    if not cached(name):
        raise Missing(f"a kernel in Debian's package {kernel.package} of {kernel.release}")
    return cached(name)


def parts(apt, package):
    """The packages that make up the kernel; Debian has split it in several of late."""
    names = re.findall(r"^(linux-(?:image|binary|modules)-\d\S*)$", apt.depends(package, "--important"), re.MULTILINE)
    return sorted(set(names))


def programs(machine, only_cached):
    """Finds a guest's programs; fetched, if that is allowed; or None."""
    if machine is X86:
        return OwnPrograms()
    folder = cache() / f"programs-{machine.name}"
    if not folder.exists() and not only_cached:
        apt = Apt(USERLAND[0], machine.name)
        names = {name for package in USERLAND[1] for name in apt.closure(package)}
        debian.unpack(folder, [(apt, sorted(names))])
    return UnpackedPrograms(folder) if folder.exists() else None


def adapters(only_cached):
    """The folder of what guests with adapters need; fetched, if that is allowed; or None."""
    folder = cache() / "adapters"
    if not folder.exists() and not only_cached:
        emulator, stamping = Apt(EMULATOR[0]), Apt(STAMPING[0])
        debian.unpack(folder, [(emulator, emulator.closure(EMULATOR[1])), (stamping, [STAMPING[1]])])
    return folder if folder.exists() else None
