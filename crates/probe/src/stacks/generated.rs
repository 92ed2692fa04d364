//! Code that programs make while they run: it lies in memory of no file, and only the program knows its names. Some write
//! them to `/tmp/perf-PID.map`. The file stays open, so that it is read even after the program, and again when it grew.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::libc;
use table::Columns;
use table::tables::{Symbol, Symbols};

use super::objects::Object;
use super::perf_map::{self, CodeName, PerfMap};
use super::symbols::CodePlace;
use crate::clock::monotonic_ns;
use crate::interface::ProgramKey;

/// Bytes that are read of a map: what is longer is cut.
const MAP_BYTES_MOST: u64 = 64 << 20;

/// Bytes that are read at once, while the kernel's rings fill.
const READ_BYTES_MOST: u64 = 1 << 20;

/// A map that is not there, or that has not the address, is read_at at no sooner again.
const PAUSE: Duration = Duration::from_millis(100);

/// Names of generated code.
#[derive(Debug, Default)]
pub(super) struct GeneratedCode {
    maps: HashMap<ProgramKey, ProcessMap>,
    /// Names with the number that rows have for their place, by process.
    numbers: HashMap<(u32, Rc<str>), u64>,
    /// Addresses that no name was known for.
    unnamed: BTreeSet<(u32, u64)>,
}

/// The map of a process.
#[derive(Debug)]
struct ProcessMap {
    pid: u32,
    /// Its id where it runs, which is in the name of the file.
    own_pid: u32,
    /// The user that may have written the file.
    uid: u32,
    /// Whether it has this root directory, so that the file is found when the process is gone.
    shares_root: bool,
    file: Option<File>,
    read_bytes: u64,
    map: PerfMap,
    read_at: Option<Instant>,
}

impl GeneratedCode {
    /// Returns the first address of the function at an address.
    pub(super) fn start(&mut self, program: ProgramKey, address: u64) -> Option<u64> {
        let map = self.map(program, address)?;
        map.find(address).map(|(start, _)| start)
    }

    /// Returns the place of an address in generated code: the number of its name, or the address
    /// itself.
    pub(super) fn place(&mut self, program: ProgramKey, address: u64) -> CodePlace {
        let map = self.map(program, address);
        let name = map
            .and_then(|map| map.find(address))
            .map(|(_, name)| Rc::clone(name));
        let offset = match name {
            Some(name) => {
                let next = self.numbers.len() as u64 + 1;
                *self.numbers.entry((program.pid, name)).or_insert(next)
            }
            None => {
                self.unnamed.insert((program.pid, address));
                address
            }
        };
        CodePlace {
            object: Some(Rc::new(Object::from_name(&perf_map::path(program.pid)))),
            offset,
        }
    }

    /// Returns the names of generated code; reads the file again for an unknown address.
    fn map(&mut self, program: ProgramKey, address: u64) -> Option<&PerfMap> {
        let known = self.maps.entry(program);
        let known = known.or_insert_with(|| ProcessMap::new(program.pid));
        if known.map.find(address).is_none() {
            known.look_again(READ_BYTES_MOST);
        }
        Some(&known.map)
    }

    /// Adds the names of all generated code, also those written only now.
    pub(super) fn symbols(mut self, rows: &mut Symbols) {
        for ((pid, name), number) in &self.numbers {
            push(*pid, *number, name, rows);
        }
        for (program, map) in &mut self.maps {
            let last = (program.pid, u64::MAX);
            let mut unnamed = self.unnamed.range((program.pid, 0)..=last).peekable();
            if unnamed.peek().is_none() {
                continue;
            }
            map.read_at = None;
            map.look_again(MAP_BYTES_MOST);
            for (pid, address) in unnamed {
                if let Some((_, name)) = map.map.find(*address) {
                    push(*pid, *address, name, rows);
                }
            }
        }
    }
}

/// Adds the row of a symbol of generated code.
fn push(pid: u32, offset: u64, name: &str, rows: &mut Symbols) {
    let CodeName {
        function,
        source,
        line,
    } = CodeName::parse(name);
    rows.push(Symbol {
        time_ns: monotonic_ns(),
        object: perf_map::path(pid),
        build_id: None,
        offset,
        level: 0,
        function: Some(function),
        source,
        line,
    });
}

