//! Reads the kernel's records of mapped code, of forks and of `execve`, for what lay where in programs that have ended
//! (perf_event_open(2): `PERF_RECORD_MMAP2`, `_FORK`, `_COMM`). `/proc/PID/maps` says it only while a process lives.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;

use super::mappings::{self, Mapping};
use crate::clock::monotonic_ns;
use crate::cpu_clocks::online_cpus;
use crate::perf_event::{self, Attr};
use crate::perf_ring::{PerfRecord, PerfRing};
use crate::processes;

/// Bytes of a CPU's ring, if a page is not larger: a start of a program takes about 1 KiB of it.
const RING_BYTES: usize = 64 << 10;

/// Processes that are kept; the oldest is forgotten.
const MOST_PROCESSES: usize = 1024;

/// Programs of a process that are kept: a shell's child is the shell first.
const MOST_PROGRAMS: usize = 4;

/// Reads the kernel's records, and keeps what they say.
#[derive(Default)]
pub(super) struct CodeEvents {
    rings: Vec<PerfRing>,
    /// Events of the time after the last reading began: others of that time may still be in rings that were read before.
    late: Vec<(u64, CodeEvent)>,
    history: CodeHistory,
}

/// Code of a process at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CodeAt {
    /// By address.
    pub(super) mappings: Rc<Vec<Mapping>>,
    /// The process that it is a child of: it has the same files, mostly.
    pub(super) parent: Option<u32>,
    /// A process that had the rest already when records began; itself, or one that it was forked from.
    pub(super) older: Option<u32>,
}

/// Holds the code that processes have mapped.
#[derive(Default)]
struct CodeHistory {
    /// Each program with the time in nanoseconds from which on the process was it.
    processes: HashMap<u32, Vec<(u64, CodeAt)>>,
    /// In the order in which they were seen.
    order: VecDeque<u32>,
}

/// Holds what one record says.
#[derive(Debug, PartialEq, Eq)]
enum CodeEvent {
    Map {
        pid: u32,
        mapping: Mapping,
    },
    Fork {
        pid: u32,
        parent: u32,
    },
    Exec {
        pid: u32,
    },
    /// Others were lost before.
    Lost,
}

impl CodeEvents {
    /// Has the kernel write records of all processes from now on. Without them, only processes that exist are known.
    ///
    /// # Errors
    /// What the kernel refused, or why its records would be of other processes.
    pub(super) fn open() -> Result<Self, String> {
        if !processes::sees_all() {
            return Err(
                "records have the process ids of a namespace (hint: --pid=host)".to_owned(),
            );
        }
        let cpus = online_cpus().map_err(|error| format!("CPUs: {error}"))?;
        let mut rings = Vec::new();
        for cpu in cpus {
            match open_ring(cpu) {
                // it went offline
                Err((_, error)) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err((call, error)) => return Err(format!("{call}: {error}")),
                Ok(ring) => rings.push(ring),
            }
        }
        Ok(Self {
            rings,
            ..Self::default()
        })
    }

    /// Reads what the kernel has written since the last time.
    pub(super) fn read(&mut self) {
        let began_ns = monotonic_ns();
        let mut events = std::mem::take(&mut self.late);
        for ring in &mut self.rings {
            ring.drain(|record| events.extend(decode(record)));
        }
        // a process may have run on several CPUs
        events.sort_by_key(|(time_ns, _)| *time_ns);
        let now = events.partition_point(|(time_ns, _)| *time_ns < began_ns);
        self.late = events.split_off(now);
        for (time_ns, event) in events {
            self.history.add(time_ns, event);
        }
    }

    /// Returns whether a process became another program after this time.
    pub(super) fn is_replaced(&self, pid: u32, time_ns: u64) -> bool {
        self.history.since_ns(pid).is_some_and(|ns| ns > time_ns)
    }

    /// Returns the code of a process at a time, as far as records say it.
    pub(super) fn find(&self, pid: u32, time_ns: u64) -> CodeAt {
        self.history.find(pid, time_ns)
    }
}

impl CodeHistory {
    fn add(&mut self, time_ns: u64, event: CodeEvent) {
        match event {
            CodeEvent::Fork { pid, parent } => {
                let mut code = self.find(parent, time_ns);
                code.parent = Some(parent);
                self.begin(pid);
                self.processes.insert(pid, vec![(time_ns, code)]);
            }
            CodeEvent::Exec { pid } => {
                let parent = self.find(pid, time_ns).parent;
                let code = CodeAt {
                    parent,
                    ..CodeAt::default()
                };
                let programs = self.programs(pid);
                programs.push((time_ns, code));
                if programs.len() > MOST_PROGRAMS {
                    programs.remove(0);
                }
            }
            CodeEvent::Map { pid, mapping } => {
                if let Some((_, code)) = self.programs(pid).last_mut() {
                    mappings::add(Rc::make_mut(&mut code.mappings), mapping);
                }
            }
            // a program that began meanwhile would have the code of another
            CodeEvent::Lost => *self = Self::default(),
        }
    }

