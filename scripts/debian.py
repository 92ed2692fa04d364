"""Packages of any release of Debian and of any architecture, fetched by this machine's own apt from the mirror that it uses.

The machine's apt is only read, and nothing is installed: lists and unpacked packages go to the user's cache directory,
outside the repository.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

# The oldest release that builds whylat (docs/install.md). What is linked with its libraries runs with those of newer ones, too.
OLDEST = "bookworm"

# What a fetch takes at most, in seconds.
LONGEST = 600

# In a folder of unpacked packages: name, version and architecture of each.
LIST = "packages.list"


class Missing(Exception):
    """Something that is needed is not on this machine."""


def cache():
    """Where all that is fetched is kept: the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "whylat"


def fetch(folder, wanted):
    """Returns a folder with packages, which are downloaded and unpacked unless it is there. `wanted` returns them, (apt, names)
    each. Its name must say which they are: it stays as it is until the user removes it."""
    with lock_cache():
        if not folder.exists():
            unpack(folder, wanted())
    return folder


@contextlib.contextmanager
def lock_cache():
    """Keeps others out of the cache: two that fetch would remove each other's files, and apt has one list."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def unpack(folder, wanted):
    """Downloads packages, (apt, names) each, and unpacks them to a folder, which is there when all are."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    listed = []
    for apt, packages in wanted:
        apt.download(packages, partial)
        for package in sorted(partial.glob("*.deb")):
            fields = "${Package} ${Version} ${Architecture}\n"
            listed.append(run(["dpkg-deb", "--show", f"--showformat={fields}", package.name], cwd=partial))
            run(["dpkg", "-x", package.name, "."], cwd=partial)
            package.unlink()
    (partial / LIST).write_text("".join(listed))
    partial.rename(folder)


class Apt:
    """The machine's apt with lists of its own, for another release of Debian or another architecture."""

    def __init__(self, release, architecture="amd64"):
        if not shutil.which("apt-get"):
            raise Missing("apt-get, which fetches Debian's packages\nhint: run this on Debian")
        state = cache() / "apt" / f"{release}-{architecture}"
        (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        sources = state / "sources.list"
        sources.write_text(f"deb {own_mirror()} {release} main\n")
        options = {
            "Dir::Etc::SourceList": sources,
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": state / "lists",
            # what this machine has installed is of no account
            "Dir::State::Status": state / "status",
            "Dir::Cache::PkgCache": "",
            "Dir::Cache::SrcPkgCache": "",
            "Acquire::Languages": "none",
            "APT::Architecture": architecture,
            "APT::Architectures::": architecture,
            "APT::Sandbox::User": "root",
            "APT::Update::Post-Invoke": "",
        }
        self.options = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        run(["apt-get", *self.options, "-qq", "update"])

    def depends(self, package, *options):
        """Returns apt's list of a package's dependencies, and of theirs."""
        return run(["apt-cache", *self.options, "depends", "--recurse", *options, package])

    def closure(self, package):
        """A package and all that it needs, down to the C library."""
        others = "conflicts breaks replaces enhances suggests recommends".split()
        output = self.depends(package, *(f"--no-{kind}" for kind in others))
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
