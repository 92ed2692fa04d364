//! The collecting loop. What comes before it is in `setup` and `begin`, what comes after it in `finish`.

mod begin;
mod child;
mod finish;
mod outcome;
mod pace;
mod setup;
mod sink;

use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};

use nix::sys::signal::Signal;
use nix::unistd::User;
use probe::clock::monotonic_ns;
use probe::drops::DropReader;
use probe::hooks::Hooks;
use probe::net_counters::NetCounterReader;
use probe::signals::Signals;
use probe::tcp_stats::PollTimes;
use table::RowSet;
use table::manifest::Line;

use crate::budget::WindowKeeper;
use crate::collector::{CaptureSink, Collector, DRAIN_MOST, WalkShare};
use crate::flight_recorder;
use crate::itt_listener::IttListener;
use crate::overhead::OverheadMeter;
use crate::poll::Polls;
use crate::privileges::RecordingTasks;
use crate::snapshot::SnapshotListener;
use crate::store::RowSink;
use crate::usdt::Usdt;
use crate::watchdog::Watchdog;
use crate::{Options, RecordError};
use child::{forward, has_ended};
pub use outcome::Outcome;
use pace::Pace;
pub use setup::{RecordingStart, record};
use sink::StoreSink;

const COST_EVERY_NS: u64 = 10_000_000_000;

struct Session<'a> {
    options: &'a Options,
    /// The tasks once everything is set up, and the user: only the privileges that these need are kept.
    tasks: RecordingTasks,
    user: Option<User>,
    signals: Signals,
    /// Takes what the hooks give; `None`: there are none.
    capture: Option<Collector<'a>>,
    sink: StoreSink<'a>,
    /// How sockets are read without hooks.
    polls: Option<Polls>,
    poll_times: PollTimes,
    /// Receives what the command reports of itself.
    itt_listener: IttListener,
    /// Receives what programs report by USDT probes.
    usdt: Option<Usdt<'a>>,
    /// Where others ask for a snapshot of it.
    snapshots: Option<SnapshotListener>,
    /// Reads how many packets were dropped.
    drops: DropReader,
    /// Reads what namespaces count of that themselves.
    net_counters: NetCounterReader,
    overhead: OverheadMeter,
    /// Keeps the budget, if there is one.
    windows: Option<WindowKeeper<'a>>,
    pace: Pace,
    /// When the cost is written next, `CLOCK_MONOTONIC` ns.
    next_cost_ns: u64,
}

