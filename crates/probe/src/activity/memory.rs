//! The events of all CPUs, as the programs write them. In: the two maps, mapped. Out: events of a CPU by
//! their number, and which of them are still there.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};

use super::skel::types::{activity_event, activity_event_kind, activity_head};

/// The oldest events are left alone: they are the next to be overwritten.
const GUARD: u64 = 64;
const PAGE_BYTES: usize = 4096;

/// An event of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) time_ns: u64,
    /// Thread that has the CPU, or gets it, or is moved; zero: nobody.
    pub(super) tid: u32,
    /// A number: the kind gives its meaning.
    pub(super) number: i16,
    pub(super) kind: activity_event_kind,
}

/// The memory.
#[derive(Debug)]
pub(super) struct Memory {
    events: MmapRaw,
    heads: MmapRaw,
    slots: u64,
    cpus: u16,
}

impl Memory {
    /// Maps the kernel's event memory of `cpus` CPUs, with `slots` events each, a power of two.
    pub(super) fn map(
        events: &impl AsFd,
        heads: &impl AsFd,
        cpus: u16,
        slots: u64,
    ) -> std::io::Result<Self> {
        const { assert!(size_of::<activity_event>() == 16) };
        let count = usize::from(cpus);
        let events_bytes = size_of::<activity_event>() * slots as usize * count;
        Ok(Self {
            events: map(events, events_bytes)?,
            heads: map(heads, size_of::<activity_head>() * count)?,
            slots,
            cpus,
        })
    }

    /// Returns the number of possible CPUs.
    pub(super) fn cpus(&self) -> u16 {
        self.cpus
    }

    /// Returns the numbers of the events of a CPU that are complete and not overwritten.
    pub(super) fn held_numbers(&self, cpu: u16) -> Range<u64> {
        let words_of_head = size_of::<activity_head>() / size_of::<u64>();
        let next = word_at(&self.heads, usize::from(cpu) * words_of_head).load(Ordering::Acquire);
        let overwritten = next
            .checked_sub(self.slots)
            .map_or(0, |first| first + GUARD);
        overwritten.min(next)..next
    }

    /// Returns the event with this number; a newer one if it was overwritten.
    pub(super) fn event(&self, cpu: u16, number: u64) -> Event {
        let slot = u64::from(cpu) * self.slots + number % self.slots;
        let at = 2 * slot as usize;
        let [time_ns, rest] =
            [at, at + 1].map(|at| word_at(&self.events, at).load(Ordering::Relaxed));
        Event {
            time_ns,
            tid: rest as u32,
            number: (rest >> 32) as i16,
            kind: activity_event_kind((rest >> 48) as u8 as u32),
        }
    }

    /// Returns the events with these numbers, but for those overwritten meanwhile.
    pub(super) fn copy(&self, cpu: u16, numbers: Range<u64>) -> Vec<Event> {
        let events: Vec<Event> = numbers
            .clone()
            .map(|number| self.event(cpu, number))
            .collect();
        // what was read before is compared with what is written after
        fence(Ordering::Acquire);
        let lost = self.held_numbers(cpu).start.saturating_sub(numbers.start);
        let lost = usize::try_from(lost).map_or(events.len(), |lost| lost.min(events.len()));
        events[lost..].to_vec()
    }

    /// Number of the first event that is not before a time. Events are in order but for those that an
    /// interrupt wrote between another's clock reading and its own.
    pub(super) fn first_from(&self, cpu: u16, held: Range<u64>, time_ns: u64) -> u64 {
        let (mut low, mut high) = (held.start, held.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.event(cpu, middle).time_ns < time_ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Maps the first `bytes` of a BPF map to read.
fn map(fd: &impl AsFd, bytes: usize) -> std::io::Result<MmapRaw> {
    let bytes = bytes.next_multiple_of(PAGE_BYTES);
    MmapOptions::new()
        .len(bytes)
        .map_raw_read_only(fd.as_fd().as_raw_fd())
}

/// Returns a word of the mapping; panics beyond its end.
fn word_at(mapping: &MmapRaw, at: usize) -> &AtomicU64 {
    assert!(at < mapping.len() / size_of::<u64>());
    // SAFETY: the place was checked, a mapping is aligned to a page, and the kernel's writers and we touch
    // it by whole words that are never unmapped while `mapping` lives.
    unsafe { &*mapping.as_ptr().cast::<AtomicU64>().add(at) }
}

/// Memory that a test writes as the programs do.
#[cfg(test)]
pub(super) mod testing {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::{Event, Memory, activity_event, activity_head};

    pub(in super::super) struct Written {
        pub(in super::super) memory: Memory,
        events: File,
        heads: File,
        next: u64,
    }

    impl Written {
        /// Makes an event memory of one CPU.
        pub(in super::super) fn new(slots: u64) -> Self {
            let (events, heads) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
            events
                .set_len(slots * size_of::<activity_event>() as u64)
                .unwrap();
            heads.set_len(size_of::<activity_head>() as u64).unwrap();
            Self {
                memory: Memory::map(&events, &heads, 1, slots).unwrap(),
                events,
                heads,
                next: 0,
            }
        }

        /// Writes an event into the next slot, as the kernel does.
        pub(in super::super) fn write(&mut self, event: Event) {
            let rest = u64::from(event.tid)
                | u64::from(event.number.cast_unsigned()) << 32
                | u64::from(event.kind.0) << 48;
            let words = [event.time_ns, rest].map(u64::to_ne_bytes).concat();
            let slot = self.next % self.memory.slots;
            self.events
                .write_all_at(&words, slot * words.len() as u64)
                .unwrap();
            self.take_slot();
        }

        /// Takes a slot without writing it, as a program that is interrupted before it writes.
        pub(in super::super) fn take_slot(&mut self) {
            self.next += 1;
            self.heads
                .write_all_at(&self.next.to_ne_bytes(), 0)
                .unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Written;
    use super::*;

    #[test]
    fn memory_holds_the_last_written_events() {
        let mut written = Written::new(1 << 10);
        for number in 0..5_000u64 {
            let event = Event {
                time_ns: 10 * number,
                tid: number as u32,
                number: -1,
                kind: activity_event_kind::ACTIVITY_SWITCH,
            };
            written.write(event);
            let held = written.memory.held_numbers(0);
            assert_eq!(held.end, number + 1);
            assert!(held.end - held.start == (number + 1).min(1_024 - GUARD) || number < 1_024);
            assert_eq!(written.memory.event(0, number), event);
        }
        let (memory, held) = (&written.memory, written.memory.held_numbers(0));
        assert_eq!(memory.first_from(0, held.clone(), 45_001), 4_501);
        assert_eq!(memory.first_from(0, held.clone(), 45_000), 4_500);
        assert_eq!(memory.first_from(0, held.clone(), 0), held.start);
        assert_eq!(memory.first_from(0, held.clone(), u64::MAX), held.end);
        let copied = memory.copy(0, held.start - 10..held.start + 10);
        assert_eq!(copied.len(), 10, "what was overwritten is left out");
        assert_eq!(u64::from(copied[0].tid), held.start);
    }
}
