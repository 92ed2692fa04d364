//! Looks at the threads of the process that is open on the screen, while it is: at random times, by a thread of its
//! own, and so seldom that its cost stays within its share of a CPU. Where waits are recorded, there is nothing to do.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use diagnose::live::{ProcessWaits, ThreadSample, ThreadSnapshots};
use probe::clock::monotonic_ns;
use probe::processes::sees_all;
use probe::waits::{ThreadSampler, ThreadSnapshot, ThreadState};
use record::privileges::Privileges;

/// Mean time between looks: half as long to one and a half as long, so that it is not in step with periodic work.
const MEAN_NS: u64 = 50_000_000;
/// They are at least this many times what one takes apart: half a percent of a CPU.
const PAUSE_FACTOR: u64 = 200;
/// Samples before the first answer.
const FIRST: usize = 10;
/// Looks of how long count: as long as the screen's, and long enough for a hundred where that is short.
const INTERVALS: u64 = 5;
const LEAST_NS: u64 = 5_000_000_000;

/// Waits of the threads of a process, or why they are unknown.
pub(super) type ThreadWaits = (u32, Result<ProcessWaits, String>);

/// The thread that looks; it ends when this is dropped.
pub(super) struct Watcher {
    wanted: Sender<Option<u32>>,
    /// The last one that was asked for.
    pid: Option<u32>,
}

impl Watcher {
    /// Starts a thread that samples a process's threads every `interval`, and calls `send`; false
    /// ends it. Without these privileges it does nothing.
    pub(super) fn start(
        interval: Duration,
        privileges: Privileges,
        send: impl Fn(ThreadWaits) -> bool + Send + 'static,
    ) -> Self {
        let (wanted, requests) = channel();
        std::thread::spawn(move || {
            if privileges.assume().is_ok() {
                watch(&requests, interval, send);
            }
        });
        Self { wanted, pid: None }
    }

    /// Samples the threads of this process from now on, or of none.
    pub(super) fn watch_process(&mut self, pid: Option<u32>) {
        if self.pid != pid {
            self.pid = pid;
            // that it is there no more shows on the screen
            let _ = self.wanted.send(pid);
        }
    }
}

/// Samples the threads of the wanted process until no more are wanted.
fn watch(requests: &Receiver<Option<u32>>, interval: Duration, send: impl Fn(ThreadWaits) -> bool) {
    let mut next = None;
    loop {
        let wanted = match next.take() {
            Some(pid) => Some(pid),
            None => match requests.recv() {
                Ok(wanted) => wanted,
                Err(_) => return,
            },
        };
        let Some(pid) = wanted else { continue };
        match follow_process(pid, requests, interval, &send) {
            Some(after) => next = after,
            None => return,
        }
    }
}

/// Samples one process until another is requested, and returns that; `None`: the end.
fn follow_process(
    pid: u32,
    requests: &Receiver<Option<u32>>,
    interval: Duration,
    send: impl Fn(ThreadWaits) -> bool,
) -> Option<Option<u32>> {
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let mut sampler = ThreadSampler::new(pid);
    let mut looks = ThreadSnapshots::new(interval_ns.saturating_mul(INTERVALS).max(LEAST_NS));
    let mut random = monotonic_ns() | 1;
    let mut sent_ns = None;
    loop {
        let began_ns = monotonic_ns();
        let seen = match sees_all() {
            true => sampler.sample(),
            // another process may have this id here
            false => Err(std::io::ErrorKind::Unsupported.into()),
        };
        let took_ns = monotonic_ns() - began_ns;
        let answer = match seen {
            Ok(look) => {
                let threads: Vec<_> = look.threads.iter().map(seen_of).collect();
                looks.add(began_ns, &threads, look.number);
                let is_due = sent_ns.is_none_or(|sent_ns| began_ns - sent_ns >= interval_ns);
                let waits = (looks.number() >= FIRST && is_due).then(|| looks.waits());
                waits.flatten().map(Ok)
            }
            Err(error) => Some(Err(refusal_text(&error))),
        };
        let is_over = matches!(answer, Some(Err(_)));
        if let Some(answer) = answer {
            sent_ns = Some(began_ns);
            if !send((pid, answer)) {
                return None;
            }
        }
        if is_over {
            return requests.recv().ok();
        }
        let pause_ns = pause_ns(&mut random).max(took_ns * PAUSE_FACTOR);
        match requests.recv_timeout(Duration::from_nanos(pause_ns)) {
            Ok(next) => return Some(next),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Returns a random pause of half to one and a half of the mean (xorshift: it only has to keep no step with
/// anything).
fn pause_ns(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    MEAN_NS / 2 + *random % MEAN_NS
}

/// Returns what a sample shows of a thread.
fn seen_of(look: &ThreadSnapshot) -> ThreadSample {
    ThreadSample {
        tid: look.tid,
        waits_for: match look.doing {
            ThreadState::Runs => None,
            ThreadState::Waits(object) => Some(object),
        },
        ran_ns: look.ran_ns,
    }
}

/// Returns why threads cannot be sampled, and what helps.
fn refusal_text(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "not shown: it is another user's; sudo whylat top shows them".to_owned()
        }
        std::io::ErrorKind::NotFound => "it has ended".to_owned(),
        std::io::ErrorKind::Unsupported => {
            "not shown: whylat is in a pid namespace of its own".to_owned()
        }
        _ => format!("not shown: cannot sample its threads: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use diagnose::live::WaitSource;

    use super::*;

    #[test]
    fn process_is_sampled_until_it_ends() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .expect("sleep");
        let pid = child.id();
        let (to, received) = channel();
        let interval = Duration::from_millis(1);
        let mut watcher = Watcher::start(
            interval,
            Privileges::for_thread_samples(None).expect("privileges"),
            move |answer| to.send(answer).is_ok(),
        );
        watcher.watch_process(Some(pid));
        let long = Duration::from_secs(20);
        let (of, waits) = received.recv_timeout(long).expect("an answer");
        let waits = waits.expect("its threads");
        assert_eq!(of, pid);
        assert!(matches!(
            waits.measured,
            WaitSource::Sampled { threads: 1, .. }
        ));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let ended = std::iter::from_fn(|| received.recv_timeout(long).ok())
            .find_map(|(_, waits)| waits.err());
        assert_eq!(ended.as_deref(), Some("it has ended"));
        watcher.watch_process(None);
        drop(watcher);
        // the thread has ended, and with it its end of the channel
        assert!(received.recv_timeout(long).is_err());
    }

    #[test]
    fn pauses_are_random_within_bounds() {
        let mut random = 1;
        let pauses: Vec<u64> = (0..1000).map(|_| pause_ns(&mut random)).collect();
        let within = MEAN_NS / 2..MEAN_NS * 3 / 2;
        assert!(pauses.iter().all(|ns| within.contains(ns)));
        let mean_ns = pauses.iter().sum::<u64>() / 1000;
        assert!(mean_ns.abs_diff(MEAN_NS) < MEAN_NS / 20, "{mean_ns}");
    }
}