impl ProcessMap {
    /// Finds the file `/tmp/perf-PID.map` of a process, which may be in a container.
    fn new(pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str, word: usize| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().nth(word)?.parse().ok()
        };
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own_pid = ids.and_then(|ids| ids.split_whitespace().next_back()?.parse().ok());
        let root = |path: &str| {
            let root = std::fs::metadata(path).ok()?;
            Some((root.dev(), root.ino()))
        };
        let theirs = root(&format!("/proc/{pid}/root/"));
        Self {
            pid,
            own_pid: own_pid.unwrap_or(pid),
            // the effective one, which is the second
            uid: field("Uid:", 1).unwrap_or(u32::MAX),
            shares_root: theirs.is_some() && theirs == root("/"),
            file: None,
            read_bytes: 0,
            map: PerfMap::default(),
            read_at: None,
        }
    }

    /// Returns the possible paths of the map; after the process's end only with the same root
    /// directory.
    fn map_paths(&self) -> Vec<String> {
        let path = perf_map::path(self.own_pid);
        let here = self.shares_root.then(|| path.clone());
        let theirs = format!("/proc/{}/root{path}", self.pid);
        [theirs].into_iter().chain(here).collect()
    }

    /// Opens a map that the process itself may have written: anybody may put files there.
    fn open(&self, path: &str) -> Option<File> {
        let mut options = OpenOptions::new();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = options.read(true).custom_flags(flags).open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let is_own = metadata.uid() == self.uid || metadata.uid() == 0;
        (metadata.is_file() && is_own).then_some(file)
    }

    /// Reads what the program has added to the map, at most `most` bytes.
    fn look_again(&mut self, most: u64) {
        if self.read_at.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        self.read_at = Some(Instant::now());
        if self.file.is_none() {
            self.file = self.map_paths().iter().find_map(|path| self.open(path));
        }
        let Some(file) = &self.file else {
            return;
        };
        let room = MAP_BYTES_MOST.saturating_sub(self.read_bytes).min(most);
        let mut bytes = Vec::new();
        if file.take(room).read_to_end(&mut bytes).is_ok() {
            self.read_bytes += bytes.len() as u64;
            self.map.add(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes the map of a process of this user.
    fn map(uid: u32) -> ProcessMap {
        ProcessMap {
            pid: 1,
            own_pid: 1,
            uid,
            shares_root: false,
            file: None,
            read_bytes: 0,
            map: PerfMap::default(),
            read_at: None,
        }
    }

    #[test]
    fn a_map_of_another_owner_or_no_file_is_not_read() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("map"), "1000 10 f\n").expect("a map");
        symlink(path("map"), path("link")).expect("a link");
        let fifo = nix::unistd::mkfifo(&*path("fifo"), nix::sys::stat::Mode::S_IRWXU);
        fifo.expect("a pipe");
        let uid = nix::unistd::geteuid().as_raw();
        assert!(map(uid).open(&path("map")).is_some());
        for name in ["link", "fifo", "none"] {
            assert!(map(uid).open(&path(name)).is_none(), "{name}");
        }
        std::os::unix::fs::chown(path("map"), Some(uid.max(1)), None).expect("an owner");
        let is_root = uid == 0;
        assert!(!is_root || map(4711).open(&path("map")).is_none());
    }

    #[test]
    fn added_map_lines_are_read() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("map");
        std::fs::write(&path, "1000 10 first\n2000 10 sec").expect("a map");
        let mut map = map(nix::unistd::geteuid().as_raw());
        map.file = map.open(&path.to_string_lossy());
        map.look_again(MAP_BYTES_MOST);
        assert_eq!(map.map.len(), 1);
        let mut more = OpenOptions::new().append(true).open(&path).expect("a map");
        std::io::Write::write_all(&mut more, b"ond\n").expect("a line");
        map.read_at = None;
        map.look_again(MAP_BYTES_MOST);
        assert_eq!(
            map.map.find(0x2008).map(|(_, name)| &**name),
            Some("second")
        );
    }
}
