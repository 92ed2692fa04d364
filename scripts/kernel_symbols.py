#!/usr/bin/env python3
"""Lists the functions of Debian's kernels and their modules, for the test that every rule of
crates/diagnose/src/causes/categories.csv is of a function that is in one of them:

    scripts/kernel_symbols.py --output /tmp/symbols --modules /path/to/another/kernels/modules
    WHYLAT_KERNEL_SYMBOLS=$(echo /tmp/symbols/* /proc/kallsyms | tr ' ' ':') \\
        cargo test --release -p whylat-diagnose every_rule -- --nocapture

Takes the kernels that `make kernels` has fetched, boots each for its own symbols, and reads those of
modules with nm. The network adapters' drivers are in no kernel for virtual machines: name the unpacked
package linux-image-amd64 with --modules. Needs no root.
"""

import argparse
import lzma
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/guests"))

import guest  # noqa: E402
import images  # noqa: E402
import machines  # noqa: E402

# No guest takes longer, in seconds.
LONGEST = 120

# The parts of a kernel that rules are of.
PARTS = ["net", "virt", "crypto", "fs", "kernel", "lib", "mm", "arch"]
PARTS += [f"drivers/{part}" for part in ("net", "virtio", "block", "nvme", "scsi", "ata", "md", "vhost", "ptp")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder for the lists")
    parser.add_argument("--modules", type=pathlib.Path, action="append", default=[], help="another folder")
    parser.add_argument("--whylat", type=pathlib.Path, default=ROOT / "target/release/whylat")
    options = parser.parse_args()
    machines.demand_x86()
    options.output.mkdir(parents=True, exist_ok=True)
    for name, kernel in images.KERNELS.items():
        if kernel.machine is not images.X86:
            print(f"{name}: skipped, a kernel of {kernel.machine.name}: symbols are read on x86-64 alone")
            continue
        image = images.cached(name)
        if image is None:
            print(f"{name}: skipped, no kernel in {images.cache()}: `make kernels` fetches it")
            continue
        folder, _ = image
        save(options.output / name, symbols(folder, options.whylat))
        save(options.output / f"{name}.modules", modules(folder))
    for number, folder in enumerate(options.modules):
        save(options.output / f"{number}.modules", modules(folder))


def symbols(folder, whylat):
    """The symbols of a kernel that runs."""
    machine = guest.Guest(images.X86, folder, images.OwnPrograms(), None)
    results, _ = guest.run(machine, whylat, "check symbols cat /proc/kallsyms", LONGEST)
    return results.get("symbols.out", "")


def modules(folder):
    """The symbols of all modules in a folder."""
    lists = []
    for path in sorted(folder.glob("**/kernel/**/*.ko*")):
        place = str(path).split("/kernel/", 1)[1]
        if not place.startswith(tuple(f"{part}/" for part in PARTS)):
            continue
        with tempfile.NamedTemporaryFile(suffix=".ko") as file:
            file.write(lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes())
            file.flush()
            lists.append(nm(file.name))
    return "".join(lists)


def nm(path):
    """Returns the functions in a module, as nm prints them."""
    done = subprocess.run(["nm", "--defined-only", path], text=True, capture_output=True, check=True)
    return "".join(line + "\n" for line in done.stdout.splitlines() if line.split()[1] in "tTwW")


def save(path, text):
    """Writes a list, and says how long it is."""
    path.write_text(text)
    print(f"{path}: {len(text.splitlines())} functions")


if __name__ == "__main__":
    main()
