//! The collecting loop: from what the user asked for to a closed recording.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, User};
use probe::clock::{Host, monotonic_ns};
use probe::hooks::{Drained, Drainer, Hooks, Storage};
use probe::self_cost::{BpfTimeSampler, Statistics, Usage};
use probe::signals::Signals;
use probe::tcp_stats::PollTimes;
use probe::{activity, nic, usdt};
use table::manifest::{Cost, Coverage, Line, Loss, ProbeState, UsdtProbe};
use table::{WriteError, WriteOptions, Writer};

use crate::account::{kept_losses, losses, nic_loss, said_losses};
use crate::intake::Intake;
use crate::keep::{self, Keeping};
use crate::listen::Listening;
use crate::oversee::Overseen;
use crate::plan::{attach, header, is_in_proc, pids, resolve, without_hooks};
use crate::poll::Polls;
use crate::privileges::{Privileges, Work};
use crate::snapshot::Asked;
use crate::store::{Batch, Sink, Store};
use crate::usdt::{Usdt, attach_usdt, find_probes};
use crate::{Options, RecordError, Target, launch};

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
const DRAIN_AT_ONCE: usize = 64;
/// Call batches that are not full are handed over this often, so that a kill loses no more than
/// an unsealed segment anyway holds.
const FLUSH_EVERY_NS: u64 = 1_000_000_000;
const COST_EVERY_NS: u64 = 10_000_000_000;
/// A walk, over all open files, all recorded sockets or all threads of their owners, may take this
/// share of one CPU: its pause is this many times what it took.
const WALK_PAUSE_FACTOR: u64 = 200;
const WALK_EVERY_NS: u64 = 1_000_000_000;

/// A recording that was made.
#[derive(Debug)]
pub struct Outcome {
    /// The directory.
    pub path: PathBuf,
    /// How the command ended; `None` when none was started.
    pub status: Option<ExitStatus>,
    /// Records lost, for any cause.
    pub lost: u64,
    /// The USDT probes that were listened to.
    pub usdt: Vec<UsdtProbe>,
    /// What the disk refused, if anything; the rest is stored.
    pub write_error: Option<WriteError>,
}

/// Makes a recording; returns when the command has ended, the time is over or a signal came.
///
/// # Errors
/// When the target does not exist, nothing can be recorded, or the directory cannot be made.
/// Probes that this host does not allow are no error but coverage.
pub fn record(options: &Options) -> Result<Outcome, RecordError> {
    let signals = Signals::block().map_err(RecordError::Signals)?;
    let plan = resolve(&options.target)?;
    let found = find_probes(options, &plan)?;
    let is_usdt = !found.is_empty();
    let (listening, itt_coverage) = Listening::begin(options)?;
    // without it the cost of BPF programs is not known, which is no reason not to record
    let statistics = Statistics::begin().ok();
    let host = Host::read()?;
    let mut storage = Storage::uninit();
    let (hooks, mut coverage) = match attach(&mut storage, &plan, options.detail) {
        Ok(hooks) => {
            let coverage = hooks.coverage().to_vec();
            (Some(hooks), coverage)
        }
        Err(error) => (None, without_hooks(&error, options.detail, is_usdt)),
    };
    let mut usdt_storage = usdt::Storage::uninit();
    let probes = attach_usdt(&mut usdt_storage, hooks.as_ref(), &plan, found)?;
    coverage.extend(probes.as_ref().map(|_| usdt::covered(ProbeState::On)));
    let mut flight_storage = activity::Storage::uninit();
    let (keeping, flight_coverage) = keep::begin(&mut flight_storage, options.keep);
    coverage.extend(flight_coverage);
    let drainer = hooks.as_ref().map(Hooks::drainer).transpose()?;
    let mean_ns = u64::try_from(options.poll_mean.as_nanos()).unwrap_or(u64::MAX);
    let polls = match hooks {
        Some(_) => None,
        None => Some(Polls::open(&options.target)?),
    };
    coverage.extend(polls.as_ref().map(Polls::coverage));
    coverage.extend(itt_coverage);
    let seed = host.now_ns ^ u64::from(std::process::id());
    // one who has no name any more gets nothing
    let user = launch::invoking_user().ok().flatten();
    let store = begin_store(options, &host, user.as_ref())?;
    let mut intake = Intake::new(store, is_in_proc(hooks.as_ref()));
    // before the first stamp
    intake.read_clocks();
    let mut nic_storage = nic::Storage::uninit();
    let stamper = hooks
        .as_ref()
        .map(|hooks| nic::Stamper::begin(&mut nic_storage, hooks, options.nic_stamps));
    let (stamper, nic_coverage) = stamper.unwrap_or_default();
    coverage.extend(nic_coverage);
    coverage.push(intake.cpu.coverage());
    coverage.extend(pids());
    coverage.extend_from_slice(intake.clocks.coverage());
    let work = Work {
        detail: hooks.as_ref().map(|_| options.detail),
        polls: polls.is_some(),
        stamps: stamper.is_some(),
        command: matches!(options.target, Target::Command(_)),
    };
    let session = Session {
        options,
        work,
        user,
        statistics,
        signals,
        hooks: hooks.as_ref(),
        drainer: drainer.as_ref(),
        polls,
        poll_times: PollTimes::new(seed, mean_ns, host.now_ns),
        intake,
        listening,
        usdt: probes.as_ref().map(Usdt::new),
        stamper,
        asked: keeping.as_ref().and_then(|_| Asked::listen().ok()),
        keeping,
        bpf_time: None,
        started_ns: monotonic_ns(),
        start_cpu_ns: Usage::read().map_or(0, |usage| usage.cpu_ns),
        overseen: None,
        busy: false,
        draining: false,
        next: Due::default(),
    };
    session.run(&coverage)
}

