//! A watch: the same probes as a recording, and nothing is written. In: the owners of the connections, the detail, the
//! interval. Out: snapshots with the rows that came since the last one, with what was lost and what it cost.
//!
//! Once everything is attached, its thread keeps no privilege but what it needs to go on, and the threads that were
//! started before keep what they do themselves.
//!
//! It polls and makes snapshots more seldom than asked where that would take more than its share of a CPU ([`pace`]).

mod buffer;
mod pace;

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use probe::clock::{Host, monotonic_ns, thread_cpu_ns};
use probe::hooks::{Detail, ProbeOutput, Storage};
use probe::processes::ProcessReader;
use probe::self_cost::Statistics;
use probe::tcp_stats::PollTimes;
use table::RowSet;
use table::manifest::{Cost, Coverage, Header, Loss};

use crate::account::{count, losses};
use crate::collector::{CaptureSink, Collector, WalkShare};
use crate::overhead::OverheadMeter;
use crate::pipeline::RowPipeline;
use crate::plan::{DataSources, describe, is_in_proc, open_sources, pid_coverage, resolve_target};
use crate::poll::Polls;
use crate::privileges::Privileges;
use crate::{RecordError, Target, launch};

use buffer::LiveBuffer;
use pace::Pace;

/// How long the loop sleeps between two drains of the rings, unless one fills faster.
const TICK_MS: u16 = 50;
/// Polls between two searches for sockets that are gone, without hooks: as many as the filter needs to be sure.
const GONE_EVERY_POLLS: usize = 8;

/// The choice of what to watch.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// The owners of the connections; no command.
    pub target: Target,
    /// How much.
    pub detail: Detail,
    /// Time between two snapshots.
    pub interval: Duration,
    /// Longest mean interval of the polls, which come at random times.
    pub poll_mean: Duration,
    /// The command line.
    pub arguments: Vec<String>,
}

/// Rows that came since the snapshot before, and the state and totals of the probes.
#[derive(Debug)]
pub struct LiveSnapshot<'a> {
    /// Where it was made.
    pub header: &'a Header,
    /// When, `CLOCK_MONOTONIC` ns.
    pub now_ns: u64,
    /// When the polls since the last snapshot began, ns. A connection without a row of a poll was idle and unchanged since
    /// its last row.
    pub polls_ns: Vec<u64>,
    /// Rows that came since the last snapshot.
    pub rows: RowSet,
    /// Connections that polls do not find any more, where closings are not seen otherwise.
    pub gone: Vec<u64>,
    /// State of the probes.
    pub coverage: Vec<Coverage>,
    /// Totals of the probes; what is under way in the rings is not stored yet.
    pub loss: Vec<Loss>,
    /// The cost so far; `None`: the host does not count it.
    pub cost: Option<Cost>,
    /// Time until the next snapshot, ns.
    pub interval_ns: u64,
    /// Mean time until the next poll, ns.
    pub poll_mean_ns: u64,
    /// Only the user's own sockets are watched, as privileges are missing.
    pub only_own: bool,
}

/// Calls `each` with snapshots until it breaks or `stop` is set. The first snapshot comes at once:
/// it shows what there is, and nothing has had time to change.
///
/// # Errors
/// When the target does not exist, or a loaded probe stops working.
pub fn watch(
    options: &WatchOptions,
    stop: &AtomicBool,
    each: impl FnMut(LiveSnapshot<'_>) -> ControlFlow<()>,
) -> Result<(), RecordError> {
    let plan = resolve_target(&options.target, false)?;
    // without it the cost of BPF programs is not known, which is no reason not to watch
    let statistics = Statistics::begin().ok();
    let host = Host::read()?;
    let reader = ProcessReader::new();
    let mut storage = Storage::uninit();
    let DataSources {
        hooks,
        polls,
        mut coverage,
        processes: _,
        run_ns: _,
        attach_ns: _,
    } = open_sources(
        &mut storage,
        &options.target,
        &plan,
        options.detail,
        (false, false),
    )?;
    let capture = hooks
        .as_ref()
        .map(|hooks| Collector::new(hooks, WalkShare::LIVE))
        .transpose()?;
    let mut pipeline = RowPipeline::new(
        LiveBuffer::default(),
        is_in_proc(hooks.as_ref()).then_some(reader),
    );
    pipeline.read_python(hooks.as_ref());
    coverage.push(pipeline.cpu.coverage());
    coverage.extend(pid_coverage());
    let pace = Pace::new(nanos(options.interval), nanos(options.poll_mean));
    let seed = host.now_ns ^ u64::from(std::process::id());
    let only_own = hooks.is_none() && !nix::unistd::geteuid().is_root();
    let bpf_time = hooks
        .as_ref()
        .and_then(|hooks| hooks.run_time(host.now_ns, []).ok());
    let user = launch::invoking_user().ok().flatten();
    Privileges::for_live_view(polls.is_some(), user.as_ref())?.assume()?;
    let watch = Watch {
        header: describe(&host, options.detail, &options.arguments),
        only_own,
        overhead: OverheadMeter::begin(host.now_ns)
            .with_programs(bpf_time.map(|it| it.with_statistics(statistics))),
        capture,
        polls,
        pipeline,
        coverage,
        poll_times: PollTimes::new(seed, pace.poll_mean_ns(), host.now_ns),
        polls_ns: Vec::new(),
        pace,
        started_ns: host.now_ns,
        polls_done: 0,
    };
    watch.run(stop, each)
}

/// Returns a duration in nanoseconds, at most the largest number.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

struct Watch<'a> {
    header: Header,
    only_own: bool,
    /// Takes what the hooks give; `None`: there are none.
    capture: Option<Collector<'a>>,
    overhead: OverheadMeter,
    /// How sockets are read without hooks.
    polls: Option<Polls>,
    pipeline: RowPipeline<LiveBuffer>,
    coverage: Vec<Coverage>,
    poll_times: PollTimes,
    /// Since the last look.
    polls_ns: Vec<u64>,
    pace: Pace,
    started_ns: u64,
    polls_done: usize,
}

