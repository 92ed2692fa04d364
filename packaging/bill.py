#!/usr/bin/env python3
"""Writes what the static program is made of, as CycloneDX 1.6, to stdout: the crates that are compiled into it, the libraries
in C that are linked into it, Rust's own library, and the packages of npm in its page.

    packaging/bill.py TARGET          Rust's name of the machine: x86_64-unknown-linux-gnu

Cargo and the packages of the system say all of it. Tools that write such lists (cargo-sbom, cargo-cyclonedx) list crates of
all features and platforms, or write into the source tree. A list made again is the same.
"""

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import debian  # noqa: E402

METADATA = ["--locked", "--format-version", "1", "--manifest-path", "crates/cli/Cargo.toml", "--features", "static"]

# Libraries in C, by their file: name and licence of the project, and the package of those that scripts/cross fetches.
LIBRARIES = {
    "libc.a": ("glibc", "LGPL-2.1-or-later", None),
    "libgcc_eh.a": ("gcc", "GPL-3.0-or-later WITH GCC-exception-3.1", None),
    "libelf.a": ("elfutils", "LGPL-3.0-or-later OR GPL-2.0-or-later", "libelf-dev"),
    "libz.a": ("zlib", "Zlib", "zlib1g-dev"),
}


def main():
    target = sys.argv[1]
    cargo = [os.environ.get("CARGO", "cargo")]
    known = json.loads(output(*cargo, "metadata", *METADATA, "--filter-platform", target))
    compiled = compiled_crates(cargo, target)
    packages = {one["id"]: one for one in known["packages"] if (one["name"], one["version"]) in compiled}
    program = next(crate(one) for one in packages.values() if one["name"] == "whylat")
    others = [*libraries(target), standard_library(), *parts_of_page()]
    components = [crate(one) for one in packages.values() if one["name"] != "whylat"] + others
    nodes = [node for node in known["resolve"]["nodes"] if node["id"] in packages]
    needed = {crate(packages[node["id"]])["bom-ref"]: needs(node, packages) for node in nodes}
    needed[program["bom-ref"]] += [other["bom-ref"] for other in others]
    listed = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": program | {"type": "application"}},
        "components": sorted(components, key=lambda part: part["bom-ref"]),
        "dependencies": [{"ref": ref, "dependsOn": sorted(parts)} for ref, parts in sorted(needed.items())],
    }
    json.dump(listed, sys.stdout, indent=1)


def compiled_crates(cargo, target):
    """Returns (name, version) of each crate that is compiled into the program."""
    command = [*cargo, "tree", "--locked", "--package", "whylat", "--features", "static", "--target", target]
    command += ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    return set(re.findall(r"^(\S+) v(\S+)", output(*command), re.MULTILINE))


def needs(node, packages):
    """Returns which of the crates one calls."""
    called = [it["pkg"] for it in node["deps"] if any(kind["kind"] is None for kind in it["dep_kinds"])]
    return [crate(packages[name])["bom-ref"] for name in called if name in packages]


def crate(package):
    """Returns a component for a crate; those of this repository have no public place."""
    name, version = package["name"], package["version"]
    # older crates have "MIT/Apache-2.0"
    licence = re.sub(" */ *", " OR ", package["license"] or "NOASSERTION")
    part = component(name, version, licence, f"pkg:cargo/{name}@{urllib.parse.quote(version)}")
    if package["source"] is None:
        del part["purl"]
    return part


def libraries(target):
    """Returns a component for each library in C."""
    fetched = os.environ.get(f"LIBBPF_SYS_LIBRARY_PATH_{target.replace('-', '_')}")
    linker = os.environ.get(f"CARGO_TARGET_{target.replace('-', '_').upper()}_LINKER", "cc")
    for file, (name, licence, package) in LIBRARIES.items():
        if fetched and package:
            distribution = "debian"
            owner, version, architecture = package_in_cache(pathlib.Path(fetched), package)
        else:
            distribution = platform.freedesktop_os_release()["ID"]
            owner, version, architecture = package_of_system(output(linker, f"-print-file-name={file}").strip())
        link = f"pkg:deb/{distribution}/{owner}@{urllib.parse.quote(version)}?arch={architecture}"
        yield component(name, version, licence, link)


def package_of_system(path):
    """Returns name, version and architecture of the installed package that has a file."""
    if not os.path.isabs(path):
        fail(f"there is no {path}, which is linked into the program", "scripts/setup build")
    owner = output("dpkg-query", "--search", os.path.realpath(path)).partition(": ")[0]
    return output("dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}", owner).split()


def package_in_cache(folder, package):
    """Returns the same of a package that scripts/cross has unpacked: debian.py lists them beside their files."""
    lists = (parent / debian.LIST for parent in folder.parents)
    listed = next((file.read_text().splitlines() for file in lists if file.exists()), [])
    for line in listed:
        if line.split()[0] == package:
            return line.split()
    fail(f"nothing says which {package} is in {folder}", "remove the folder: scripts/cross fetches it again")


def standard_library():
    """Returns a component for Rust's own library."""
    version = output(os.environ.get("RUSTC", "rustc"), "--version").split()[1]
    return component("rust-std", version, "MIT OR Apache-2.0", f"pkg:generic/rust-std@{version}")


def parts_of_page():
    """Returns a component for each package of npm that the embedded page has."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    for path, package in lock["packages"].items():
        if path and not package.get("dev"):
            name, version = path.rpartition("node_modules/")[2], package["version"]
            yield component(name, version, package["license"], f"pkg:npm/{name}@{version}")


def component(name, version, licence, link):
    """Returns a component that is known by its package URL."""
    return {
        "bom-ref": link,
        "licenses": [{"expression": licence}],
        "name": name,
        "purl": link,
        "scope": "required",
        "type": "library",
        "version": version,
    }


def output(*command):
    """Returns the output of a command in the repository; it must succeed."""
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if done.returncode != 0:
        fail(f"`{' '.join(command)}` failed: {done.stderr.strip()}", "packaging/build needs Debian's packages and cargo")
    return done.stdout


def fail(why, hint):
    sys.exit(f"error: cannot list what the program is made of: {why}\nhint: {hint}")


if __name__ == "__main__":
    main()
