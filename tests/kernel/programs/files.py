"""Waits for two files: one that keeps its name, and one that is deleted. Prints device and inode number of each.

Usage: files.py FOLDER
"""

import json
import os
import sys
import time

# Names are read while the recording runs: the files stay in use for so long.
SECONDS = 2
BLOCK = b"\x71" * 65_536
# device numbers of the kernel (MINORBITS)
MINOR_BITS = 20


def main():
    folder = sys.argv[1]
    opened = {}
    for name in ["kept file", "deleted file"]:
        path = os.path.join(folder, name)
        opened[name] = path, os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink(opened["deleted file"][0])
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for _, file in opened.values():
            os.pwrite(file, BLOCK, 0)
            os.fsync(file)
    for name, (path, file) in opened.items():
        found = os.fstat(file)
        device = os.major(found.st_dev) << MINOR_BITS | os.minor(found.st_dev)
        print(json.dumps({"name": name, "path": path, "device": device, "inode": found.st_ino}))


main()