/// The store of a new recording. When it cannot begin, nothing of the recording is left behind.
fn begin_store(options: &Options, host: &Host, user: Option<&User>) -> Result<Store, RecordError> {
    let storing = Privileges::of_storing(user)?;
    let write = WriteOptions {
        force: options.force,
        ..WriteOptions::default()
    };
    let writer = Writer::create(&options.output, &header(host, options), write)?;
    let path = writer.path().to_owned();
    let given = user.map(|user| writer.give_to(user.uid.as_raw(), user.gid.as_raw()));
    let begun = given.transpose().map_err(RecordError::from);
    let begun = begun.and_then(|_| Ok(Store::start(writer, storing)?));
    begun.inspect_err(|_| discard(&path))
}

/// Removes a recording that was created a moment ago and holds nothing but its manifest's first lines.
fn discard(path: &Path) {
    // the error that led here is the one to be told
    let _ = std::fs::remove_dir_all(path);
}

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
    statistics: Option<Statistics>,
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
    bpf_time: Option<BpfTimeSampler>,
    started_ns: u64,
    /// CPU time used before the recording began.
    start_cpu_ns: u64,
    /// The collecting thread's place behind the recorded programs.
    overseen: Option<Overseen>,
    /// The last look found much in the rings.
    busy: bool,
    /// Some sockets may be sending their last bytes.
    draining: bool,
    next: Due,
}

