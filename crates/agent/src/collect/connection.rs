//! One connection's socket, from the first to the last reading. In: readings. Out: sums of the interval,
//! bins, readings near problems, totals.

use std::collections::VecDeque;

use diagnose::{IntervalFlags, RttInterval, delayed_ack};
use probe::watch::{CallCounts, CallSummary, SocketReading};
use table::Stage;
use table::fleet::BIN_NS;
use table::tables::{self, TcpSample, TcpStage};

use super::bins::{Bins, PROBLEMS, PollInterval, Problem, ProblemFlags, bin_of};
use super::timeline::IntervalSpan;

/// Times in the stages, in the order of [`Stage::ALL`].
pub(super) type StageTimes = [u64; Stage::ALL.len()];

/// A watched connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) conn_id: i64,
    /// The last record of the kernel; `None` if it was lost.
    pub(super) identity: Option<tables::Connection>,
    /// When the agent first saw it, `CLOCK_MONOTONIC`.
    pub(super) first_ns: u64,
    /// Something is new that its row must have.
    pub(super) is_changed: bool,
    pub(super) totals: Totals,
    /// Its part in the present interval; `None`: it did nothing.
    pub(super) part: Option<Box<IntervalPart>>,
    pub(super) bins: Bins,
    last: Option<Box<LastReading>>,
    /// Calls that are counted already.
    calls: CallSummary,
    recent: VecDeque<ContextSample>,
    /// Readings up to this bin are near a problem.
    near_until_ns: i64,
}

/// The reading before.
#[derive(Debug)]
struct LastReading {
    sample: TcpSample,
    stages: Option<TcpStage>,
}

/// Sums since the agent first saw it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) problem_ns: [u64; PROBLEMS],
    pub(super) congestion_ns: u64,
    pub(super) any_flag_ns: u64,
    pub(super) counts: CounterGrowth,
}

/// Growth of counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CounterGrowth {
    pub(super) acked_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) segs_out: u64,
    pub(super) retrans: u64,
    /// None where the kernel does not count them: see [`RowContext::has_timeouts`](super::rows::RowContext).
    pub(super) timeouts: u64,
}

/// Sums of one interval.
#[derive(Debug, Clone, Default)]
pub(super) struct IntervalPart {
    pub(super) problem_ns: [u64; PROBLEMS],
    pub(super) any_flag_ns: u64,
    pub(super) counts: CounterGrowth,
    pub(super) stages: StageTimes,
    pub(super) writes: CallCounts,
    pub(super) reads: CallCounts,
    pub(super) polls: u32,
    pub(super) poll_gap_ns: u64,
    pub(super) gauges: Gauges,
}

/// Values of `tcp_info` and of the socket that one reading shows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gauges {
    pub(super) srtt_us: u32,
    pub(super) min_rtt_us: Option<u32>,
    pub(super) cwnd_segs: u32,
    pub(super) snd_wnd_bytes: Option<u32>,
    pub(super) max_send_queue_bytes: u32,
    pub(super) send_queue_bytes: u32,
    pub(super) unacked_segs: u32,
}

/// One reading that may turn out to be near a problem.
#[derive(Debug, Clone, Default)]
pub(super) struct ContextSample {
    /// When the socket was read, `CLOCK_REALTIME`.
    pub(super) time_ns: i64,
    pub(super) length_ns: u64,
    pub(super) stage: Option<Stage>,
    pub(super) calls: [(u64, u64); 2],
    pub(super) counts: CounterGrowth,
    pub(super) gauges: Gauges,
}

/// Returned for each reading.
#[derive(Debug, Default)]
pub(super) struct ReadingResult {
    /// Time with a problem.
    pub(super) problem_ns: u64,
    /// Time since the reading before.
    pub(super) length_ns: u64,
    /// Readings that are near a problem, this one or those before.
    pub(super) near: Vec<ContextSample>,
}

impl Connection {
    /// Begins a connection that was first seen at this time.
    pub(super) fn new(conn_id: i64, first_ns: u64) -> Self {
        Self {
            conn_id,
            identity: None,
            first_ns,
            is_changed: true,
            totals: Totals::default(),
            part: None,
            bins: Bins::default(),
            last: None,
            calls: CallSummary::default(),
            recent: VecDeque::new(),
            near_until_ns: i64::MIN,
        }
    }

