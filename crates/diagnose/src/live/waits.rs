//! Waits of the threads of a process in the last seconds. In: rows of table `waits`, or looks at the threads at
//! random times, where no waits are recorded. Out: for each kind of object, how many threads wait for it on average,
//! and for how long at most.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Serialize;
use table::tables::Waits;
use table::{Columns, WaitObject};

/// Waits of the threads of one process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessWaits {
    /// Source.
    pub measured: WaitSource,
    /// Observed time, ns.
    pub time_ns: u64,
    /// By object, most first.
    pub objects: Vec<ObjectWaits>,
}

/// How waits are known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum WaitSource {
    /// Every wait that ended within the observed time was recorded.
    Recorded,
    /// The threads were sampled at random times.
    Sampled {
        /// So often.
        looks: u64,
        /// Threads that it has.
        threads: u64,
        /// Those of them that were on a CPU or ready for one, on average.
        running: f64,
    },
}

/// Waits of a process for one kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ObjectWaits {
    /// For what.
    pub object: WaitObject,
    /// Threads that waited for it at a time, on average: time of all waits by the observed time.
    pub threads: f64,
    /// Waits that ended; `None`: samples do not show it.
    pub waits: Option<u64>,
    /// The longest, ns; by looks the longest that a thread was found in, between which it did not run: it may have
    /// begun before the first and lasted beyond the last. `None`: no thread was found twice in the same one.
    pub longest_ns: Option<u64>,
}

#[derive(Default)]
struct WaitSum {
    waits: u64,
    total_ns: u64,
    longest_ns: u64,
}

/// Adds up the waits of each process, by pid. The rows are of a window that began at `from_ns` and is `time_ns` long.
pub(super) fn group_by_process<'a>(
    batches: impl Iterator<Item = &'a Waits>,
    from_ns: u64,
    time_ns: u64,
) -> HashMap<u32, ProcessWaits> {
    let mut sums: HashMap<u32, BTreeMap<WaitObject, WaitSum>> = HashMap::new();
    for rows in batches {
        for index in 0..rows.len() {
            let (start_ns, end_ns) = (rows.start_ns[index], rows.end_ns[index]);
            if end_ns < from_ns {
                continue;
            }
            let objects = sums.entry(rows.pid[index]).or_default();
            let sum = objects.entry(rows.kind[index]).or_default();
            sum.waits += 1;
            sum.total_ns += end_ns.saturating_sub(start_ns.max(from_ns));
            sum.longest_ns = sum.longest_ns.max(end_ns.saturating_sub(start_ns));
        }
    }
    let of = |(object, sum): (WaitObject, WaitSum)| ObjectWaits {
        object,
        threads: sum.total_ns as f64 / time_ns.max(1) as f64,
        waits: Some(sum.waits),
        longest_ns: Some(sum.longest_ns),
    };
    let finish = |objects: BTreeMap<WaitObject, WaitSum>| ProcessWaits {
        measured: WaitSource::Recorded,
        time_ns,
        objects: sort_objects(objects.into_iter().map(of).collect()),
    };
    sums.into_iter()
        .map(|(pid, objects)| (pid, finish(objects)))
        .collect()
}

/// Sorts objects by waiting threads, the most first.
fn sort_objects(mut objects: Vec<ObjectWaits>) -> Vec<ObjectWaits> {
    objects.sort_by(|a, b| b.threads.total_cmp(&a.threads));
    objects
}

/// A thread at a look.
#[derive(Debug, Clone, Copy)]
pub struct ThreadSample {
    /// Span.
    pub tid: u32,
    /// Object of its wait; `None`: it ran, or was ready to.
    pub waits_for: Option<WaitObject>,
    /// CPU time that it had used, ns: the same at two looks, it has not run in between. `None`: not known.
    pub ran_ns: Option<u64>,
}

/// A wait that a sample found, and that lasts.
#[derive(Debug, Clone, Copy)]
struct OngoingWait {
    object: WaitObject,
    ran_ns: u64,
    since_ns: u64,
    /// When it was last seen: a thread may not be at every look.
    seen_ns: u64,
}

/// One look, put together.
#[derive(Debug, Default)]
struct ThreadSnapshot {
    time_ns: u64,
    /// Threads that were sampled, and those that ran.
    seen: u64,
    running: u64,
    /// Threads in it, and the longest time since it was first seen.
    objects: BTreeMap<WaitObject, (u64, Option<u64>)>,
}