impl Session<'_> {
    fn run(mut self, coverage: &[Coverage]) -> Result<Outcome, RecordError> {
        for entry in coverage {
            self.intake.put_coverage(entry.clone());
        }
        let usdt = self.usdt.as_ref().map(Usdt::program);
        let flight = self
            .keeping
            .as_ref()
            .map(|keeping| keeping.flight().programs());
        let stamper = self.stamper.as_ref().map(nic::Stamper::program);
        let others = usdt.into_iter().chain(stamper);
        let others = others.chain(flight.into_iter().flatten());
        self.bpf_time = self
            .hooks
            .and_then(|hooks| hooks.run_time(self.started_ns, others).ok());
        let statistics = self.statistics.take();
        self.bpf_time = self.bpf_time.map(|it| it.with_statistics(statistics));
        if let Some(usdt) = &self.usdt {
            usdt.put_probes(&self.intake);
        }
        let mut child = match self.begin() {
            Ok(child) => child,
            Err(error) => {
                self.abandon();
                return Err(error);
            }
        };
        // after the command was started, which is not to give way
        let filling = self.drainer.map(AsFd::as_fd);
        let store = self.intake.store.priority();
        self.overseen = filling.and_then(|filling| Overseen::begin(filling, store).ok());
        let status = self.collect(&mut child)?;
        self.overseen = None;
        self.finish(status)
    }

    /// Takes what is there, starts the command, if there is one, and tells that all is recorded. A command does not go
    /// on if that fails.
    fn begin(&mut self) -> Result<Option<Child>, RecordError> {
        self.drain();
        self.poll()?;
        self.read_cpu();
        let privileges = Privileges::of(self.work, self.user.as_ref())?;
        let mut child = match &self.options.target {
            Target::Command(command) => Some(self.start(command)?),
            _ => None,
        };
        let begun = self.tell_ready();
        // after the command was started, which has what it would have without whylat
        let begun = begun.and_then(|()| Ok(privileges.assume()?));
        if begun.is_err() {
            child.iter_mut().for_each(end);
        }
        begun.map(|()| child)
    }

    /// Writes the file that says "recording", if one is asked for.
    fn tell_ready(&self) -> Result<(), RecordError> {
        let Some(path) = &self.options.ready_file else {
            return Ok(());
        };
        let written = std::fs::write(path, std::process::id().to_string());
        written.map_err(|source| RecordError::Ready {
            path: path.clone(),
            source,
        })
    }

    /// Starts the command. Whoever this process forks meanwhile is recorded from its birth.
    fn start(&mut self, command: &crate::Command) -> Result<Child, RecordError> {
        let own_pid = std::process::id();
        if let Some(hooks) = self.hooks {
            hooks.record_children_of(own_pid)?;
        }
        let mut child = launch::start(
            command,
            self.signals.mask_before(),
            &self.listening.environment(),
        );
        let forgotten = self.hooks.map(|hooks| hooks.forget_process(own_pid));
        if let Some(Err(error)) = forgotten {
            child.iter_mut().for_each(end);
            return Err(error.into());
        }
        if let (Ok(child), Some(polls)) = (&child, &mut self.polls) {
            polls.set_command(child.id());
        }
        child
    }

    /// A recording of nothing is not left behind.
    fn abandon(self) {
        if let Some((writer, _)) = self.intake.store.finish() {
            let path = writer.path().to_owned();
            drop(writer);
            discard(&path);
        }
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
        if let Some(bpf_time) = &mut self.bpf_time {
            // Without the run time the cost says so; that is no reason to stop.
            let _ = bpf_time.tick(now_ns);
        }
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
    fn hand_over(&mut self, mut drained: Drained) {
        let overseen = self.overseen.as_ref();
        if let Some(keeping) = &mut self.keeping {
            let between = || overseen.into_iter().for_each(Overseen::give_way);
            let (received, sent) = (&drained.received, &drained.sent);
            let moments = keeping.take(received, sent, monotonic_ns(), between);
            self.intake.put_moments(moments);
        }
        if let Some(stamper) = &mut self.stamper {
            drained.sent = stamper.pass(&drained.sent, monotonic_ns());
        }
        let hurries = self.intake.is_new(&drained);
        if hurries {
            self.hurry();
        }
        let changed = self.intake.put(drained);
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
            moments,
            self.options.output.display()
        ));
        self.intake.put_moments(moments);
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
        if let Some(cost) = self.cost(now_ns) {
            self.intake.store.put(Batch::Line(Line::Cost(cost)));
        }
    }

    fn cost(&self, now_ns: u64) -> Option<Cost> {
        let usage = Usage::read().ok()?;
        let bpf = self
            .bpf_time
            .as_ref()
            .map(BpfTimeSampler::cost)
            .unwrap_or_default();
        Some(Cost {
            wall_ns: now_ns.saturating_sub(self.started_ns),
            cpu_ns: usage.cpu_ns.saturating_sub(self.start_cpu_ns),
            start_cpu_ns: self.start_cpu_ns,
            max_rss_bytes: usage.max_rss_bytes,
            bpf_cpu_share: bpf.cpu_share(),
            bpf_sampled_ns: bpf.sampled_ns,
        })
    }

    /// Takes last readings, detaches, empties the rings, and closes the recording.
    fn finish(mut self, status: Option<ExitStatus>) -> Result<Outcome, RecordError> {
        self.drain();
        self.poll()?;
        self.intake.read_cpu();
        if let Some(hooks) = self.hooks {
            hooks.walk()?;
            hooks.detach()?;
            if let Some(usdt) = &self.usdt {
                usdt.detach();
            }
            hooks.flush()?;
        }
        if let Some(stamper) = &mut self.stamper {
            stamper.detach();
        }
        self.drain_all();
        let stamps = self.stamper.take().map(|mut stamper| {
            self.intake.put_sent(stamper.finish());
            stamper.counts()
        });
        if let Some(keeping) = &mut self.keeping {
            keeping.detach();
        }
        // after the last stamp
        self.intake.read_clocks();
        self.intake.put_symbols();
        let itt = self.listening.finish(&self.intake.store);
        let usdt = self.usdt.as_mut();
        let usdt = usdt.map(|usdt| usdt.finish(&mut self.intake)).transpose()?;
        let (usdt, probes) = usdt.unzip();
        let probes = probes.unwrap_or_default();
        let ended_ns = monotonic_ns();
        if let Some(polls) = &self.polls {
            self.intake.put_coverage(polls.coverage());
        }
        let cost = self.cost(ended_ns);
        let counts = self
            .hooks
            .map(Hooks::counts)
            .transpose()?
            .unwrap_or_default();
        let polled = self.polls.as_ref().map(Polls::counts).unwrap_or_default();
        let windows = self.keeping.as_ref().map(Keeping::counts);
        let Some((mut writer, mut write_error)) = self.intake.store.finish() else {
            return Err(RecordError::Stored {
                path: self.options.output.clone(),
            });
        };
        let path = writer.path().to_owned();
        let sealed = writer.seal();
        let (stored, discarded) = (writer.stored(), writer.discarded());
        let mut losses = losses(&counts, polled, &self.intake.added, stored, discarded);
        losses.extend(
            windows
                .into_iter()
                .flat_map(|counts| kept_losses(counts, &self.intake.added, stored, discarded)),
        );
        losses.extend(stamps.map(nic_loss));
        losses.extend(said_losses(itt.as_ref(), usdt.as_ref(), stored, discarded));
        let lost = losses.iter().map(Loss::lost_total).sum();
        let lines = losses
            .into_iter()
            .map(Line::Loss)
            .chain(probes.iter().cloned().map(Line::Usdt))
            .chain(cost.map(Line::Cost));
        // rows that could not be sealed are counted, and the end can be told all the same
        write_error = write_error.or(sealed.err());
        let told = lines.into_iter().try_for_each(|line| writer.line(&line));
        match told.and_then(|()| writer.close(ended_ns)) {
            Ok(closed) => write_error = write_error.or(closed.failures.into_iter().next()),
            Err(error) => write_error = Some(write_error.unwrap_or(error)),
        }
        Ok(Outcome {
            path,
            status,
            lost,
            usdt: probes,
            write_error,
        })
    }
}

/// Ends a command that is not recorded.
fn end(child: &mut Child) {
    // one that has ended by itself is as good
    let _ = child.kill();
    let _ = child.wait();
}

/// Passes a signal on to the command; its end then ends the recording.
fn forward(signal: Signal, child: &Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // The command may have ended this moment, which is what the signal is for.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

impl Outcome {
    /// The command's exit code as a shell gives it: its own, or 128 + signal.
    pub fn command_exit_code(&self) -> Option<u8> {
        let status = self.status?;
        let code = status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok())
    }
}

/// Whether the command has ended; what is left of it stays until it is waited for.
fn has_ended(child: &Child) -> bool {
    let pid = Pid::from_raw(child.id().cast_signed());
    let asked = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(pid), asked), Ok(WaitStatus::StillAlive))
}