    /// Returns when the connection closed, `CLOCK_MONOTONIC` ns; `None` while it is open.
    pub(super) fn closed_ns(&self) -> Option<u64> {
        self.identity.as_ref()?.closed_ns
    }

    /// Returns the pid of the connection's owner.
    pub(super) fn pid(&self) -> Option<u32> {
        self.identity.as_ref()?.pid
    }

    /// Returns when the connection was read last, `CLOCK_MONOTONIC` ns; at first, when it was first
    /// seen.
    pub(super) fn last_read_ns(&self) -> u64 {
        let last = self.last.as_ref();
        last.map_or(self.first_ns, |last| last.sample.time_ns)
    }

    /// Adds a reading. The first one of a connection that was open before sets only the state of its counters.
    pub(super) fn take(&mut self, reading: SocketReading, span: &IntervalSpan) -> ReadingResult {
        let SocketReading {
            since_ns,
            sample,
            stages,
            calls,
        } = reading;
        // A socket that closes during a walk is read by two CPUs, and the last word may come first.
        if self.last_read_ns() > sample.time_ns && self.last.is_some() {
            return ReadingResult::default();
        }
        let opened_ns = self.identity.as_ref().and_then(|row| row.opened_ns);
        let before_ns = match &self.last {
            Some(last) => Some(last.sample.time_ns),
            None => opened_ns,
        };
        let last = self.last.take();
        let shown = match before_ns {
            Some(before_ns) => {
                let since = ReadingStart {
                    begin_ns: before_ns.max(since_ns).min(sample.time_ns),
                    before_ns,
                    earlier: last.as_deref(),
                };
                let calls = self.calls.advance(&calls);
                let step = ReadingStep::between(&since, &sample, stages.as_ref(), calls, span);
                self.add(&step)
            }
            None => ReadingResult::default(),
        };
        let stages = stages.or_else(|| last.and_then(|last| last.stages));
        self.last = Some(Box::new(LastReading { sample, stages }));
        shown
    }

    /// Adds what happened since the last reading; an idle interval changes nothing.
    fn add(&mut self, step: &ReadingStep) -> ReadingResult {
        if !step.has_activity() {
            return ReadingResult::default();
        }
        self.totals.add(step);
        self.part.get_or_insert_default().add(step);
        self.bins.add(&step.interval);
        let near = self.near(step);
        ReadingResult {
            problem_ns: if step.interval.raised.has_any() {
                step.length_ns
            } else {
                0
            },
            length_ns: step.length_ns,
            near,
        }
    }

    /// Returns readings of bins with a problem and of their neighbours, as soon as the problem
    /// shows.
    fn near(&mut self, step: &ReadingStep) -> Vec<ContextSample> {
        let (first_ns, last_ns) = step.bins();
        self.recent.push_back(step.near());
        if step.interval.raised.has_any() {
            self.near_until_ns = last_ns + BIN_NS;
        } else if first_ns > self.near_until_ns {
            let oldest_ns = last_ns - BIN_NS;
            while let Some(oldest) = self.recent.front()
                && oldest.time_ns < oldest_ns
            {
                self.recent.pop_front();
            }
            return Vec::new();
        }
        let from_ns = first_ns - BIN_NS;
        let near = self.recent.drain(..);
        near.filter(|near| near.time_ns >= from_ns).collect()
    }
}

/// The start of what a reading covers.
struct ReadingStart<'a> {
    /// Something has happened since this moment.
    begin_ns: u64,
    /// The reading before.
    before_ns: u64,
    earlier: Option<&'a LastReading>,
}

/// From one reading to the next.
struct ReadingStep {
    length_ns: u64,
    interval: PollInterval,
    has_congestion: bool,
    counts: CounterGrowth,
    /// `None` without a ledger.
    stages: Option<StageTimes>,
    writes: CallCounts,
    reads: CallCounts,
    gauges: Gauges,
}