impl CaptureSink for RowPipeline<LiveBuffer> {
    fn add_output(&mut self, mut output: ProbeOutput) -> bool {
        // call stacks are not shown
        output.stacks.clear();
        self.store_output(output)
    }
}

impl Watch<'_> {
    /// Polls and calls `each` with a snapshot at each interval, until `stop` is set.
    fn run(
        mut self,
        stop: &AtomicBool,
        mut each: impl FnMut(LiveSnapshot<'_>) -> ControlFlow<()>,
    ) -> Result<(), RecordError> {
        self.drain();
        self.poll()?;
        let mut next_snapshot_ns = 0;
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= next_snapshot_ns {
                // what is shown is as of now, not of a poll ago
                if next_snapshot_ns > 0 {
                    self.poll()?;
                }
                let began_ns = thread_cpu_ns();
                if each(self.snapshot()?).is_break() {
                    return Ok(());
                }
                self.pace
                    .note_snapshot(thread_cpu_ns().saturating_sub(began_ns));
                next_snapshot_ns = monotonic_ns() + self.pace.interval_ns();
            }
            let next_ns = next_snapshot_ns.min(self.poll_times.next_ns());
            self.sleep(next_ns)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.tick()?;
        }
    }

    /// Sleeps until `next_ns`, a tick, or until a ring fills.
    fn sleep(&self, next_ns: u64) -> Result<(), RecordError> {
        let left_ms = next_ns.saturating_sub(monotonic_ns()) / 1_000_000;
        let wait_ms = u16::try_from(left_ms).unwrap_or(TICK_MS).clamp(1, TICK_MS);
        let filling = self.capture.as_ref().map(AsFd::as_fd);
        let mut fds: Vec<_> = filling
            .into_iter()
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut fds, PollTimeout::from(wait_ms)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(RecordError::Wait(error.into())),
        }
    }

    /// Does all work that is due, except for a snapshot.
    fn tick(&mut self) -> Result<(), RecordError> {
        self.drain();
        self.pipeline.store_workloads();
        let now_ns = monotonic_ns();
        if self.poll_times.is_due(now_ns) {
            self.poll()?;
            self.pipeline.read_cpu_if_due(WalkShare::LIVE, || ());
            self.pipeline.sockets.forget_closed();
            let seed = now_ns ^ self.started_ns;
            self.poll_times = PollTimes::new(seed, self.pace.poll_mean_ns(), now_ns);
        }
        if let Some(capture) = &mut self.capture {
            capture.read_draining_if_due(now_ns)?;
            let sockets = &mut self.pipeline.sockets;
            capture.walk_if_due(now_ns, || sockets.take_unresolved() > 0)?;
        }
        self.overhead.tick(now_ns);
        Ok(())
    }

    /// Moves records from the rings to the buffer.
    fn drain(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.drain(&mut self.pipeline);
        }
    }

    /// Reads the watched sockets.
    fn poll(&mut self) -> Result<(), RecordError> {
        let began_ns = self.poll_cpu_ns();
        self.polls_ns.push(monotonic_ns());
        self.polls_done += 1;
        if let Some(capture) = &mut self.capture {
            capture.hooks().flush()?;
            capture.read_sockets(&mut self.pipeline, |hooks| hooks.read_sockets())?;
        }
        if let Some(polls) = &mut self.polls {
            self.pipeline.poll(polls);
        }
        self.pace
            .note_poll(self.poll_cpu_ns().saturating_sub(began_ns));
        Ok(())
    }

    /// Returns the CPU time of all that polls, ns.
    fn poll_cpu_ns(&self) -> u64 {
        self.capture
            .as_ref()
            .map_or_else(thread_cpu_ns, Collector::walk_cpu_ns)
    }

    /// Returns rows, losses and cost since the snapshot before.
    fn snapshot(&mut self) -> Result<LiveSnapshot<'_>, RecordError> {
        let now_ns = monotonic_ns();
        let hooks = self.capture.as_ref().map(Collector::hooks);
        let counts = count(hooks, self.polls.as_ref())?;
        let kept = self.pipeline.store.count_rows();
        let loss = losses(&counts, &self.pipeline.added, &kept, &Default::default());
        let of_polls = self.polls.as_ref().map(Polls::coverage);
        let of_runtimes = self.pipeline.sockets.workload_coverage(false);
        let later = of_polls.into_iter().chain(of_runtimes);
        Ok(LiveSnapshot {
            now_ns,
            polls_ns: std::mem::take(&mut self.polls_ns),
            rows: self.pipeline.store.take(),
            gone: self.gone(),
            coverage: self.coverage.iter().cloned().chain(later).collect(),
            loss,
            cost: self.overhead.cost(now_ns),
            interval_ns: self.pace.interval_ns(),
            poll_mean_ns: self.pace.poll_mean_ns(),
            only_own: self.only_own,
            header: &self.header,
        })
    }

    /// Returns connections that closed since the last call; looks only every few polls.
    fn gone(&mut self) -> Vec<u64> {
        match &self.polls {
            Some(polls) if self.polls_done >= GONE_EVERY_POLLS => {
                self.polls_done = 0;
                self.pipeline
                    .sockets
                    .forget_unless(|conn| polls.knows(conn))
            }
            _ => Vec::new(),
        }
    }
}
