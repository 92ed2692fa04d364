//! Lists the BPF objects of recorders that the kernel holds, by the system call itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

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
/// How the names of our programs begin.
const OURS: &str = "handle_";
/// Where `struct bpf_prog_info` has the program's name.
const NAME_AT: usize = 64;
const OBJ_GET_INFO_BY_FD: c_long = 15;
const NAME_BYTES: usize = 16;

/// `union bpf_attr`, large enough for the commands used here.
pub type Attributes = [u32; 32];

pub fn bpf(command: c_long, attributes: &mut Attributes) -> Option<i32> {
    let bytes = size_of_val(attributes);
    // SAFETY: the kernel reads and writes only `bytes` bytes of `attributes`, and of the
    // buffer that it names, which the caller keeps alive.
    let result = unsafe { syscall(SYS_bpf, command, attributes.as_mut_ptr(), bytes) };
    i32::try_from(result).ok().filter(|result| *result >= 0)
}

/// Returns the programs with a name that only a recorder uses, and all maps and links.
pub fn objects() -> BTreeSet<Object> {
    KINDS.iter().flat_map(of_kind).collect()
}

/// Returns the programs that a process has descriptors for: names by id.
pub fn programs_of(pid: u32) -> BTreeMap<u32, String> {
    let program_id = |path: PathBuf| {
        let text = fs::read_to_string(path).ok()?;
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("prog_id:"))?;
        id.trim().parse::<u32>().ok()
    };
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process lives");
    let ids = files.filter_map(|file| program_id(file.expect("an entry").path()));
    let programs = KINDS.iter().find(|kind| kind.name == PROGRAM);
    let programs = programs.expect("a kind of objects");
    ids.filter_map(|id| Some((id, program_name(programs, id)?)))
        .collect()
}

fn of_kind(kind: &Kind) -> Vec<Object> {
    ids(kind)
        .into_iter()
        .filter(|id| is_ours(kind, *id))
        .map(|id| (kind.name, id))
        .collect()
}

fn ids(kind: &Kind) -> Vec<u32> {
    let mut found = Vec::new();
    let mut id = 0;
    loop {
        let mut attributes = [0; 32];
        attributes[0] = id;
        if bpf(kind.next_id, &mut attributes).is_none() {
            return found;
        }
        id = attributes[1];
        found.push(id);
    }
}

/// Programs are named `handle_…`; maps and links all count, as other programs make few.
fn is_ours(kind: &Kind, id: u32) -> bool {
    match kind.name {
        PROGRAM => program_name(kind, id).is_some_and(|name| name.starts_with(OURS)),
        _ => open(kind, id).is_some(),
    }
}

fn open(kind: &Kind, id: u32) -> Option<OwnedFd> {
    let mut attributes = [0; 32];
    attributes[0] = id;
    let fd = bpf(kind.fd_by_id, &mut attributes)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn program_name(kind: &Kind, id: u32) -> Option<String> {
    let fd = open(kind, id)?;
    let mut info = [0u8; 256];
    let mut attributes = [0; 32];
    attributes[0] = u32::try_from(fd.as_raw_fd()).ok()?;
    attributes[1] = u32::try_from(info.len()).ok()?;
    let address = info.as_mut_ptr() as u64;
    attributes[2] = address as u32;
    attributes[3] = (address >> 32) as u32;
    bpf(OBJ_GET_INFO_BY_FD, &mut attributes)?;
    let name = info[NAME_AT..NAME_AT + NAME_BYTES].split(|byte| *byte == 0);
    Some(String::from_utf8_lossy(name.into_iter().next()?).into_owned())
}
