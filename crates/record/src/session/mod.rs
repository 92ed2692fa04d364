//! The collecting loop. What comes before it is in `setup` and `begin`, what comes after it in `finish`.

mod begin;
mod child;
mod finish;
mod setup;

use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};

use nix::sys::signal::Signal;
use nix::unistd::User;
use probe::clock::monotonic_ns;
use probe::hooks::{Drainer, Hooks, ProbeOutput};
use probe::nic;
use probe::signals::Signals;
use probe::tcp_stats::PollTimes;
use table::manifest::Line;

use crate::intake::Intake;
use crate::keep::{self, Keeping};
use crate::listen::Listening;
use crate::oversee::Overseen;
use crate::poll::Polls;
use crate::privileges::Work;
use crate::snapshot::Asked;
use crate::spent::Spent;
use crate::store::Sink;
use crate::usdt::Usdt;
use crate::{Options, RecordError};
use child::{forward, has_ended};
pub use finish::Outcome;
pub use setup::{Begun, record};

/// How long the loop sleeps between looks at the rings, unless one fills faster: 8 MiB of ring hold what
/// 500,000 calls/s of 72 bytes make in more than four times as long.
const TICK_MS: u16 = 50;
/// How long it sleeps while more comes than that.
const BUSY_TICK_MS: u16 = 5;
/// Batches in one look that show it: an eighth of the ring.
const BUSY_BATCHES: usize = 100;
/// Records and batches taken in one look.
const DRAIN_MOST: usize = 8192;
/// Of these, taken at once and then handed over, so that a long look does not end with work during which a ring fills.
pub(crate) const DRAIN_AT_ONCE: usize = 64;
/// Call batches that are not full are handed over this often, so that a kill loses no more than
/// an unsealed segment anyway holds.
const FLUSH_EVERY_NS: u64 = 1_000_000_000;
const COST_EVERY_NS: u64 = 10_000_000_000;
/// A walk, over all open files, all recorded sockets or all threads of their owners, may take this
/// share of one CPU: its pause is this many times what it took.
const WALK_PAUSE_FACTOR: u64 = 200;
const WALK_EVERY_NS: u64 = 1_000_000_000;

/// When the loop's periodic work is due next.
#[derive(Default)]
struct Due {
    flush_ns: u64,
    walk_ns: u64,
    draining_ns: u64,
    cost_ns: u64,
}

struct Session<'a> {
    options: &'a Options,
    /// What is to be done once everything is set up, and for whom: no more than that needs is kept.
    work: Work,
    user: Option<User>,
    signals: Signals,
    hooks: Option<&'a Hooks<'a>>,
    drainer: Option<&'a Drainer<'a>>,
    /// How sockets are read without hooks.
    polls: Option<Polls>,
    poll_times: PollTimes,
    intake: Intake,
    /// What the command says of itself.
    listening: Listening,
    /// What programs say by USDT probes.
    usdt: Option<Usdt<'a>>,
    /// Adapters that stamp what is sent.
    stamper: Option<nic::Stamper<'a>>,
    /// The flight recorder.
    keeping: Option<Keeping<'a>>,
    /// Where others ask for a snapshot of it.
    asked: Option<Asked>,
    spent: Spent,
    /// The collecting thread's place behind the recorded programs.
    overseen: Option<Overseen>,
    /// The last look found much in the rings.
    busy: bool,
    /// Some sockets may be sending their last bytes.
    draining: bool,
    next: Due,
}