/// Looks at the threads of one process.
#[derive(Debug)]
pub struct ThreadSnapshots {
    length_ns: u64,
    looks: VecDeque<ThreadSnapshot>,
    lasting: HashMap<u32, OngoingWait>,
    threads: u64,
}

impl ThreadSnapshots {
    /// Creates an empty list; waits of the last `length_ns` count.
    pub fn new(length_ns: u64) -> Self {
        Self {
            length_ns,
            looks: VecDeque::new(),
            lasting: HashMap::new(),
            threads: 0,
        }
    }

    /// Adds one sample of a process: these of its `number` threads, at this time.
    pub fn add(&mut self, time_ns: u64, threads: &[ThreadSample], number: usize) {
        self.threads = number as u64;
        let mut look = ThreadSnapshot {
            time_ns,
            seen: threads.len() as u64,
            ..ThreadSnapshot::default()
        };
        for thread in threads {
            let Some(object) = thread.waits_for else {
                look.running += 1;
                self.lasting.remove(&thread.tid);
                continue;
            };
            let lasted_ns = self.lasted_ns(time_ns, thread, object);
            let (number, longest_ns) = look.objects.entry(object).or_default();
            *number += 1;
            *longest_ns = (*longest_ns).max(lasted_ns);
        }
        self.looks.push_back(look);
        let from_ns = time_ns.saturating_sub(self.length_ns);
        while self.looks.front().is_some_and(|it| it.time_ns < from_ns) {
            self.looks.pop_front();
        }
        self.lasting.retain(|_, it| it.seen_ns >= from_ns);
    }

    /// Returns how long a thread is known to be in this wait, ns; `None` when it is seen for the first time.
    fn lasted_ns(
        &mut self,
        time_ns: u64,
        thread: &ThreadSample,
        object: WaitObject,
    ) -> Option<u64> {
        let ran_ns = thread.ran_ns?;
        let lasting = self.lasting.entry(thread.tid).or_insert(OngoingWait {
            object,
            ran_ns,
            since_ns: time_ns,
            seen_ns: time_ns,
        });
        if (lasting.object, lasting.ran_ns) != (object, ran_ns) {
            *lasting = OngoingWait {
                object,
                ran_ns,
                since_ns: time_ns,
                seen_ns: time_ns,
            };
        }
        lasting.seen_ns = time_ns;
        Some(time_ns - lasting.since_ns).filter(|ns| *ns > 0)
    }

    /// Returns the number of samples that count.
    pub fn number(&self) -> usize {
        self.looks.len()
    }

