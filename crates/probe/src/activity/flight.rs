//! The flight recorder: its programs, loaded and attached, and its memory. Out: rows of a window.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, ProgramMut};
use table::tables::Activities;

use super::faults::open_ends;
use super::memory::Memory;
use super::names::{ActivityNames, VECTORS, find_ended};
use super::replay::{Window, had_thread, replay};
use super::skel::types::activity_event;
use super::skel::{ActivitySkel, ActivitySkelBuilder, OpenActivitySkel};
use crate::clock::monotonic_ns;
use crate::interface::{BtfError, HooksError};

/// Where the loaded object lives; it must outlive [`Flight`].
pub type Storage = MaybeUninit<OpenObject>;

/// Memory for the events of a CPU, where nobody chooses another: 262,144 events.
pub const USUAL_CPU_BYTES: u64 = 4 << 20;
/// All CPUs together hold no more then: of many CPUs each holds less.
const USUAL_BYTES: u64 = 64 << 20;
/// Events that a CPU holds at least: those that are about to be overwritten, and as many that are not.
const LEAST_SLOTS: u64 = 128;
/// Tracepoints of the starts of page faults.
const PAGE_FAULTS: [&str; 2] = ["page_fault_user", "page_fault_kernel"];
/// Events younger than this may still be on their way into the memory.
const YOUNG_NS: u64 = 20_000;

/// The flight recorder of every CPU: spans of the last moments, in memory. Dropping it detaches its programs; so does
/// the kernel after a kill.
pub struct Flight<'obj> {
    links: Vec<Link>,
    memory: Memory,
    names: RefCell<ActivityNames>,
    skel: ActivitySkel<'obj>,
}

impl<'obj> Flight<'obj> {
    /// Loads and attaches the programs, and begins. `memory_bytes`: for the events of all CPUs; `None`:
    /// [`USUAL_CPU_BYTES`] for each.
    ///
    /// # Errors
    /// When the kernel refuses one, or so much memory.
    pub fn begin(
        storage: &'obj mut Storage,
        memory_bytes: Option<u64>,
    ) -> Result<Self, HooksError> {
        let btf = Btf::from_vmlinux()
            .map_err(|error| HooksError::Btf(BtfError::Missing(error.to_string())))?;
        let has = |tracepoint: &str| {
            let name = format!("btf_trace_{tracepoint}");
            btf.type_by_name::<Typedef<'_>>(&name).is_some()
        };
        let mut open = ActivitySkelBuilder::default()
            .open(storage)
            .map_err(HooksError::Load)?;
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
        let cpus = u16::try_from(cpus).unwrap_or(u16::MAX);
        let slots = slots_of_cpu(memory_bytes, cpus);
        configure(&mut open, cpus, slots).map_err(HooksError::Load)?;
        let has_vectors = has("local_timer_entry");
        // some architectures have none
        let has_faults = has(PAGE_FAULTS[0]) && has(PAGE_FAULTS[1]);
        let p = &mut open.progs;
        p.note_vector_entry.set_autoload(has_vectors);
        p.note_vector_exit.set_autoload(has_vectors);
        p.note_page_fault_user.set_autoload(has_faults);
        p.note_page_fault_kernel.set_autoload(has_faults);
        p.note_page_fault_end.set_autoload(has_faults);
        let skel = open.load().map_err(HooksError::Load)?;
        let maps = &skel.maps;
        let memory = Memory::map(&maps.activity_events, &maps.activity_heads, cpus, slots);
        let memory = memory.map_err(|error| HooksError::Read {
            what: "the flight recorder's memory",
            error,
        })?;
        let mut links = attach(&skel, has)?;
        if has_faults {
            links.extend(attach_faults(&skel)?);
        }
        Ok(Self {
            links,
            memory,
            names: RefCell::default(),
            skel,
        })
    }

    /// Returns the number of possible CPUs.
    pub fn cpus(&self) -> u16 {
        self.memory.cpus()
    }

    /// Returns the time until which windows can be read now, `CLOCK_MONOTONIC` ns.
    pub fn readable_until_ns() -> u64 {
        monotonic_ns().saturating_sub(YOUNG_NS)
    }

