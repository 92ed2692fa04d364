"""Debian kernels for the guests, and what guests need beside them. Each is kept unpacked in the cache directory."""

import dataclasses
import pathlib
import re
import shutil
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
EMULATOR, STAMPING = ("trixie", "qemu-system-x86"), (debian.OLDEST, "linuxptp")

# Programs of guests of another architecture than this machine's.
USERLAND = (debian.OLDEST, ["busybox-static", "iproute2"])


def cache():
    """Where kernels are kept."""
    return debian.cache() / "kernels"


def folder_of(name):
    """The folder of a kernel's packages."""
    kernel = KERNELS[name]
    return cache() / f"{kernel.release}-{kernel.package}"


def cached(name):
    """The folder of an unpacked kernel and its version, or None."""
    folder = folder_of(name)
    versions = sorted(path.name for path in folder.glob("**/lib/modules/*"))
    return (folder, versions[-1]) if versions else None


def fetch(name):
    """Downloads and unpacks a kernel that is not there yet."""
    kernel = KERNELS[name]
    folder = debian.fetch(folder_of(name), lambda: kernel_packages(kernel))
    if not cached(name):
        shutil.rmtree(folder)
        raise Missing(f"a kernel in Debian's package {kernel.package} of {kernel.release}")
    return cached(name)


def kernel_packages(kernel):
    """The packages of a kernel, with the apt that has them."""
    apt = Apt(kernel.release, kernel.machine.name)
    return [(apt, parts(apt, kernel.package))]


def parts(apt, package):
    """The packages that make up the kernel; Debian has split it in several of late."""
    names = re.findall(r"^(linux-(?:image|binary|modules)-\d\S*)$", apt.depends(package, "--important"), re.MULTILINE)
    return sorted(set(names))


def programs(machine, only_cached):
    """Finds a guest's programs; fetched, if that is allowed; or None."""
    if machine is X86:
        return OwnPrograms()
    folder = cache() / "-".join(["programs", machine.name, USERLAND[0], *USERLAND[1]])
    if not only_cached:
        debian.fetch(folder, lambda: userland_packages(machine))
    return UnpackedPrograms(folder) if folder.exists() else None


def userland_packages(machine):
    """The packages of a guest's programs, with the apt that has them."""
    apt = Apt(USERLAND[0], machine.name)
    return [(apt, sorted({name for package in USERLAND[1] for name in apt.closure(package)}))]


def adapters(only_cached):
    """The folder of what guests with adapters need; fetched, if that is allowed; or None."""
    folder = cache() / "-".join(["adapters", *EMULATOR, *STAMPING])
    if not only_cached:
        debian.fetch(folder, adapter_packages)
    return folder if folder.exists() else None


def adapter_packages():
    """The packages that guests with adapters need, with the apts that have them."""
    emulator = Apt(EMULATOR[0])
    return [(emulator, emulator.closure(EMULATOR[1])), (Apt(STAMPING[0]), [STAMPING[1]])]