    /// Returns the waits of the process; `None` if no thread was seen.
    pub fn waits(&self) -> Option<ProcessWaits> {
        let seen: u64 = self.looks.iter().map(|look| look.seen).sum();
        // of seen threads to all threads
        let threads = |found: u64| self.threads as f64 * found as f64 / seen as f64;
        let (first, last) = self.looks.front().zip(self.looks.back())?;
        let mut sums: BTreeMap<WaitObject, (u64, Option<u64>)> = BTreeMap::new();
        for (object, (number, longest_ns)) in self.looks.iter().flat_map(|look| &look.objects) {
            let sum = sums.entry(*object).or_default();
            sum.0 += number;
            sum.1 = sum.1.max(*longest_ns);
        }
        let of = |(object, (number, longest_ns))| ObjectWaits {
            object,
            threads: threads(number),
            waits: None,
            longest_ns,
        };
        (seen > 0).then(|| ProcessWaits {
            measured: WaitSource::Sampled {
                looks: self.looks.len() as u64,
                threads: self.threads,
                running: threads(self.looks.iter().map(|look| look.running).sum()),
            },
            time_ns: last.time_ns - first.time_ns,
            objects: sort_objects(sums.into_iter().map(of).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// Makes a sample of a thread: its wait, and its CPU time in nanoseconds.
    fn seen(tid: u32, waits_for: Option<WaitObject>, ran_ns: u64) -> ThreadSample {
        ThreadSample {
            tid,
            waits_for,
            ran_ns: Some(ran_ns),
        }
    }

    /// Returns the waits of a process for an object, which must be there.
    fn waits_for(waits: &ProcessWaits, object: WaitObject) -> ObjectWaits {
        let found = waits.objects.iter().find(|it| it.object == object);
        *found.expect("waited for")
    }

    #[test]
    fn samples_show_threads_in_each_wait_and_how_long_one_lasted() {
        let mut looks = ThreadSnapshots::new(10 * S);
        assert_eq!(looks.waits(), None);
        for second in 1..=8 {
            // one waits all the time, one wakes after each look, one runs at every second look
            let third = (second % 2 == 0).then_some(WaitObject::Futex);
            let threads = [
                seen(1, Some(WaitObject::Epoll), 7),
                seen(2, Some(WaitObject::Futex), second),
                seen(3, third, 7),
            ];
            looks.add(second * S, &threads, 3);
        }
        let waits = looks.waits().expect("sampled");
        let measured = WaitSource::Sampled {
            looks: 8,
            threads: 3,
            running: 0.5,
        };
        assert_eq!((waits.measured, waits.time_ns), (measured, 7 * S));
        let (epoll, futex) = (
            waits_for(&waits, WaitObject::Epoll),
            waits_for(&waits, WaitObject::Futex),
        );
        assert_eq!((epoll.threads, epoll.longest_ns), (1.0, Some(7 * S)));
        assert_eq!((futex.threads, futex.longest_ns), (1.5, None));
        assert_eq!(waits.objects[0].object, WaitObject::Futex);
    }

    #[test]
    fn old_waits_do_not_count_unless_they_last() {
        let mut looks = ThreadSnapshots::new(2 * S);
        for second in 1..=9 {
            let other = if second < 6 {
                WaitObject::Pipe
            } else {
                WaitObject::Sleep
            };
            let threads = [seen(1, Some(WaitObject::Epoll), 7), seen(2, Some(other), 7)];
            looks.add(second * S, &threads, 2);
        }
        let waits = looks.waits().expect("sampled");
        assert_eq!((looks.number(), waits.time_ns), (3, 2 * S));
        assert_eq!(waits_for(&waits, WaitObject::Epoll).longest_ns, Some(8 * S));
        assert_eq!(waits_for(&waits, WaitObject::Sleep).longest_ns, Some(3 * S));
        assert!(waits.objects.iter().all(|it| it.object != WaitObject::Pipe));
    }

    #[test]
    fn some_threads_represent_many() {
        let mut looks = ThreadSnapshots::new(10 * S);
        looks.add(
            S,
            &[seen(1, Some(WaitObject::Epoll), 1), seen(2, None, 1)],
            8,
        );
        looks.add(
            2 * S,
            &[
                seen(3, Some(WaitObject::Epoll), 1),
                seen(4, Some(WaitObject::Epoll), 1),
            ],
            8,
        );
        let waits = looks.waits().expect("sampled");
        assert_eq!(waits_for(&waits, WaitObject::Epoll).threads, 6.0);
        // none was seen twice
        assert_eq!(waits_for(&waits, WaitObject::Epoll).longest_ns, None);
    }

    #[test]
    fn rows_show_every_wait_that_ended() {
        let mut rows = Waits::default();
        let mut wait = |pid, kind, start_ns, end_ns| {
            let row = json!({
                "tid": pid, "pid": pid, "start_ns": start_ns, "end_ns": end_ns, "kind": kind,
                "waker": "unseen", "uninterruptible": false, "cpu": 0,
            });
            rows.push(row_of(row).expect("a row"));
        };
        wait(5u32, WaitObject::Epoll, 0, 4 * S);
        wait(5, WaitObject::Epoll, 5 * S, 6 * S);
        wait(5, WaitObject::Futex, S / 2, S);
        wait(6, WaitObject::Pipe, 3 * S, 5 * S);
        let waits = group_by_process([&rows].into_iter(), 2 * S, 4 * S);
        let five = &waits[&5];
        assert_eq!((five.measured, five.time_ns), (WaitSource::Recorded, 4 * S));
        let expected = ObjectWaits {
            object: WaitObject::Epoll,
            threads: 0.75,
            waits: Some(2),
            longest_ns: Some(4 * S),
        };
        // the futex was over before
        assert_eq!(five.objects, [expected]);
        assert_eq!(waits[&6].objects[0].threads, 0.5);
    }
}
