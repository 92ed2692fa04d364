//! The collecting side: watches every connection, or those of one network namespace. In: walks over the sockets
//! at random times, and records of sockets that open and close. Out: an [`Interval`] after each.
//!
//! ```text
//! live         records → connections that live or have closed
//! connection   readings → problems since the one before: sums, bins, readings near problems
//! bins         time between readings → bins of two seconds
//! timeline     the day's clock, and where intervals end
//! rates        own CPU time → how often who is read
//! gaps         hooks, namespaces → what cannot be seen
//! rows         connections → rows
//! sink         captured records → all of these
//! ```

mod bins;
mod connection;
mod gaps;
mod live;
mod meter;
mod options;
mod owners;
mod pending;
mod rates;
mod rows;
mod sink;
mod timeline;

use std::os::fd::{AsFd, BorrowedFd};

use probe::clock::{Clock, Host, clock_error_us, monotonic_ns, read_pair};
use probe::hooks::{Detail, Hooks, HooksError, WalkOf};
use probe::processes::ProcessReader;
use probe::self_cost::Statistics;
use probe::tcp_stats::Random;
use record::{Collector, WalkShare};
use table::fleet::FleetCoverage;

use crate::Interval;
use crate::apps::ApplicationRules;
use gaps::CoverageGaps;
use live::LiveConnections;
use meter::{IntervalCost, Meter};
pub use options::{Pace, Watch};
use owners::Owners;
use pending::Pending;
use rates::{Budget, DECIDE_EVERY_NS, Rates};
use rows::to_i64;
use sink::AgentSink;
use timeline::{ClockReading, End, IntervalSpan};

/// Attempts to read two clocks together.
const CLOCK_ATTEMPTS: u32 = 3;

/// Watches until it is dropped.
pub struct ConnectionWatcher<'a> {
    capture: Collector<'a>,
    sink: AgentSink,
    facts: Host,
    gaps: CoverageGaps,
    random: Random,
    next: Due,
}

/// When what is due next, `CLOCK_MONOTONIC` ns.
#[derive(Debug, Clone, Copy, Default)]
struct Due {
    walk_ns: u64,
    decide_ns: u64,
}

impl From<Pace> for Budget {
    fn from(pace: Pace) -> Self {
        let Pace {
            poll_ns,
            cpu_low,
            cpu_high,
        } = pace;
        Self {
            mean_ns: poll_ns,
            cpu_low,
            cpu_high,
        }
    }
}

/// Reads the two clocks.
fn now() -> ClockReading {
    let pair = read_pair(Clock::Realtime, CLOCK_ATTEMPTS);
    // CLOCK_REALTIME exists on every Linux
    pair.map_or_else(
        || ClockReading {
            monotonic_ns: monotonic_ns(),
            ..ClockReading::default()
        },
        |pair| ClockReading {
            monotonic_ns: pair.monotonic_ns,
            realtime_ns: pair.other_ns,
            error_ns: pair.error_ns,
        },
    )
}

impl<'a> ConnectionWatcher<'a> {
    /// Begins to watch with attached programs, and reads all open connections. `statistics` turns
    /// on those of the cost of the programs; without, this process does so, if it may. `reader`, which waits for
    /// runtimes, was made before the programs were attached; without, `/proc` has other processes.
    ///
    /// # Errors
    /// When a loaded program cannot be used.
    pub fn begin(
        hooks: &'a Hooks<'a>,
        watch: Watch,
        facts: Host,
        rules: ApplicationRules,
        reader: Option<ProcessReader>,
        statistics: Option<Statistics>,
    ) -> Result<Self, HooksError> {
        let now = now();
        let owners = Owners::new(rules, reader);
        let sink = AgentSink {
            rates: Rates::new(watch.pace.into(), hooks.most_levels()),
            meter: Meter::begin(hooks, statistics, now.monotonic_ns)?,
            span: IntervalSpan::beginning(now, watch.interval_ns),
            watched: LiveConnections::new(facts.boot_id.clone(), owners),
            pending: Pending::new(watch.interval_ns),
            has_calls: hooks.has_calls(),
            has_timeouts: hooks.counts_timeouts(),
            watch,
        };
        let mut watcher = Self {
            capture: Collector::new(hooks, WalkShare::AGENT)?,
            sink,
            random: Random::new(facts.now_ns ^ u64::from(std::process::id())),
            gaps: CoverageGaps::default(),
            next: Due::default(),
            facts,
        };
        hooks.walk()?;
        watcher.capture.drain_all(&mut watcher.sink);
        watcher.walk(WalkOf::Every)?;
        watcher.gaps = CoverageGaps::from_hooks(hooks);
        // what it took to begin is not what it takes to go on
        let began_ns = monotonic_ns();
        watcher.sink.meter.cpu_share(began_ns);
        watcher.next.decide_ns = began_ns + DECIDE_EVERY_NS;
        Ok(watcher)
    }

    /// Returns the things that the agent cannot see. Each has the thing, the reason, and after `hint:` the fix.
    pub fn gaps(&self) -> &[String] {
        self.gaps.current()
    }

    /// Returns the number of connections that are watched now.
    pub fn connections(&self) -> usize {
        self.sink.watched.live.len()
    }

    /// Returns the detail that the kernel allows.
    pub fn detail(&self) -> Detail {
        if self.sink.has_calls {
            Detail::Calls
        } else {
            Detail::Stats
        }
    }

    /// Applies other rules and other intervals between readings.
    pub fn reconfigure(&mut self, rules: ApplicationRules, pace: Pace) {
        self.sink.watched.owners.set_rules(rules);
        self.sink.rates.set_budget(pace.into());
        self.sink.watch.pace = pace;
        self.schedule_walk(monotonic_ns());
    }

