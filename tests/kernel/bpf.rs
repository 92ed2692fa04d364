//! Which BPF objects of recorders the kernel holds, asked by the system call itself.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::libc::{SYS_bpf, c_long, syscall};

/// A program, map or link: its kind and id. Ids are not used twice before they wrap.
pub type Object = (&'static str, u32);

/// Commands of bpf(2) that walk and open one kind of object (`enum bpf_cmd`).
struct Kind {
    name: &'static str,
    next_id: c_long,
    fd_by_id: c_long,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: PROGRAM,
        next_id: 11,
        fd_by_id: 13,
    },
    Kind {
        name: "map",
        next_id: 12,
        fd_by_id: 14,
    },
    Kind {
        name: "link",
        next_id: 31,
        fd_by_id: 30,
    },
];
const PROGRAM: &str = "program";
/// Where `struct bpf_prog_info` has the program's name.
const NAME_AT: usize = 64;
const OBJ_GET_INFO_BY_FD: c_long = 15;
const NAME_BYTES: usize = 16;

/// `union bpf_attr`, large enough for the commands used here.
type Attributes = [u32; 32];

fn bpf(command: c_long, attributes: &mut Attributes) -> Option<i32> {
    let bytes = size_of_val(attributes);
    // SAFETY: the kernel reads and writes only `bytes` bytes of `attributes`, and of the
    // buffer that it names, which the caller keeps alive.
    let result = unsafe { syscall(SYS_bpf, command, attributes.as_mut_ptr(), bytes) };
    i32::try_from(result).ok().filter(|result| *result >= 0)
}

/// The programs whose name says that a recorder made them, and all maps and links.
pub fn objects() -> BTreeSet<Object> {
    KINDS.iter().flat_map(of_kind).collect()
}

fn of_kind(kind: &Kind) -> Vec<Object> {
    let mut found = Vec::new();
    let mut id = 0;
    loop {
        let mut attributes = [0; 32];
        attributes[0] = id;
        if bpf(kind.next_id, &mut attributes).is_none() {
            return found;
        }
        id = attributes[1];
        if is_ours(kind, id) {
            found.push((kind.name, id));
        }
    }
}

/// Programs are named `handle_…`; maps and links, of which others make few, count all.
fn is_ours(kind: &Kind, id: u32) -> bool {
    let mut attributes = [0; 32];
    attributes[0] = id;
    let Some(fd) = bpf(kind.fd_by_id, &mut attributes) else {
        return false;
    };
    // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if kind.name != PROGRAM {
        return true;
    }
    let mut info = [0u8; 256];
    let mut attributes = [0; 32];
    attributes[0] = u32::try_from(fd.as_raw_fd()).unwrap_or(0);
    attributes[1] = u32::try_from(info.len()).unwrap_or(0);
    let address = info.as_mut_ptr() as u64;
    attributes[2] = address as u32;
    attributes[3] = (address >> 32) as u32;
    let known = bpf(OBJ_GET_INFO_BY_FD, &mut attributes).is_some();
    known && info[NAME_AT..NAME_AT + NAME_BYTES].starts_with(b"handle_")
}
