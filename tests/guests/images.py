"""Debian kernels for the guests, fetched by this machine's own apt from the mirror that it uses.

A kernel is kept unpacked in the cache directory, outside the repository. The machine's apt is only
read: lists of other releases go to the cache, too.
"""

import os
import pathlib
import re
import shutil
import subprocess

# Debian's release and what its kernel is called here; the newest of them changes with time.
RELEASES = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie", "sid": "sid"}

# The kernel for virtual machines: a fifth of the other's size, and with all that whylat needs.
PACKAGE = "linux-image-cloud-amd64"

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
    apt = Apt(RELEASES[name])
    partial = cache() / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    apt.download(apt.kernel_packages(), partial)
    for package in partial.glob("*.deb"):
        run(["dpkg", "-x", package.name, "."], cwd=partial)
        package.unlink()
    shutil.rmtree(cache() / name, ignore_errors=True)
    partial.rename(cache() / name)
    if not cached(name):
        raise Missing(f"a kernel in Debian's package {PACKAGE} of {apt.release}")
    return cached(name)


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

    def kernel_packages(self):
        """The packages that make up the kernel; Debian has split it in several of late."""
        said = run(["apt-cache", *self.options, "depends", "--recurse", "--important", PACKAGE])
        names = re.findall(r"^(linux-(?:image|binary|modules)-\d\S*)$", said, re.MULTILINE)
        return sorted(set(names))

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
    """What a command says; it must succeed."""
    done = subprocess.run(command, cwd=cwd, timeout=LONGEST, text=True, capture_output=True)
    if done.returncode != 0:
        raise Missing(f"what `{command[0]}` should have fetched: {done.stderr.strip()}")
    return done.stdout