    /// Returns when [`tick`](Self::tick) has something to do, `CLOCK_MONOTONIC` ns.
    pub fn next_ns(&self) -> u64 {
        let sink = &self.sink;
        let is_owner_wanted = sink.watched.is_owner_wanted;
        let files_ns = is_owner_wanted.then_some(self.capture.next_walk_ns());
        [
            Some(self.next.walk_ns),
            Some(sink.span.monotonic_ns(sink.span.boundary_ns)),
            sink.meter.next_ns(),
            files_ns,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(self.next.walk_ns)
    }

    /// Does all work that is due; returns the interval that has ended, if one has.
    ///
    /// # Errors
    /// When a loaded program cannot be used any more.
    pub fn tick(&mut self) -> Result<Option<Interval>, HooksError> {
        let now = now();
        let now_ns = now.monotonic_ns;
        let mut ended = None;
        self.capture.drain_all(&mut self.sink);
        self.sink.watched.take_workloads();
        self.sink.meter.tick(now_ns);
        if let Some(end) = self.sink.span.end(now) {
            ended = Some(self.end_interval(end, now)?);
        } else if now_ns >= self.next.walk_ns {
            self.walk(WalkOf::Due)?;
        }
        self.decide_if_due(now_ns)?;
        let is_wanted = &mut self.sink.watched.is_owner_wanted;
        self.capture
            .walk_if_due(now_ns, || std::mem::take(is_wanted))?;
        Ok(ended)
    }

    /// Ends watching: the interval that is under way ends now.
    ///
    /// # Errors
    /// When a loaded program cannot be used any more.
    pub fn finish(mut self) -> Result<Interval, HooksError> {
        self.capture.drain_all(&mut self.sink);
        let now = now();
        self.end_interval(End::Cut, now)
    }

    /// Reads sockets and adds the readings.
    fn walk(&mut self, which: WalkOf) -> Result<(), HooksError> {
        let begin_ns = monotonic_ns();
        let hooks = self.capture.hooks();
        let before = hooks.count_walks();
        let rates = &self.sink.rates;
        let (level, has_levels) = (rates.default_level(), rates.has_levels());
        self.capture.read_sockets(&mut self.sink, |hooks| {
            hooks.walk_watched(which, level, has_levels)
        })?;
        let after = hooks.count_walks();
        // those that rest are unchanged, as those that were found so
        let read = after.sockets - before.sockets + after.resting - before.resting;
        let left_out = after.left_out - before.left_out;
        self.sink.meter.note_walk(begin_ns, read + left_out, read);
        self.schedule_walk(begin_ns);
        Ok(())
    }

    /// Sets a random time for the next walk of all sockets.
    fn schedule_walk(&mut self, now_ns: u64) {
        let mean_ns = self.sink.rates.walk_mean_ns();
        self.next.walk_ns = now_ns + self.random.interval_ns(mean_ns);
    }

    /// Ends the interval: reads all connections once more, and makes its rows.
    fn end_interval(&mut self, end: End, now: ClockReading) -> Result<Interval, HooksError> {
        let walk_ns = monotonic_ns();
        self.walk(WalkOf::Changed)?;
        let length_ns = self.sink.span.length_ns(end, now);
        let cost = self.sink.cost(self.capture.hooks(), length_ns)?;
        if cost.lost > 0 {
            self.walk(WalkOf::Every)?;
            self.sink.close_unread(walk_ns);
        }
        let watched = &self.sink.watched;
        let silent = watched.owners.silent_runtime();
        let unentered = self.capture.hooks().unentered_netns();
        self.gaps
            .check(watched.live.len(), unentered, silent.as_ref());
        let coverage = self.coverage(length_ns, &cost);
        Ok(self.sink.end_interval(end, now, coverage))
    }

    /// Makes the coverage row of an interval: probes, polls, cost.
    fn coverage(&self, length_ns: i64, cost: &IntervalCost) -> FleetCoverage {
        let IntervalCost {
            cpu_us,
            bpf_us,
            rss_bytes,
            lost,
            polls,
            polled,
            poll_interval_us,
            poll_gap_us,
        } = *cost;
        let connections = to_i64(self.sink.watched.live.len() as u64);
        let gaps = self.gaps();
        let reason = |gap: &String| gap.lines().next().unwrap_or_default().to_owned();
        FleetCoverage {
            host: self.sink.watch.host.clone(),
            begin_ns: self.sink.span.begin_ns,
            length_us: length_ns / 1_000,
            boot_id: self.facts.boot_id.clone(),
            agent: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: self.facts.kernel.clone(),
            detail: self.detail().name().to_owned(),
            connections,
            polled: polled.min(connections),
            polls,
            poll_interval_us,
            poll_gap_us,
            cpu_us,
            bpf_us,
            rss_bytes,
            lost,
            rows: 0,
            spooled_files: 0,
            dropped_files: 0,
            details_left_out: None,
            connections_left_out: None,
            clock_error_us: clock_error_us(),
            lacks: (!gaps.is_empty())
                .then(|| gaps.iter().map(reason).collect::<Vec<_>>().join("; ")),
        }
    }

    /// Changes how often connections are polled, if it is time.
    fn decide_if_due(&mut self, now_ns: u64) -> Result<(), HooksError> {
        if now_ns < self.next.decide_ns {
            return Ok(());
        }
        self.next.decide_ns = now_ns + DECIDE_EVERY_NS;
        let share = self.sink.meter.cpu_share(now_ns);
        for (cookie, level) in self.sink.rates.decide(share, now_ns) {
            self.capture.hooks().set_level(cookie, level)?;
        }
        Ok(())
    }
}

impl AsFd for ConnectionWatcher<'_> {
    /// Returns a descriptor that is readable when a ring fills faster than it is read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.capture.as_fd()
    }
}