    /// Appends what is held of a window, which must end before [`Self::readable_until_ns`]. Windows of one
    /// CPU must not overlap, or a span is there twice. What is still under way at the end of the last one
    /// is cut there.
    pub fn read(&self, window: Window, into: &mut Activities) {
        let names = &mut self.names.borrow_mut();
        let ended = |tid| find_ended(tid, &self.skel.maps.ended_threads);
        replay(&self.memory, names, &ended, window, into);
    }

    /// Returns whether a thread ran on the window's CPU during the window, as far as events are
    /// kept.
    pub fn had_thread(&self, window: Window, tid: u32) -> bool {
        had_thread(&self.memory, window, tid)
    }

    /// Returns when the oldest event of a CPU that is held was, and the newest that can be read.
    pub fn held_window(&self, cpu: u16) -> Window {
        let held = self.memory.held_numbers(cpu);
        let newest_ns = Self::readable_until_ns();
        let oldest = held.clone().next();
        let from_ns = oldest.map_or(newest_ns, |number| self.memory.event(cpu, number).time_ns);
        Window {
            cpu,
            from_ns,
            until_ns: newest_ns,
        }
    }

    /// Forgets the names of threads, which change.
    pub fn forget_threads(&self) {
        self.names.borrow_mut().forget_threads();
    }

    /// Detaches the programs; kept events can still be read.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Returns the loaded programs, to measure their run time.
    pub fn programs(&self) -> Vec<BorrowedFd<'_>> {
        let all = tracepoint_programs(&self.skel).map(|(program, _)| program);
        let p = &self.skel.progs;
        let all = all
            .into_iter()
            .chain([&p.note_vector_entry, &p.note_vector_exit])
            .chain(page_fault_programs(&self.skel))
            .chain([&p.note_page_fault_end]);
        let loaded = all.filter(|program| program.autoload());
        loaded.map(|program| program.as_fd()).collect()
    }
}

/// Returns how many events each of `cpus` CPUs can keep, a power of two.
fn slots_of_cpu(memory_bytes: Option<u64>, cpus: u16) -> u64 {
    let cpus = u64::from(cpus);
    let cpu_bytes = memory_bytes.map_or_else(
        || USUAL_CPU_BYTES.min(USUAL_BYTES / cpus),
        |bytes| bytes / cpus,
    );
    let slots = (cpu_bytes / size_of::<activity_event>() as u64).max(LEAST_SLOTS);
    1 << slots.ilog2()
}

/// Sets the constants of the programs before loading: number of CPUs, slots of each memory.
fn configure(open: &mut OpenActivitySkel<'_>, cpus: u16, slots: u64) -> libbpf_rs::Result<()> {
    let all = u64::from(cpus) * slots;
    open.maps.activity_events.set_max_entries(all as u32)?;
    open.maps.activity_heads.set_max_entries(cpus.into())?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.slots_mask = (slots - 1) as u32;
    }
    Ok(())
}

/// Returns the programs with a tracepoint each, and its name.
fn tracepoint_programs<'a>(skel: &'a ActivitySkel<'_>) -> [(&'a ProgramMut<'a>, &'static str); 15] {
    let p = &skel.progs;
    [
        (&p.note_sched_switch, "sched_switch"),
        (&p.note_sched_migrate_task, "sched_migrate_task"),
        (&p.note_sched_process_exit, "sched_process_exit"),
        (&p.note_sys_enter, "sys_enter"),
        (&p.note_sys_exit, "sys_exit"),
        (&p.note_irq_handler_entry, "irq_handler_entry"),
        (&p.note_irq_handler_exit, "irq_handler_exit"),
        (&p.note_softirq_entry, "softirq_entry"),
        (&p.note_softirq_exit, "softirq_exit"),
        (&p.note_netif_receive_skb_entry, "netif_receive_skb_entry"),
        (&p.note_netif_receive_skb_exit, "netif_receive_skb_exit"),
        (&p.note_hrtimer_expire_entry, "hrtimer_expire_entry"),
        (&p.note_hrtimer_expire_exit, "hrtimer_expire_exit"),
        (&p.note_timer_expire_entry, "timer_expire_entry"),
        (&p.note_timer_expire_exit, "timer_expire_exit"),
    ]
}

