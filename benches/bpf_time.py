"""Run time of one process's BPF programs, from the kernel's own statistics.

In: the process id of a recorder. Out: for each of its programs the name, the runs and the
nanoseconds, between two readings. The statistics are switched on with bpf(BPF_ENABLE_STATS) and
end with the descriptor, whatever happens to this process; no sysctl is written.

The statistics read the clock twice in every run, and a part of that is inside the time that
they report. `calibrate` finds how much: it times a program that does nothing.
"""

import ctypes
import os
import socket
import struct
import time
from pathlib import Path

# enum bpf_cmd, include/uapi/linux/bpf.h
BPF_PROG_GET_FD_BY_ID = 13
BPF_OBJ_GET_INFO_BY_FD = 15
BPF_BTF_GET_FD_BY_ID = 19
BPF_ENABLE_STATS = 32
BPF_PROG_LOAD = 5
BPF_PROG_TYPE_SOCKET_FILTER = 1
SYS_BPF = {"x86_64": 321, "aarch64": 280}
SO_ATTACH_BPF = 50
# offsets in struct bpf_prog_info
INFO_BYTES = 232
NAME_AT, BTF_ID_AT, FUNC_INFO_SIZE_AT, FUNC_INFO_AT, FUNC_INFO_COUNT_AT = 64, 128, 132, 136, 144
RUN_TIME_AT, RUN_COUNT_AT = 192, 200
ATTR_BYTES = 128

_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, ATTR_BYTES)
    number = SYS_BPF.get(os.uname().machine)
    if number is None:
        raise OSError(f"bpf(2)'s number on {os.uname().machine} is not known here")
    result = _libc.syscall(number, command, buffer, ATTR_BYTES)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bpf(2) command {command}: {os.strerror(error)}")
    return result


def enable_statistics():
    """A descriptor; statistics are on for as long as it is open."""
    return _bpf(BPF_ENABLE_STATS, struct.pack("I", 0))


def _info(fd, buffer):
    _bpf(BPF_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, len(buffer), ctypes.addressof(buffer)))


def _btf_function_names(btf_id):
    """Names of the functions in a BTF object, by type id."""
    fd = _bpf(BPF_BTF_GET_FD_BY_ID, struct.pack("I", btf_id))
    try:
        data = ctypes.create_string_buffer(1 << 20)
        info = ctypes.create_string_buffer(32)
        struct.pack_into("=QI", info, 0, ctypes.addressof(data), len(data))
        _info(fd, info)
        raw = data.raw[: struct.unpack_from("=I", info, 8)[0]]
    finally:
        os.close(fd)
    # struct btf_header, then types, then strings
    header, type_at, type_bytes, string_at = struct.unpack_from("=IIII", raw, 4)
    at, end, strings = header + type_at, header + type_at + type_bytes, header + string_at
    # bytes that follow struct btf_type, by kind: fixed, or for each of vlen members
    fixed = {1: 4, 3: 12, 14: 4, 17: 4}
    each = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
    names, type_id = {}, 1
    while at < end:
        name, info_word = struct.unpack_from("=II", raw, at)
        kind, vlen = info_word >> 24 & 0x1F, info_word & 0xFFFF
        if kind == 12:  # BTF_KIND_FUNC
            begin = strings + name
            names[type_id] = raw[begin : raw.index(b"\0", begin)].decode()
        at += 12 + fixed.get(kind, 0) + each.get(kind, 0) * vlen
        type_id += 1
    return names


class Programs:
    """The BPF programs that a process holds."""

    def __init__(self, pid):
        """Finds the programs that process `pid` has open."""
        self._fds = {}
        ids = set()
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            for line in entry.read_text().splitlines():
                if line.startswith("prog_id:"):
                    ids.add(int(line.split()[1]))
        names = {}
        for program in sorted(ids):
            fd = _bpf(BPF_PROG_GET_FD_BY_ID, struct.pack("I", program))
            self._fds[program] = fd
            names[program] = self._name(fd)
        self.names = names

    def close(self):
        """Lets go of the programs."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds = {}

    def read(self):
        """{name: (runs, nanoseconds)} so far."""
        totals = {}
        for program, fd in self._fds.items():
            info = ctypes.create_string_buffer(INFO_BYTES)
            _info(fd, info)
            run_ns, runs = struct.unpack_from("=QQ", info, RUN_TIME_AT)
            before = totals.get(self.names[program], (0, 0))
            totals[self.names[program]] = (before[0] + runs, before[1] + run_ns)
        return totals

    @staticmethod
    def _name(fd):
        # bpf_prog_info.name has 15 characters; the whole name is in the BTF
        info = ctypes.create_string_buffer(INFO_BYTES)
        _info(fd, info)
        short = info.raw[NAME_AT : NAME_AT + 16].split(b"\0")[0].decode()
        btf_id, size = struct.unpack_from("=II", info, BTF_ID_AT)
        count = struct.unpack_from("=I", info, FUNC_INFO_COUNT_AT)[0]
        if not btf_id or not count:
            return short
        records = ctypes.create_string_buffer(size * count)
        info = ctypes.create_string_buffer(INFO_BYTES)
        struct.pack_into("=I", info, FUNC_INFO_SIZE_AT, size)
        struct.pack_into("=Q", info, FUNC_INFO_AT, ctypes.addressof(records))
        struct.pack_into("=I", info, FUNC_INFO_COUNT_AT, count)
        _info(fd, info)
        type_id = struct.unpack_from("=I", records, 4)[0]
        return _btf_function_names(btf_id).get(type_id, short)


def difference(before, after):
    """{name: (runs, nanoseconds)} between two readings."""
    return {
        name: (runs - before.get(name, (0, 0))[0], run_ns - before.get(name, (0, 0))[1])
        for name, (runs, run_ns) in after.items()
    }


def _empty_filter():
    """A socket filter that keeps every packet and does nothing else."""
    # r0 = -1 (BPF_ALU64 | BPF_MOV | BPF_K); exit (BPF_JMP | BPF_EXIT)
    code = ctypes.create_string_buffer(
        struct.pack("=BBhi", 0xB7, 0, 0, -1) + struct.pack("=BBhi", 0x95, 0, 0, 0)
    )
    name = ctypes.create_string_buffer(b"GPL")
    return _bpf(
        BPF_PROG_LOAD,
        struct.pack(
            "=IIQQ",
            BPF_PROG_TYPE_SOCKET_FILTER,
            2,
            ctypes.addressof(code),
            ctypes.addressof(name),
        ),
    )


def calibrate(seconds=0.3):
    """Nanoseconds that the statistics report for a run of a program that does nothing.

    Needs the statistics on. Takes the least of several windows: an interrupt within a run
    only adds.
    """
    fd = _empty_filter()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, fd)
        sender.connect(receiver.getsockname())
        readings = []
        for _ in range(5):
            runs, run_ns = _filter_window(fd, sender, receiver, seconds / 5)
            readings.append(run_ns / runs)
    os.close(fd)
    return min(readings)


def _filter_window(fd, sender, receiver, seconds):
    def read():
        info = ctypes.create_string_buffer(INFO_BYTES)
        _info(fd, info)
        return struct.unpack_from("=QQ", info, RUN_TIME_AT)

    before_ns, before_runs = read()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sender.send(b"x")
        receiver.recv(1)
    after_ns, after_runs = read()
    return after_runs - before_runs, after_ns - before_ns
