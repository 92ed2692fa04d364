//! Counters of a thread: hardware counters, context switches and page faults through perf_event_open, CPU
//! time by getrusage.
//!
//! A counter that the machine or the kernel does not give is absent, with the reason, and never zero. CPUs of several
//! kinds have a PMU each: an event is opened on all of them, and their counts are added up.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// From include/uapi/linux/perf_event.h.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const HW_CACHE: u32 = 3;
const CPU_CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const SW_PAGE_FAULTS: u64 = 2;
const SW_CONTEXT_SWITCHES: u64 = 3;
/// Cache L1D or LL, operation read (0), result miss (1).
const L1D_READ_MISS: u64 = 1 << 16;
const LL_READ_MISS: u64 = 2 | 1 << 16;

/// Counters by name: those of the published study's columns and what else helps.
const EVENTS: [(&str, u32, u64); 6] = [
    ("cycles", HARDWARE, CPU_CYCLES),
    ("instructions", HARDWARE, INSTRUCTIONS),
    ("l1_misses", HW_CACHE, L1D_READ_MISS),
    ("llc_misses", HW_CACHE, LL_READ_MISS),
    ("cs", SOFTWARE, SW_CONTEXT_SWITCHES),
    ("page_faults", SOFTWARE, SW_PAGE_FAULTS),
];

/// The beginning of `struct perf_event_attr`: PERF_ATTR_SIZE_VER0.
#[repr(C)]
#[derive(Default)]
struct PerfAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// Counters of the calling thread, or why there are none.
pub(super) struct ThreadCounters {
    events: Vec<(&'static str, io::Result<Vec<File>>)>,
}

/// Values of a thread's counters and its CPU times at one moment.
pub(super) struct CounterReading {
    /// Count, time enabled and time running of each PMU.
    events: Vec<Option<Vec<[u64; 3]>>>,
    user_ns: u64,
    system_ns: u64,
}

/// Counts between two readings by name; absent: not measured.
pub(super) type CounterValues = BTreeMap<String, Option<f64>>;

impl ThreadCounters {
    /// Opens the counters of this thread, and starts them.
    pub(super) fn open() -> Self {
        let pmus = hybrid_pmus();
        let open_all = |kind: u32, config: u64| -> io::Result<Vec<File>> {
            if kind == SOFTWARE || pmus.is_empty() {
                return Ok(vec![open(kind, config)?]);
            }
            let of_pmu = |pmu: &u64| open(kind, config | pmu << 32);
            pmus.iter().map(of_pmu).collect()
        };
        let events = EVENTS.map(|(name, kind, config)| (name, open_all(kind, config)));
        Self {
            events: events.into(),
        }
    }

    /// Returns why counters are missing, by name.
    pub(super) fn missing(&self) -> BTreeMap<String, String> {
        let missing = self.events.iter().filter_map(|(name, opened)| {
            let why = match opened.as_ref().err()?.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
                    "not supported: this machine has no such counter".to_owned()
                }
                Some(libc::EACCES | libc::EPERM) => {
                    "not permitted: see kernel.perf_event_paranoid".to_owned()
                }
                _ => format!("{}", opened.as_ref().err()?),
            };
            Some(((*name).to_owned(), why))
        });
        missing.collect()
    }

    /// Reads the counters of this thread; those that the machine lacks are missing.
    pub(super) fn read(&mut self) -> CounterReading {
        let usage = getrusage(UsageWho::RUSAGE_THREAD);
        let (user, system) = usage.map_or((TimeVal::new(0, 0), TimeVal::new(0, 0)), |usage| {
            (usage.user_time(), usage.system_time())
        });
        let events = self.events.iter_mut().map(|(_, opened)| {
            let files = opened.as_mut().ok()?;
            files.iter_mut().map(read_one).collect()
        });
        CounterReading {
            events: events.collect(),
            user_ns: to_ns(user),
            system_ns: to_ns(system),
        }
    }
}