impl ReadingStep {
    /// Computes what happened between two readings: problems, stages, calls, RTT.
    fn between(
        since: &ReadingStart<'_>,
        sample: &TcpSample,
        stages: Option<&TcpStage>,
        [writes, reads]: [CallCounts; 2],
        span: &IntervalSpan,
    ) -> Self {
        let earlier = since.earlier.map(|last| &last.sample);
        let ledger = since.earlier.and_then(|last| last.stages.as_ref());
        let length_ns = sample.time_ns - since.begin_ns;
        let flags = IntervalFlags::between(earlier, sample);
        let rtt = stages.map(|stages| rtt_since(ledger, stages));
        let mut raised = ProblemFlags::default();
        raised.raise(Problem::SendBuffer, flags.send_buffer);
        raised.raise(
            Problem::FastRetransmit,
            flags.fast_retransmission == Some(true),
        );
        raised.raise(Problem::Timeout, flags.timeout == Some(true));
        raised.raise(Problem::ReceiverWindow, flags.receiver_window == Some(true));
        let late = rtt.is_some_and(|rtt| delayed_ack(&rtt, sample.min_rtt_us));
        raised.raise(Problem::DelayedAck, late);
        let at_hooks_bytes = stages.map_or(0, |stages| stages.max_send_queue_bytes);
        let stages = stages.map(|stages| stages_since(ledger, stages));
        let idle_ns = since.begin_ns - since.before_ns;
        let sender_app_ns = stages.as_ref().map_or(0, |stages| {
            stage_ns(stages, Stage::SenderApp)
                .saturating_sub(idle_ns)
                .min(length_ns)
        });
        Self {
            length_ns,
            interval: PollInterval {
                begin_ns: span.wall_ns(since.begin_ns),
                end_ns: span.wall_ns(sample.time_ns),
                raised,
                sender_app_ns,
            },
            has_congestion: flags.has_congestion() == Some(true),
            counts: CounterGrowth::between(earlier, sample),
            stages,
            writes,
            reads,
            gauges: Gauges::from_sample(sample, at_hooks_bytes),
        }
    }

    /// Returns whether data was sent or received, or a problem occurred.
    fn has_activity(&self) -> bool {
        let CounterGrowth {
            acked_bytes,
            received_bytes,
            segs_out,
            retrans,
            timeouts: _,
        } = self.counts;
        self.interval.raised.has_any()
            || acked_bytes + received_bytes + segs_out + retrans > 0
            || self.writes.calls() + self.reads.calls() > 0
    }

    /// Returns the starts of the first and the last bin that the reading overlaps.
    fn bins(&self) -> (i64, i64) {
        let last_ns = (self.interval.end_ns - 1).max(self.interval.begin_ns);
        (bin_of(self.interval.begin_ns), bin_of(last_ns))
    }

    /// Returns the reading as a sample to keep beside a problem.
    fn near(&self) -> ContextSample {
        let times = self
            .stages
            .iter()
            .flat_map(|times| Stage::ALL.iter().zip(times));
        let most = times.max_by_key(|(_, ns)| **ns);
        ContextSample {
            time_ns: self.interval.end_ns,
            length_ns: self.length_ns,
            stage: most.map(|(stage, _)| *stage),
            calls: [&self.writes, &self.reads].map(|calls| (calls.calls(), calls.bytes)),
            counts: self.counts,
            gauges: self.gauges,
        }
    }
}

/// Returns the time of a stage.
fn stage_ns(times: &StageTimes, of: Stage) -> u64 {
    let found = Stage::ALL
        .iter()
        .zip(times)
        .find(|(stage, _)| **stage == of);
    found.map_or(0, |(_, ns)| *ns)
}

/// Returns how much each stage grew; since the begin without an earlier reading.
fn stages_since(earlier: Option<&TcpStage>, later: &TcpStage) -> StageTimes {
    let earlier = earlier.map(TcpStage::stages_ns);
    let mut times = later.stages_ns().map(|(_, ns)| ns);
    for (ns, (_, before_ns)) in times.iter_mut().zip(earlier.into_iter().flatten()) {
        *ns = ns.saturating_sub(before_ns);
    }
    times
}