    /// Returns the programs of a process; the first one began before the records if its beginning is not known.
    fn programs(&mut self, pid: u32) -> &mut Vec<(u64, CodeAt)> {
        if !self.processes.contains_key(&pid) {
            self.begin(pid);
        }
        let before = CodeAt {
            older: Some(pid),
            ..CodeAt::default()
        };
        self.processes
            .entry(pid)
            .or_insert_with(|| vec![(0, before)])
    }

    /// Makes room for a process.
    fn begin(&mut self, pid: u32) {
        if self.processes.remove(&pid).is_some() {
            self.order.retain(|it| *it != pid);
        }
        self.order.push_back(pid);
        if self.order.len() > MOST_PROCESSES
            && let Some(oldest) = self.order.pop_front()
        {
            self.processes.remove(&oldest);
        }
    }

    fn find(&self, pid: u32, time_ns: u64) -> CodeAt {
        let Some(programs) = self.processes.get(&pid) else {
            return CodeAt {
                older: Some(pid),
                ..CodeAt::default()
            };
        };
        let mut earlier = programs.iter().rev();
        let at = earlier.find(|(since_ns, _)| *since_ns <= time_ns);
        let mut code = at.map(|(_, code)| code.clone()).unwrap_or_default();
        code.older = code.older.filter(|older| self.is_as_before(*older));
        code
    }

    /// Returns whether a process is the program that it was before the records began.
    fn is_as_before(&self, pid: u32) -> bool {
        self.since_ns(pid).is_none_or(|ns| ns == 0)
    }

    /// Returns since when a process is the program that it was last; 0: since before the records began.
    fn since_ns(&self, pid: u32) -> Option<u64> {
        let (since_ns, _) = self.processes.get(&pid)?.last()?;
        Some(*since_ns)
    }
}

