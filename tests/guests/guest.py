"""A machine that runs one kernel and the release binary of whylat, and nothing else."""

import dataclasses
import io
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

from machines import Machine, OwnPrograms, UnpackedPrograms

HERE = pathlib.Path(__file__).parent

# Kernel modules that the lab's namespaces and paths, and whylat itself, ask for, and that of the adapters.
MODULES = ["tcp_diag", "inet_diag", "tun", "veth", "tcp_bbr", "sch_netem", "sch_fq", "igb"]
# Those of sockets that are not what they seem, and what they need that they do not name.
MODULES += ["ctr", "ghash_generic", "gcm", "tls", "smc"]

# Programs that the lab runs, beside those of busybox.
PROGRAMS = ["ip", "tc"]

# What is taken along where it was built: the collector of ITT, and the example that the check of causes runs.
BUILT_BESIDE = ["libwhylat_itt.so", "examples/causes"]

# Programs in C that checks run, built for the guest.
SOURCES = [HERE.parent / "replay/programs/slow_messages.c", HERE.parent / "kernel/programs/busy_register.c"]
SOURCES += [HERE / "odd_sockets.c", HERE / "call_chain.c"]
# What programs of tests share, testbed.h, and what programs of users include, whylat.h.
HEADERS = [HERE.parents[1] / "crates/testbed/src", HERE.parents[1] / "include"]

# Megabytes of memory: the archive is there twice while it is unpacked.
MEMORY_MB = 1024

# Emulated machines now and then fail before `init` says that it is up; they are started again.
UP, BOOTS_MOST = "the guest is up", 3


def missing(machines):
    """Returns the programs that this machine does not have to run guests, each with its package."""
    return {tool: package for machine in machines for tool, package in machine.tools if not shutil.which(tool)}


@dataclasses.dataclass(frozen=True)
class Guest:
    """The parts of a guest."""

    machine: Machine
    kernel: pathlib.Path
    """Folder of the unpacked kernel."""
    programs: OwnPrograms | UnpackedPrograms
    adapters: pathlib.Path | None
    """Folder of what two network adapters need that are connected with each other; `None`: it has none."""


def run(guest, binary, checks, longest_s):
    """Boots a guest, has it run `checks` (lines of shell for `init`); gives each result's text by
    its name, and the output of the console."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        archive = scratch / "initramfs"
        built = [build(guest.machine, source, scratch) for source in SOURCES]
        archive.write_bytes(initramfs(guest, [binary, *built], checks))
        for _ in range(BOOTS_MOST):
            results, console = boot(guest, archive, scratch, longest_s)
            if UP in console:
                break
        return results, console


def build(machine, source, scratch):
    """Compiles a program; gives its path."""
    program = scratch / source.stem
    headers = [f"-I{folder}" for folder in HEADERS]
    subprocess.run([*machine.compiler, "-O2", "-pthread", *headers, "-o", program, source], check=True)
    return program


def emulator(machine, adapters):
    """The command for a machine without network adapters, or with two that are connected with each other: that
    is another Debian's qemu, which is run by that one's libraries."""
    if not adapters:
        return [machine.emulator, "-net", "none"]
    libraries = adapters / "usr/lib/x86_64-linux-gnu"
    command = [libraries / "ld-linux-x86-64.so.2", "--library-path", libraries]
    command += [adapters / "usr/bin/qemu-system-x86_64"]
    for data in ("qemu", "seabios"):
        command += ["-L", adapters / "usr/share" / data]
    for number in range(2):
        command += ["-device", f"pcie-root-port,id=port{number},slot={number},chassis={number}"]
        command += ["-netdev", f"hubport,id=end{number},hubid=0"]
        command += ["-device", f"igb,bus=port{number},netdev=end{number},romfile="]
    return command


def boot(guest, archive, scratch, longest_s):
    """Runs a guest to its end; gives its results and its console."""
    machine, console, results = guest.machine, scratch / "console", scratch / "results"
    command = [*emulator(machine, guest.adapters), *machine.kind, "-smp", "1", "-m", str(MEMORY_MB)]
    command += ["-kernel", vmlinuz(guest.kernel), "-initrd", archive]
    # `init` finds the device for its results in its environment
    command += ["-append", f"console={machine.console} results=/dev/{machine.results} quiet panic=-1"]
    command += ["-no-reboot", "-nodefaults", "-nographic", "-monitor", "none", "-serial", f"file:{console}"]
    command += [option.format(results) for option in machine.results_port]
    try:
        subprocess.run(command, timeout=longest_s, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        pass
    return unpacked(results), console.read_text(errors="replace")


def vmlinuz(folder):
    """The kernel's own file, wherever its package puts it."""
    return next(folder.glob("**/vmlinuz*"))


def unpacked(path):
    """The results by name; empty if the guest did not come to their end."""
    if not path.exists() or path.stat().st_size == 0:
        return {}
    with tarfile.open(path) as archive:
        files = [member for member in archive if member.isfile()]
        return {
            pathlib.PurePath(file.name).name: archive.extractfile(file).read().decode(errors="replace")
            for file in files
        }


def list_companions(binary):
    """The paths of what is taken along with the program."""
    return [pathlib.Path(binary).parent / name for name in BUILT_BESIDE]


def initramfs(guest, binaries, checks):
    """The guest's whole file system, as an archive that the kernel unpacks."""
    files = {
        "init": (HERE / "init").read_bytes(),
        "checks": checks.encode(),
        "bin/busybox": guest.programs.find("busybox").read_bytes(),
    }
    programs = [*binaries, *(guest.programs.find(name) for name in PROGRAMS)]
    programs += [guest.adapters / "usr/sbin/hwstamp_ctl"] if guest.adapters else []
    for program in programs + [path for path in list_companions(binaries[0]) if path.exists()]:
        path = pathlib.Path(program)
        files[f"usr/bin/{path.name}"] = path.read_bytes()
        for place, library in guest.programs.libraries(path):
            files[place.lstrip("/")] = library.read_bytes()
    for number, (name, content) in enumerate(modules(guest.kernel)):
        files[f"modules/{number:02}-{name}.ko"] = content
    return cpio(files)


def modules(folder):
    """(name, content) of the modules, each after those that it needs."""
    found = {}
    for path in folder.glob("**/*.ko*"):
        found[path.name.split(".")[0].replace("-", "_")] = path
    ordered = {}

    def add(name):
        if name in ordered or name not in found:
            return
        path = found[name]
        content = lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes()
        needs = re.search(rb"\0depends=([^\0]*)\0", content)
        for need in needs.group(1).decode().split(",") if needs else []:
            add(need.replace("-", "_"))
        ordered[name] = content

    for name in MODULES:
        add(name)
    return ordered.items()


def cpio(files):
    """An archive in the kernel's format (Documentation/driver-api/early-userspace/buffer-format)."""
    out = io.BytesIO()
    folders = {str(parent) for name in files for parent in pathlib.PurePath(name).parents}
    entries = [(name, 0o040755, b"") for name in sorted(folders - {"."})]
    entries += [(name, 0o100755, content) for name, content in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    for inode, (name, mode, content) in enumerate(entries, 1):
        fields = [inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        out.write(b"070701" + b"".join(b"%08x" % field for field in fields))
        for part in (name.encode() + b"\0", content):
            out.write(part)
            out.write(bytes(-out.seek(0, os.SEEK_CUR) % 4))
    return out.getvalue()