/// Returns how much the sum of RTTs grew, and the number of samples.
fn rtt_since(earlier: Option<&TcpStage>, later: &TcpStage) -> RttInterval {
    let since_ns = earlier.map_or(later.since_ns, |earlier| earlier.time_ns);
    RttInterval {
        length_ns: later.time_ns.saturating_sub(since_ns),
        rtt_sum_us: later
            .rtt_sum_us
            .saturating_sub(earlier.map_or(0, |earlier| earlier.rtt_sum_us)),
        rtt_samples: later
            .rtt_samples
            .saturating_sub(earlier.map_or(0, |earlier| earlier.rtt_samples)),
    }
}

impl CounterGrowth {
    /// Returns how much the kernel's counters grew; since the begin without an earlier sample.
    fn between(earlier: Option<&TcpSample>, later: &TcpSample) -> Self {
        let grown =
            |of: &dyn Fn(&TcpSample) -> u64| of(later).saturating_sub(earlier.map_or(0, of));
        Self {
            acked_bytes: grown(&|sample| sample.bytes_acked),
            received_bytes: grown(&|sample| sample.bytes_received),
            segs_out: grown(&|sample| sample.segs_out.into()),
            retrans: grown(&|sample| sample.total_retrans.into()),
            timeouts: grown(&|sample| sample.total_rto.unwrap_or(0).into()),
        }
    }

    /// Adds the growth of another interval.
    fn add(&mut self, other: &Self) {
        let Self {
            acked_bytes,
            received_bytes,
            segs_out,
            retrans,
            timeouts,
        } = other;
        self.acked_bytes += acked_bytes;
        self.received_bytes += received_bytes;
        self.segs_out += segs_out;
        self.retrans += retrans;
        self.timeouts += timeouts;
    }
}

impl Gauges {
    /// The largest send queue is known from polls, and from the ledger's hooks where there is one.
    fn from_sample(sample: &TcpSample, at_hooks_bytes: u32) -> Self {
        Self {
            srtt_us: sample.srtt_us,
            min_rtt_us: sample.min_rtt_us,
            cwnd_segs: sample.cwnd,
            snd_wnd_bytes: sample.snd_wnd_bytes,
            max_send_queue_bytes: sample.max_send_queue_bytes.max(at_hooks_bytes),
            send_queue_bytes: sample.send_queue_bytes,
            unacked_segs: sample.unacked,
        }
    }
}

/// Adds the interval's length to each problem that was seen in it.
fn add_problems(sums_ns: &mut [u64; PROBLEMS], any_ns: &mut u64, step: &ReadingStep) {
    let all = [
        Problem::SendBuffer,
        Problem::FastRetransmit,
        Problem::Timeout,
        Problem::DelayedAck,
        Problem::ReceiverWindow,
    ];
    for problem in all {
        if step.interval.raised.has(problem) {
            sums_ns[problem as usize] += step.length_ns;
        }
    }
    if step.interval.raised.has_any() {
        *any_ns += step.length_ns;
    }
}

impl Totals {
    /// Adds the interval to the totals of the connection's life.
    fn add(&mut self, step: &ReadingStep) {
        add_problems(&mut self.problem_ns, &mut self.any_flag_ns, step);
        if step.has_congestion {
            self.congestion_ns += step.length_ns;
        }
        self.counts.add(&step.counts);
    }
}

impl IntervalPart {
    /// Adds the interval to the row that is written next.
    fn add(&mut self, step: &ReadingStep) {
        add_problems(&mut self.problem_ns, &mut self.any_flag_ns, step);
        self.counts.add(&step.counts);
        for (sum_ns, ns) in self.stages.iter_mut().zip(step.stages.iter().flatten()) {
            *sum_ns += ns;
        }
        self.writes.add(&step.writes);
        self.reads.add(&step.reads);
        self.polls += 1;
        self.poll_gap_ns = self.poll_gap_ns.max(step.length_ns);
        self.gauges = step.gauges;
    }

    /// Returns the time in each stage.
    pub(super) fn stages(&self) -> impl Iterator<Item = (Stage, u64)> {
        Stage::ALL.iter().copied().zip(self.stages)
    }

    /// Returns how long this problem was seen.
    pub(super) fn time_ns(&self, problem: Problem) -> u64 {
        self.problem_ns[problem as usize]
    }
}
