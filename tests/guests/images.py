"""Debian kernels for the guests, fetched by this machine's own apt from the mirror that it uses.

A kernel is kept unpacked in the cache directory, outside the repository. The machine's apt is only
read: lists of other releases go to the cache, too.
"""

import os
import pathlib
import re
import shutil
import subprocess

# The kernel for virtual machines: a fifth of the other's size, and with all that whylat needs, but no drivers
# of network adapters.
SMALL, WHOLE = "linux-image-cloud-amd64", "linux-image-amd64"

# Names of kernels here: Debian's release (its newest kernel changes with time) and package.
KERNELS = {
    "5.10": ("bullseye", SMALL),
    "6.1": ("bookworm", SMALL),
    "6.12": ("trixie", SMALL),
    "sid": ("sid", SMALL),
    "sid-igb": ("sid", WHOLE),
}

# What guests with adapters need: a qemu that has igb, since 8.0, and the program that switches timestamps on. That is run by
# the libraries of this machine, and so must be no newer than those.
EMULATOR, STAMPING = ("trixie", "qemu-system-x86"), ("bookworm", "linuxptp")

# What a fetch takes at most, in seconds.
LONGEST = 600


class Missing(Exception):
    """Something that the guests need is not on this machine."""


def cache():
    """Where kernels are kept: the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "whylat" / "kernels"


def cached(name):
    """The folder of an unpacked kernel and its version, or None."""
    folder = cache() / name
    versions = sorted(path.name for path in folder.glob("**/lib/modules/*"))
    return (folder, versions[-1]) if versions else None


def fetch(name):
    """Downloads and unpacks a kernel that is not there yet."""
    if cached(name):
        return cached(name)
    if not shutil.which("apt-get"):
        raise Missing("apt-get, which fetches Debian's kernels\nhint: run this on Debian")
    release, package = KERNELS[name]
    apt = Apt(release)
    unpack(name, [(apt, apt.kernel_packages(package))])
    if not cached(name):
        raise Missing(f"a kernel in Debian's package {package} of {release}")
    return cached(name)


def adapters(only_cached):
    """The folder of what guests with adapters need; fetched, if that is allowed; or None."""
    folder = cache() / "adapters"
    if not folder.exists() and not only_cached:
        emulator, stamping = Apt(EMULATOR[0]), Apt(STAMPING[0])
        unpack("adapters", [(emulator, emulator.closure(EMULATOR[1])), (stamping, [STAMPING[1]])])
    return folder if folder.exists() else None


def unpack(name, wanted):
    """Downloads packages, (apt, names) each, and unpacks them to a folder of the cache."""
    partial = cache() / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for apt, packages in wanted:
        apt.download(packages, partial)
    for package in partial.glob("*.deb"):
        run(["dpkg", "-x", package.name, "."], cwd=partial)
        package.unlink()
    shutil.rmtree(cache() / name, ignore_errors=True)
    partial.rename(cache() / name)


class Apt:
    """The machine's apt with lists of its own, for another release of Debian."""

    def __init__(self, release):
        self.release = release
        state = cache() / "apt" / release
        (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        sources = state / "sources.list"
        sources.write_text(f"deb {own_mirror()} {release} main\n")
        options = {
            "Dir::Etc::SourceList": sources,
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": state / "lists",
            "Dir::Cache::PkgCache": "",
            "Dir::Cache::SrcPkgCache": "",
            "Acquire::Languages": "none",
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "root",
            "APT::Update::Post-Invoke": "",
        }
        self.options = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        run(["apt-get", *self.options, "-qq", "update"])

    def kernel_packages(self, package):
        """The packages that make up the kernel; Debian has split it in several of late."""
        output = run(["apt-cache", *self.options, "depends", "--recurse", "--important", package])
        names = re.findall(r"^(linux-(?:image|binary|modules)-\d\S*)$", output, re.MULTILINE)
        return sorted(set(names))

    def closure(self, package):
        """A package and all that it needs, down to the C library."""
        others = "conflicts breaks replaces enhances suggests recommends".split()
        without = [f"--no-{kind}" for kind in others]
        output = run(["apt-cache", *self.options, "depends", "--recurse", *without, package])
        return sorted(set(re.findall(r"^([a-z0-9][a-z0-9.+-]+)$", output, re.MULTILINE)))

    def download(self, packages, folder):
        """Puts the packages' files into a folder."""
        run(["apt-get", *self.options, "-qq", "download", *packages], cwd=folder)


def own_mirror():
    """The address from which this machine gets Debian's packages."""
    line = "$(CREATED_BY) $(ORIGIN) $(LABEL) $(REPO_URI)"
    for target in run(["apt-get", "indextargets", "--format", line]).splitlines():
        if target.startswith("Packages Debian Debian "):
            return target.split()[-1]
    raise Missing("a mirror of Debian among apt's sources\nhint: run this on Debian")


def run(command, cwd=None):
    """Returns the output of a command; it must succeed."""
    done = subprocess.run(command, cwd=cwd, timeout=LONGEST, text=True, capture_output=True)
    if done.returncode != 0:
        raise Missing(f"what `{command[0]}` should have fetched: {done.stderr.strip()}")
    return done.stdout