impl CounterReading {
    /// Counts since an earlier reading. Those that shared a PMU with others are scaled up to all of the time.
    pub(super) fn since(&self, before: &CounterReading) -> CounterValues {
        let pairs = self.events.iter().zip(&before.events);
        let counts = pairs.zip(EVENTS).map(|((after, before), (name, ..))| {
            let each = after.iter().flatten().zip(before.iter().flatten());
            let scaled = each.map(|(after, before)| {
                let [count, enabled, running] = [0, 1, 2].map(|i| (after[i] - before[i]) as f64);
                // never on a CPU of this PMU: nothing happened there
                if running == 0.0 {
                    0.0
                } else {
                    count * enabled / running
                }
            });
            let is_there = after.is_some() && before.is_some();
            (name.to_owned(), is_there.then(|| scaled.sum()))
        });
        let mut counts: CounterValues = counts.collect();
        let user = self.user_ns.saturating_sub(before.user_ns) as f64;
        let system = self.system_ns.saturating_sub(before.system_ns) as f64;
        counts.insert("user_ns".to_owned(), Some(user));
        counts.insert("system_ns".to_owned(), Some(system));
        counts
    }
}

/// Sums the counters of threads; a counter that one thread lacks is left out.
pub(super) fn sum(all: impl IntoIterator<Item = CounterValues>) -> CounterValues {
    let mut all = all.into_iter();
    let first = all.next().unwrap_or_default();
    all.fold(first, |mut sum, counts| {
        for (name, value) in &mut sum {
            let other = counts.get(name).copied().flatten();
            *value = value.zip(other).map(|(one, other)| one + other);
        }
        sum
    })
}

/// Opens a performance counter of this thread.
fn open(kind: u32, config: u64) -> io::Result<File> {
    const TOTAL_TIME_ENABLED_AND_RUNNING: u64 = 3;
    const PERF_FLAG_FD_CLOEXEC: u64 = 8;
    let (this_thread, any_cpu, no_group) = (0, -1, -1);
    let attr = PerfAttr {
        kind,
        size: size_of::<PerfAttr>() as u32,
        config,
        read_format: TOTAL_TIME_ENABLED_AND_RUNNING,
        ..PerfAttr::default()
    };
    // SAFETY: `attr` is as large as it says, and lives until the call is over, which only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            this_thread,
            any_cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// Returns value, time enabled and time running of a counter.
fn read_one(file: &mut File) -> Option<[u64; 3]> {
    let mut bytes = [0; 24];
    file.read_exact(&mut bytes).ok()?;
    let mut words = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word));
    Some([words.next()?, words.next()?, words.next()?])
}

/// Returns the types of the PMUs of a machine with CPUs of several kinds (`cpu_core`, `cpu_atom`); none: one kind.
fn hybrid_pmus() -> Vec<u64> {
    let devices = std::fs::read_dir("/sys/bus/event_source/devices");
    let devices = devices.into_iter().flatten().flatten();
    let of_cpus = devices.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"cpu_"));
    let kinds = of_cpus.filter_map(|entry| {
        let kind = std::fs::read_to_string(entry.path().join("type")).ok()?;
        kind.trim().parse().ok()
    });
    kinds.collect()
}

/// Returns a time in nanoseconds.
fn to_ns(time: TimeVal) -> u64 {
    let us = time.tv_sec() * 1_000_000 + time.tv_usec();
    u64::try_from(us).unwrap_or(0) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_counter_has_a_reason_and_no_value() {
        let mut counters = ThreadCounters::open();
        let missing = counters.missing();
        let before = counters.read();
        let blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 1 << 16]).collect();
        std::hint::black_box(&blocks);
        let counts = counters.read().since(&before);
        for (name, ..) in EVENTS {
            assert_eq!(
                counts[name].is_none(),
                missing.contains_key(name),
                "{name}: {counts:?}"
            );
        }
        if let Some(faults) = counts["page_faults"] {
            assert!(faults >= 64.0, "{faults}");
        }
    }

    #[test]
    fn sum_is_absent_if_one_part_is() {
        let counts = |cs| CounterValues::from([("cs".to_owned(), cs), ("x".to_owned(), Some(1.0))]);
        let all = sum([counts(Some(2.0)), counts(Some(3.0))]);
        assert_eq!((all["cs"], all["x"]), (Some(5.0), Some(2.0)));
        assert_eq!(sum([counts(Some(2.0)), counts(None)])["cs"], None);
    }
}