/// Attaches the programs that this kernel has hooks for.
fn attach(skel: &ActivitySkel<'_>, has: impl Fn(&str) -> bool) -> Result<Vec<Link>, HooksError> {
    let mut links = Vec::new();
    for (program, name) in tracepoint_programs(skel) {
        let link = program.attach();
        links.push(link.map_err(|error| HooksError::Attach {
            program: name.to_owned(),
            error,
        })?);
    }
    let p = &skel.progs;
    let both = [
        (&p.note_vector_entry, "entry"),
        (&p.note_vector_exit, "exit"),
    ];
    for (program, end) in both {
        let names = VECTORS.map(|(name, _)| format!("{name}_{end}"));
        for name in names.into_iter().filter(|name| has(name)) {
            let link = program.attach_raw_tracepoint(&name);
            links.push(link.map_err(|error| HooksError::Attach {
                program: "an interrupt of the CPU's own".to_owned(),
                error,
            })?);
        }
    }
    Ok(links)
}

/// Returns the programs of page faults: begin and end.
fn page_fault_programs<'a>(skel: &'a ActivitySkel<'_>) -> [&'a ProgramMut<'a>; 2] {
    let p = &skel.progs;
    [&p.note_page_fault_user, &p.note_page_fault_kernel]
}

/// Attaches the programs for page faults to each CPU's software event.
fn attach_faults(skel: &ActivitySkel<'_>) -> Result<Vec<Link>, HooksError> {
    let ends = open_ends().map_err(|error| HooksError::Read {
        what: "perf's events of page faults",
        error,
    })?;
    // ends first: what began then has one
    let program = &skel.progs.note_page_fault_end;
    let ends = ends
        .into_iter()
        .map(|fd| ("page faults", program.attach_perf_event(fd.into_raw_fd())));
    let begins = page_fault_programs(skel).map(|program| program.attach());
    ends.chain(PAGE_FAULTS.into_iter().zip(begins))
        .map(|(program, link)| {
            link.map_err(|error| HooksError::Attach {
                program: program.to_owned(),
                error,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::{ActivityKind, Columns};

    #[test]
    fn cpus_share_the_memory() {
        assert_eq!(slots_of_cpu(None, 2), 1 << 18);
        assert_eq!(slots_of_cpu(None, 16), 1 << 18);
        assert_eq!(slots_of_cpu(None, 17), 1 << 17);
        assert_eq!(slots_of_cpu(Some(256 << 20), 2), 1 << 23);
        assert_eq!(slots_of_cpu(Some(256 << 20), 3), 1 << 22);
        assert_eq!(slots_of_cpu(Some(1 << 20), 4_096), LEAST_SLOTS);
    }

    /// Needs root, and says so.
    #[test]
    fn own_system_calls_are_held_with_their_names() {
        let mut storage = Storage::uninit();
        let flight = match Flight::begin(&mut storage, None) {
            Ok(flight) => flight,
            Err(error) if error.is_permission() => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        let from_ns = monotonic_ns();
        for _ in 0..500 {
            nix::unistd::getppid();
        }
        let until_ns = monotonic_ns();
        while monotonic_ns() < until_ns + 10 * YOUNG_NS {}
        let mut rows = Activities::default();
        for cpu in 0..flight.cpus() {
            let window = Window {
                cpu,
                from_ns,
                until_ns,
            };
            flight.read(window, &mut rows);
        }
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        let rows: Vec<_> = (0..rows.len()).map(|index| rows.row(index)).collect();
        let own = rows.iter().filter(|row| row.tid == Some(tid));
        let calls = own.filter(|row| row.kind == ActivityKind::Syscall);
        let whole: Vec<_> = calls
            .filter(|row| row.name.as_deref() == Some("getppid") && row.begin_seen && row.end_seen)
            .collect();
        assert_eq!(whole.len(), 500);
        for row in whole {
            assert!(
                from_ns <= row.begin_ns && row.begin_ns <= row.end_ns && row.end_ns <= until_ns
            );
            assert!(row.depth >= 1, "within its thread's time: {row:?}");
        }
    }
}