impl Session<'_> {
    /// Records until the end; calls `begun` when everything is attached.
    fn run(mut self, begun: impl FnOnce()) -> Result<Outcome, RecordError> {
        let mut child = match self.begin() {
            Ok(child) => child,
            Err(error) => {
                self.abandon();
                return Err(error);
            }
        };
        begun();
        // after the command was started, which keeps ordinary priority
        let filling = self.capture.as_ref().map(AsFd::as_fd);
        let store = self.sink.pipeline.store.priority();
        self.sink.watchdog = filling.and_then(|filling| Watchdog::begin(filling, store).ok());
        let status = self.collect(&mut child)?;
        self.sink.watchdog = None;
        self.finish(status)
    }

    /// Collects records until the end that the options set; returns the command's status.
    fn collect(&mut self, child: &mut Option<Child>) -> Result<Option<ExitStatus>, RecordError> {
        let ends_ns = self.options.duration.map(|duration| {
            let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            monotonic_ns().saturating_add(duration_ns)
        });
        loop {
            let filling = self.capture.as_ref().map(AsFd::as_fd);
            let signal = self.signals.wait(self.wait_ms(), filling);
            let signal = signal.map_err(RecordError::Signals)?;
            self.tick()?;
            if let Some(child) = child
                && has_ended(child)
            {
                // while /proc still has it
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

    /// Does all work that is due: drain, poll, walk, write.
    fn tick(&mut self) -> Result<(), RecordError> {
        let now_ns = monotonic_ns();
        if let Some(capture) = &mut self.capture {
            capture.flush_if_due(now_ns)?;
        }
        let taken = self.drain();
        self.pace.note(taken);
        self.keep_budget(now_ns)?;
        self.sink.pipeline.store_workloads();
        self.itt_listener.drain(&self.sink.pipeline.store);
        self.answer_snapshot();
        if self.poll_times.is_due(now_ns) {
            self.poll()?;
            self.sink.yield_cpu();
            self.read_drops_if_due()?;
            self.sink.read_cpu();
            self.sink.pipeline.read_clocks();
            self.sink.yield_cpu();
            self.sink.pipeline.sockets.forget_closed();
        }
        if let Some(capture) = &mut self.capture {
            capture.read_draining_if_due(now_ns)?;
            let sockets = &mut self.sink.pipeline.sockets;
            capture.walk_if_due(now_ns, || sockets.take_unresolved() > 0)?;
        }
        self.overhead.tick(now_ns);
        if now_ns >= self.next_cost_ns {
            self.put_cost(now_ns);
            self.next_cost_ns = now_ns + COST_EVERY_NS;
        }
        self.sink.note_drained(taken < DRAIN_MOST);
        Ok(())
    }

    /// Returns how long the next look may wait, ms.
    fn wait_ms(&self) -> u16 {
        let look_ms = self.windows.as_ref().map(WindowKeeper::look_ms);
        look_ms.unwrap_or(u16::MAX).min(self.pace.tick_ms())
    }

    /// Begins or ends a window, if the budget says so.
    fn keep_budget(&mut self, now_ns: u64) -> Result<(), RecordError> {
        if let Some(windows) = &mut self.windows {
            let changed = windows.look(now_ns, || self.sink.raise_priority())?;
            let refusal = windows.take_refusal();
            self.sink.pipeline.store_added(changed);
            if let Some(refusal) = refusal {
                self.sink.pipeline.put_coverage(refusal);
            }
        }
        Ok(())
    }

    /// Moves records from the rings to the store; returns their number.
    fn drain(&mut self) -> usize {
        let capture = self.capture.as_mut();
        let taken = capture.map_or(0, |capture| capture.drain(&mut self.sink));
        let usdt = self.usdt.as_mut();
        taken + usdt.map_or(0, |usdt| usdt.drain(&mut self.sink.pipeline))
    }

    /// Drains the rings until they are empty.
    fn drain_all(&mut self) {
        while self.drain() > 0 {}
    }

    /// Saves the flight recorder's windows, if another process asks for that.
    fn answer_snapshot(&mut self) {
        let Some(request) = self.snapshots.as_ref().and_then(SnapshotListener::next) else {
            return;
        };
        let Some(flight_recorder) = &mut self.sink.flight_recorder else {
            return;
        };
        let windows = flight_recorder.snapshot();
        request.answer(&format!(
            "{}, kept in {}",
            flight_recorder::summary(&windows),
            self.options.output.display()
        ));
        self.sink.pipeline.store_added(windows);
    }

    /// Reads the recorded sockets.
    fn poll(&mut self) -> Result<(), RecordError> {
        if let Some(capture) = &mut self.capture {
            self.sink.yield_cpu();
            let before_ns = capture.hooks().walker_cpu_ns();
            capture.read_sockets(&mut self.sink, |hooks| hooks.read_sockets())?;
            // a walk over namespaces meets sockets that nobody records
            let took_ns = capture.hooks().walker_cpu_ns().saturating_sub(before_ns);
            let pause_ns = WalkShare::RECORDING.pause_ns(took_ns);
            self.poll_times.lengthen(pause_ns, monotonic_ns());
        }
        if let Some(polls) = &mut self.polls {
            self.sink.pipeline.poll(polls);
        }
        Ok(())
    }

    /// Reads how many packets were dropped, if that is due.
    fn read_drops_if_due(&mut self) -> Result<(), RecordError> {
        let mut rows = RowSet::default();
        if let Some(capture) = &self.capture {
            capture
                .hooks()
                .read_drops_if_due(&mut self.drops, &mut rows.drop_counts)?;
        }
        self.sink.pipeline.store_added(rows);
        Ok(())
    }

    /// Writes the recorder's cost so far into the recording.
    fn put_cost(&mut self, now_ns: u64) {
        if let Some(cost) = self.overhead.cost(now_ns) {
            self.sink.pipeline.store.store_line(Line::Cost(cost));
        }
    }

    /// Returns the loaded programs; `None` if the recording polls.
    fn hooks(&self) -> Option<&Hooks<'_>> {
        self.capture.as_ref().map(Collector::hooks)
    }
}