/// Opens the ring of a CPU; an error has the call that was refused.
fn open_ring(cpu: i32) -> Result<PerfRing, (&'static str, io::Error)> {
    const PERF_COUNT_SW_DUMMY: u64 = 9;
    const PERF_SAMPLE_TIME: u64 = 1 << 2;
    const MMAP: u64 = 1 << 8;
    const COMM: u64 = 1 << 9;
    const TASK: u64 = 1 << 13;
    const WATERMARK: u64 = 1 << 14;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const MMAP2: u64 = 1 << 23;
    const COMM_EXEC: u64 = 1 << 24;
    const USE_CLOCKID: u64 = 1 << 25;
    let flags = MMAP | COMM | TASK | WATERMARK | SAMPLE_ID_ALL | MMAP2 | COMM_EXEC | USE_CLOCKID;
    let attr = Attr {
        kind: perf_event::SOFTWARE,
        config: PERF_COUNT_SW_DUMMY,
        sample_type: PERF_SAMPLE_TIME,
        flags,
        // nobody waits for it
        wakeup_events: u32::MAX,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    let every_process = -1;
    let event = perf_event::open(&attr, every_process, cpu);
    let event = event.map_err(|error| ("perf_event_open", error))?;
    PerfRing::map(event, RING_BYTES).map_err(|error| ("mmap (perf_event_mlock_kb)", error))
}

/// Decodes a record and its time; None if it is of another kind, of a thread, or not whole.
fn decode(record: PerfRecord<'_>) -> Option<(u64, CodeEvent)> {
    const PERF_RECORD_LOST: u32 = 2;
    const PERF_RECORD_COMM: u32 = 3;
    const PERF_RECORD_FORK: u32 = 7;
    const PERF_RECORD_MMAP2: u32 = 10;
    const PERF_RECORD_MISC_COMM_EXEC: u16 = 1 << 13;
    let (body, time) = record.body.split_last_chunk::<8>()?;
    let pid = number(body, 0)?;
    let event = match record.kind {
        PERF_RECORD_FORK => {
            let parent = number(body, 4)?;
            (pid != parent).then_some(CodeEvent::Fork { pid, parent })
        }
        PERF_RECORD_COMM => {
            (record.misc & PERF_RECORD_MISC_COMM_EXEC != 0).then_some(CodeEvent::Exec { pid })
        }
        PERF_RECORD_LOST => Some(CodeEvent::Lost),
        PERF_RECORD_MMAP2 => Some(CodeEvent::Map {
            pid,
            mapping: decode_mapping(body)?,
        }),
        _ => None,
    };
    Some((u64::from_ne_bytes(*time), event?))
}

/// Decodes what `PERF_RECORD_MMAP2` says of the memory.
fn decode_mapping(body: &[u8]) -> Option<Mapping> {
    /// After: pid, tid, address, length, offset, device (2), inode, generation, protection, flags.
    const NAME: usize = 64;
    let wide = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    let start = wide(8)?;
    let name = body.get(NAME..)?.split(|byte| *byte == 0).next()?;
    let name = String::from_utf8_lossy(name).into_owned();
    Some(Mapping {
        addresses: start..start.checked_add(wide(16)?)?,
        offset: wide(24)?,
        file: (
            format!("{:02x}:{:02x}", number(body, 32)?, number(body, 36)?),
            wide(40)?,
        ),
        name: match name.strip_suffix(" (deleted)") {
            Some(name) => name.to_owned(),
            None => name,
        },
    })
}

/// Returns the number at an offset.
fn number(body: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes code of a file at these pages.
    fn code(pages: std::ops::Range<u64>, inode: u64) -> Mapping {
        Mapping {
            addresses: pages.start << 12..pages.end << 12,
            offset: 0,
            file: ("fe:01".to_owned(), inode),
            name: "/bin/a".to_owned(),
        }
    }

    fn inodes(code: &CodeAt) -> Vec<u64> {
        code.mappings.iter().map(|it| it.file.1).collect()
    }

    fn map(history: &mut CodeHistory, (time_ns, pid): (u64, u32), mapping: Mapping) {
        history.add(time_ns, CodeEvent::Map { pid, mapping });
    }

    #[test]
    fn child_has_the_code_of_its_parent_until_it_is_another_program() {
        let mut history = CodeHistory::default();
        history.add(10, CodeEvent::Exec { pid: 1 });
        map(&mut history, (11, 1), code(4..6, 71));
        history.add(20, CodeEvent::Fork { pid: 2, parent: 1 });
        map(&mut history, (21, 1), code(8..9, 72));
        history.add(30, CodeEvent::Exec { pid: 2 });
        map(&mut history, (31, 2), code(4..6, 73));
        assert_eq!(inodes(&history.find(1, 40)), [71, 72]);
        assert_eq!(inodes(&history.find(2, 29)), [71]);
        assert_eq!(inodes(&history.find(2, 40)), [73]);
        assert_eq!(history.find(2, 40).parent, Some(1));
        assert_eq!(history.find(2, 40).older, None);
        assert_eq!(history.find(2, 19), CodeAt::default());
    }

    #[test]
    fn process_that_began_before_has_more_than_records_say() {
        let mut history = CodeHistory::default();
        map(&mut history, (11, 1), code(4..6, 71));
        history.add(20, CodeEvent::Fork { pid: 2, parent: 1 });
        history.add(21, CodeEvent::Fork { pid: 3, parent: 2 });
        history.add(22, CodeEvent::Fork { pid: 4, parent: 9 });
        assert_eq!(history.find(1, 12).older, Some(1));
        let last = history.find(3, 30);
        assert_eq!(
            (inodes(&last), last.parent, last.older),
            (vec![71], Some(2), Some(1))
        );
        assert_eq!(history.find(4, 30).older, Some(9));
    }

    #[test]
    fn count_of_what_is_kept_has_an_end() {
        let mut history = CodeHistory::default();
        for pid in 0..2 * MOST_PROCESSES as u32 {
            history.add(
                1,
                CodeEvent::Fork {
                    pid,
                    parent: pid + 1,
                },
            );
            for time_ns in 0..2 * MOST_PROGRAMS as u64 {
                history.add(2 + time_ns, CodeEvent::Exec { pid });
            }
        }
        assert_eq!(history.processes.len(), MOST_PROCESSES);
        assert_eq!(history.order.len(), MOST_PROCESSES);
        let most = history.processes.values().map(Vec::len).max();
        assert_eq!(most, Some(MOST_PROGRAMS));
    }

    /// The kernel's layout: this process maps its own program as code, and starts another.
    #[test]
    fn kernel_records_a_program_that_has_ended() {
        let Ok(mut events) = CodeEvents::open() else {
            return;
        };
        if events.rings.is_empty() {
            return;
        }
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = child.id();
        assert!(child.wait().expect("an end").success());
        events.read();
        let code = events.find(pid, u64::MAX);
        let names: Vec<_> = code.mappings.iter().map(|it| it.name.as_str()).collect();
        assert!(names.iter().any(|it| it.contains("libc")), "{names:?}");
        assert_eq!((code.parent, code.older), (Some(std::process::id()), None));
        let at = code.mappings.iter().find(|it| it.name.contains("libc"));
        let own = mappings::read(std::process::id());
        let own = own.iter().find(|it| it.name.contains("libc"));
        if let Some((at, own)) = at.zip(own) {
            assert_eq!((&at.file, at.offset), (&own.file, own.offset));
        }
    }
}