impl Session<'_> {
    fn run(mut self, begun: impl FnOnce()) -> Result<Outcome, RecordError> {
        let mut child = match self.begin() {
            Ok(child) => child,
            Err(error) => {
                self.abandon();
                return Err(error);
            }
        };
        begun();
        // after the command was started, which is not to give way
        let filling = self.drainer.map(AsFd::as_fd);
        let store = self.intake.store.priority();
        self.overseen = filling.and_then(|filling| Overseen::begin(filling, store).ok());
        let status = self.collect(&mut child)?;
        self.overseen = None;
        self.finish(status)
    }

    /// Collects until the end that the options name. Returns the command's status.
    fn collect(&mut self, child: &mut Option<Child>) -> Result<Option<ExitStatus>, RecordError> {
        let ends_ns = self.options.duration.map(|duration| {
            let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            monotonic_ns().saturating_add(duration_ns)
        });
        loop {
            let tick_ms = if self.busy { BUSY_TICK_MS } else { TICK_MS };
            let filling = self.drainer.map(AsFd::as_fd);
            let signal = self.signals.wait(tick_ms, filling);
            let signal = signal.map_err(RecordError::Signals)?;
            self.tick()?;
            if let Some(child) = child
                && has_ended(child)
            {
                // while /proc still tells of it
                self.drain();
                return Ok(child.wait().ok());
            }
            if ends_ns.is_some_and(|ends_ns| monotonic_ns() >= ends_ns) {
                return Ok(None);
            }
            match (signal, child.as_ref()) {
                (None | Some(Signal::SIGCHLD), _) => {}
                // the terminal interrupts the command, too; its end ends the recording
                (Some(Signal::SIGINT), Some(_)) => {}
                (Some(signal), Some(child)) => forward(signal, child),
                (Some(_), None) => return Ok(None),
            }
        }
    }

    /// One look at everything that is due.
    fn tick(&mut self) -> Result<(), RecordError> {
        let now_ns = monotonic_ns();
        if let Some(hooks) = self.hooks
            && now_ns >= self.next.flush_ns
        {
            hooks.flush()?;
            self.next.flush_ns = now_ns + FLUSH_EVERY_NS;
        }
        let taken = self.drain();
        self.busy = taken > BUSY_BATCHES;
        self.listening.drain(&self.intake.store);
        self.answer_asker();
        if self.poll_times.is_due(now_ns) {
            self.poll()?;
            self.give_way();
            self.read_cpu();
            self.intake.read_clocks();
            self.give_way();
            self.intake.sockets.forget_closed();
        }
        self.read_draining_if_due(now_ns)?;
        self.walk_if_due(now_ns)?;
        self.spent.tick(now_ns);
        if now_ns >= self.next.cost_ns {
            self.put_cost(now_ns);
            self.next.cost_ns = now_ns + COST_EVERY_NS;
        }
        self.looked(taken < DRAIN_MOST);
        Ok(())
    }

    /// This thread has looked at the rings; in time, if it has caught up.
    fn looked(&self, caught_up: bool) {
        if let Some(overseen) = &self.overseen {
            overseen.looked(caught_up);
        }
    }

    /// Reads who used the CPUs, if that is due.
    fn read_cpu(&mut self) {
        let overseen = self.overseen.as_ref();
        let between = || overseen.into_iter().for_each(Overseen::give_way);
        self.intake.read_cpu_if_due(WALK_PAUSE_FACTOR, between);
    }

    /// Between pieces of work.
    fn give_way(&self) {
        self.overseen.iter().for_each(Overseen::give_way);
    }

    /// What comes next reads `/proc/PID/maps` and the like, under a lock (`mmap_lock`) that the program itself may
    /// need: no time to give way. What else is read takes no lock that lets the CPU go.
    fn hurry(&self) {
        if let Some(overseen) = &self.overseen {
            overseen.hurry();
        }
    }

    /// Moves what is in the rings to the store. Returns how much there was.
    fn drain(&mut self) -> usize {
        let mut all = 0;
        while let Some(drainer) = self.drainer
            && all < DRAIN_MOST
        {
            let taken = drainer.drain(DRAIN_AT_ONCE, || self.give_way());
            self.hand_over(drainer.take());
            all += taken;
            if taken < DRAIN_AT_ONCE {
                break;
            }
        }
        let usdt = self.usdt.as_mut();
        all + usdt.map_or(0, |usdt| usdt.drain(&mut self.intake))
    }

    /// What was in the rings → the flight recorder and the store.
    fn hand_over(&mut self, mut output: ProbeOutput) {
        let overseen = self.overseen.as_ref();
        if let Some(keeping) = &mut self.keeping {
            let between = || overseen.into_iter().for_each(Overseen::give_way);
            let (received, sent) = (&output.rows.received_messages, &output.rows.sent_messages);
            let moments = keeping.take(received, sent, monotonic_ns(), between);
            self.intake.put_added(moments);
        }
        if let Some(stamper) = &mut self.stamper {
            let sent = &mut output.rows.sent_messages;
            *sent = stamper.pass(sent, monotonic_ns());
        }
        let hurries = self.intake.is_new(&output);
        if hurries {
            self.hurry();
        }
        let changed = self.intake.put(output);
        if hurries {
            self.looked(true);
        }
        if changed {
            self.draining = true;
            // who had a connection that ends may end with it
            self.read_cpu();
        }
    }

    /// Keeps what the flight recorder holds, if somebody asks for it.
    fn answer_asker(&mut self) {
        let Some(asker) = self.asked.as_ref().and_then(Asked::next) else {
            return;
        };
        let Some(keeping) = &mut self.keeping else {
            return;
        };
        let moments = keeping.snapshot();
        asker.answer(&format!(
            "{}, kept in {}",
            keep::summary(&moments),
            self.options.output.display()
        ));
        self.intake.put_added(moments);
    }

    /// Until the rings are empty.
    fn drain_all(&mut self) -> usize {
        let mut all = 0;
        loop {
            match self.drain() {
                0 => return all,
                some => all += some,
            }
        }
    }

    /// Reads the recorded sockets.
    fn poll(&mut self) -> Result<(), RecordError> {
        if let Some(hooks) = self.hooks {
            self.give_way();
            let mut more = hooks.read_sockets()?;
            self.drain_all();
            while more {
                more = hooks.read_more_sockets()?;
                let read = self.drain_all();
                // a ring that stays full for another cause is left to the next poll
                more &= read > 0;
            }
        }
        if let Some(polls) = &mut self.polls {
            self.intake.poll(polls);
        }
        Ok(())
    }

    /// Reads the sockets that send their last bytes at every look, while there are some.
    fn read_draining_if_due(&mut self, now_ns: u64) -> Result<(), RecordError> {
        let Some(hooks) = self.hooks else {
            return Ok(());
        };
        if !self.draining || now_ns < self.next.draining_ns {
            return Ok(());
        }
        self.draining = hooks.read_draining()? > 0;
        let took_ns = monotonic_ns() - now_ns;
        self.next.draining_ns = now_ns + took_ns.saturating_mul(WALK_PAUSE_FACTOR);
        Ok(())
    }

    /// Looks for owners and other ends once new sockets came without them.
    fn walk_if_due(&mut self, now_ns: u64) -> Result<(), RecordError> {
        let Some(hooks) = self.hooks else {
            return Ok(());
        };
        if now_ns < self.next.walk_ns || self.intake.sockets.take_unresolved() == 0 {
            return Ok(());
        }
        hooks.walk()?;
        let end_ns = monotonic_ns();
        let pause_ns = (end_ns - now_ns).saturating_mul(WALK_PAUSE_FACTOR);
        self.next.walk_ns = end_ns + pause_ns.max(WALK_EVERY_NS);
        Ok(())
    }

    fn put_cost(&mut self, now_ns: u64) {
        if let Some(cost) = self.spent.cost(now_ns) {
            self.intake.store.put_line(Line::Cost(cost));
        }
    }
}
