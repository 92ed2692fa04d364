//! Connections → rows of the fleet's tables.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use diagnose::verdict;
use probe::watch::CallCounts;
use table::fleet::{BIN_NS, FleetConnection, FleetDetail, FleetInterval, FleetProblem};
use table::{Role, Stage, tables};

use super::bins::{Bin, Bins, Problem};
use super::connection::{Connection, ContextSample, CounterGrowth, IntervalPart};
use super::owners::Owners;
use super::timeline::IntervalSpan;

/// The host, the interval and the abilities of the kernel, which every row of an interval needs.
pub(super) struct RowContext<'a> {
    pub(super) host: &'a str,
    pub(super) span: &'a IntervalSpan,
    /// Whether calls were counted and the ledger kept.
    pub(super) has_calls: bool,
    /// Whether this kernel counts retransmission timeouts: without, they look like fast retransmissions.
    pub(super) has_timeouts: bool,
}

/// Returns the `conn_id` of a socket: see `docs/fleet/dataset.md`.
pub(super) fn conn_id(boot_id: &str, cookie: u64, netns: u32) -> i64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(boot_id.as_bytes());
    hasher.update(&cookie.to_le_bytes());
    hasher.update(&netns.to_le_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    i64::from_le_bytes(first)
}

/// Converts nanoseconds to whole microseconds.
pub(super) fn us(ns: u64) -> i64 {
    to_i64(ns / 1_000)
}

/// Converts a counter to a cell; at most the largest number.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the number, or the largest that fits.
fn clamp_to_i32(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

impl RowContext<'_> {
    /// Returns the row of a connection for the interval that ends at `until_ns` (`CLOCK_REALTIME`).
    pub(super) fn interval(
        &self,
        of: &Connection,
        part: &IntervalPart,
        until_ns: i64,
    ) -> FleetInterval {
        let begin_ns = self.span.wall_ns(of.first_ns).max(self.span.begin_ns);
        let until_ns = match of.closed_ns() {
            Some(closed_ns) => self.span.wall_ns(closed_ns),
            None => until_ns,
        };
        let length_ns = (until_ns - begin_ns).max(0).cast_unsigned();
        let calls = |calls: &CallCounts| self.has_calls.then(|| CallCells::from_counts(calls));
        let (writes, reads) = (calls(&part.writes), calls(&part.reads));
        let retransmitted = |problem| self.has_timeouts.then(|| us(part.time_ns(problem)));
        let class =
            |calls: Option<CallCells>, class: usize| calls.map(|cells| cells.classes[class]);
        FleetInterval {
            host: self.host.to_owned(),
            conn_id: of.conn_id,
            begin_ns,
            length_us: us(length_ns),
            verdict: self.verdict(part, length_ns),
            send_buffer_us: us(part.time_ns(Problem::SendBuffer)),
            fast_retransmit_us: retransmitted(Problem::FastRetransmit),
            timeout_us: retransmitted(Problem::Timeout),
            delayed_ack_us: self
                .has_calls
                .then(|| us(part.time_ns(Problem::DelayedAck))),
            receiver_window_us: us(part.time_ns(Problem::ReceiverWindow)),
            no_flag_us: us(length_ns.saturating_sub(part.any_flag_ns)),
            acked_bytes: to_i64(part.counts.acked_bytes),
            received_bytes: to_i64(part.counts.received_bytes),
            segs_out: to_i64(part.counts.segs_out),
            retrans: to_i64(part.counts.retrans),
            timeouts: self.timeouts(&part.counts),
            srtt_us: srtt(part.gauges.srtt_us),
            min_rtt_us: part.gauges.min_rtt_us.map(clamp_to_i32),
            cwnd_segs: clamp_to_i32(part.gauges.cwnd_segs),
            snd_wnd_bytes: part.gauges.snd_wnd_bytes.map(i64::from),
            max_send_queue_bytes: part.gauges.max_send_queue_bytes.into(),
            polls: clamp_to_i32(part.polls),
            poll_gap_us: us(part.poll_gap_ns),
            writes: writes.map(|cells| cells.calls),
            written_bytes: writes.map(|cells| cells.bytes),
            writes_to_64: class(writes, 0),
            writes_to_512: class(writes, 1),
            writes_to_4k: class(writes, 2),
            writes_to_32k: class(writes, 3),
            writes_to_256k: class(writes, 4),
            writes_over_256k: class(writes, 5),
            reads: reads.map(|cells| cells.calls),
            read_bytes: reads.map(|cells| cells.bytes),
            reads_to_64: class(reads, 0),
            reads_to_512: class(reads, 1),
            reads_to_4k: class(reads, 2),
            reads_to_32k: class(reads, 3),
            reads_to_256k: class(reads, 4),
            reads_over_256k: class(reads, 5),
        }
    }

    /// Returns the number of timeouts; None if the kernel does not count them.
    fn timeouts(&self, counts: &CounterGrowth) -> Option<i64> {
        self.has_timeouts.then(|| to_i64(counts.timeouts))
    }

    /// Returns the stage or flag that took most of the interval; None if none took enough.
    fn verdict(&self, part: &IntervalPart, length_ns: u64) -> Option<String> {
        let name = if self.has_calls {
            let stages: Vec<(Stage, u64)> = part.stages().collect();
            verdict::worst_stage(&stages, length_ns).map(Stage::name)
        } else {
            let flags = [
                Problem::SendBuffer,
                Problem::FastRetransmit,
                Problem::Timeout,
                Problem::ReceiverWindow,
            ];
            let times = flags.map(|problem| (problem.name(), part.time_ns(problem)));
            verdict::greatest_hold(times, length_ns)
        };
        name.map(str::to_owned)
    }

    /// Returns the row of a connection at `until_ns` (`CLOCK_MONOTONIC`); `None` if its ends are not.
    pub(super) fn connection(
        &self,
        of: &Connection,
        owners: &Owners,
        until_ns: u64,
    ) -> Option<FleetConnection> {
        let row = of.identity.as_ref()?;
        let local: SocketAddr = row.local.parse().ok()?;
        let peer: SocketAddr = row.remote.parse().ok()?;
        let until_ns = row.closed_ns.unwrap_or(until_ns);
        let watched_ns = until_ns.saturating_sub(of.first_ns);
        let accepted = (row.role == Role::Server).then(|| local.port());
        let application = owners.application(row.pid, accepted);
        let container = row.pid.and_then(|pid| owners.container(pid));
        let pod = container.and_then(|it| it.pod.clone());
        let (pod_namespace, pod) = pod.unzip();
        let workload = container.and_then(|it| it.workload.clone());
        let total = |problem: Problem| us(of.totals.problem_ns[problem as usize]);
        let counts = &of.totals.counts;
        Some(FleetConnection {
            host: self.host.to_owned(),
            conn_id: of.conn_id,
            time_ns: self.span.wall_ns(until_ns),
            netns: row.netns,
            local_address: local.ip().to_string(),
            local_port: local.port().into(),
            peer_address: peer.ip().to_string(),
            peer_port: peer.port().into(),
            role: row.role,
            process: row.pid.and_then(|pid| owners.comm(pid)).map(str::to_owned),
            pid: row.pid.map(clamp_to_i32),
            pod_namespace,
            pod,
            container: container.and_then(|it| it.name.clone()),
            workload_kind: workload.as_ref().map(|it| it.kind),
            workload_source: workload.as_ref().map(|it| it.source),
            workload: workload.map(|it| it.name),
            app: application.map(|app| app.name.clone()),
            tier: application.and_then(|app| app.tier.clone()),
            delay_sensitive: application.map(|app| app.delay_sensitive),
            first_ns: self.span.wall_ns(of.first_ns),
            opened_ns: row.opened_ns.map(|ns| self.span.wall_ns(ns)),
            closed_ns: row.closed_ns.map(|ns| self.span.wall_ns(ns)),
            congestion: row.congestion.clone(),
            nodelay: row.nodelay,
            sndbuf_bytes: row.sndbuf_bytes.map(i64::from),
            rcvbuf_bytes: row.rcvbuf_bytes.map(i64::from),
            watched_us: us(watched_ns),
            send_buffer_us: total(Problem::SendBuffer),
            congestion_us: self.has_timeouts.then(|| us(of.totals.congestion_ns)),
            delayed_ack_us: self.has_calls.then(|| total(Problem::DelayedAck)),
            receiver_window_us: total(Problem::ReceiverWindow),
            no_flag_us: us(watched_ns.saturating_sub(of.totals.any_flag_ns)),
            acked_bytes: to_i64(counts.acked_bytes),
            received_bytes: to_i64(counts.received_bytes),
            retrans: to_i64(counts.retrans),
            timeouts: self.timeouts(counts),
        })
    }

    /// Returns the row of a bin of a connection that existed between these times (`CLOCK_REALTIME`).
    pub(super) fn problem(&self, conn_id: i64, lifetime: (i64, i64), bin: &Bin) -> FleetProblem {
        let time =
            |problem: Problem| clamp_to_i32(us(bin.time_ns(problem).min(BIN_NS.cast_unsigned())));
        FleetProblem {
            host: self.host.to_owned(),
            conn_id,
            begin_ns: bin.begin_ns,
            send_buffer_us: time(Problem::SendBuffer),
            fast_retransmit_us: self.has_timeouts.then(|| time(Problem::FastRetransmit)),
            timeout_us: self.has_timeouts.then(|| time(Problem::Timeout)),
            delayed_ack_us: self.has_calls.then(|| time(Problem::DelayedAck)),
            receiver_window_us: time(Problem::ReceiverWindow),
            sender_app_us: self.has_calls.then(|| sender_app_us(lifetime, bin)),
        }
    }

    /// Returns the row of a reading near a problem.
    pub(super) fn detail(&self, conn_id: i64, near: &ContextSample) -> FleetDetail {
        let [writes, reads] = near.calls;
        let call = |number| self.has_calls.then(|| to_i64(number));
        FleetDetail {
            host: self.host.to_owned(),
            conn_id,
            time_ns: near.time_ns,
            length_us: us(near.length_ns),
            stage: near.stage.map(|stage| stage.name().to_owned()),
            writes: call(writes.0),
            written_bytes: call(writes.1),
            reads: call(reads.0),
            read_bytes: call(reads.1),
            acked_bytes: to_i64(near.counts.acked_bytes),
            received_bytes: to_i64(near.counts.received_bytes),
            retrans: to_i64(near.counts.retrans),
            timeouts: self.timeouts(&near.counts),
            send_queue_bytes: near.gauges.send_queue_bytes.into(),
            unacked_segs: near.gauges.unacked_segs.into(),
            cwnd_segs: clamp_to_i32(near.gauges.cwnd_segs),
            snd_wnd_bytes: near.gauges.snd_wnd_bytes.map(i64::from),
            srtt_us: srtt(near.gauges.srtt_us),
        }
    }
}

/// Returns the smoothed RTT, µs; `None` for the kernel's 0 before the first sample.
fn srtt(us: u32) -> Option<i32> {
    (us > 0).then(|| clamp_to_i32(us))
}

#[derive(Clone, Copy)]
struct CallCells {
    calls: i64,
    bytes: i64,
    classes: [i64; probe::watch::CALL_CLASSES],
}

impl CallCells {
    /// Returns number, bytes and times of calls as cells.
    fn from_counts(counts: &CallCounts) -> Self {
        Self {
            calls: to_i64(counts.calls()),
            bytes: to_i64(counts.bytes),
            classes: counts.by_class.map(to_i64),
        }
    }
}

/// Finds bins of processes near a problem: those with one and those beside them.
#[derive(Debug, Default)]
pub(super) struct NearProblems(HashMap<u32, HashSet<i64>>);

impl NearProblems {
    /// Notes the problems of a connection of this process, in bins that start before `end_ns`.
    pub(super) fn note(&mut self, pid: Option<u32>, bins: &Bins, end_ns: i64) {
        let Some(pid) = pid else { return };
        for bin in bins.bins_before(end_ns).filter(|bin| bin.has_problem()) {
            let beside = [-BIN_NS, 0, BIN_NS].map(|by| bin.begin_ns + by);
            self.0.entry(pid).or_default().extend(beside);
        }
    }

    /// Removes and returns the bins before `end_ns` with a problem, or near one of the same
    /// process. Each is taken once.
    pub(super) fn take(&self, pid: Option<u32>, bins: &mut Bins, end_ns: i64) -> Vec<Bin> {
        let near = pid.and_then(|pid| self.0.get(&pid));
        let is_near = |bin: &Bin| near.is_some_and(|near| near.contains(&bin.begin_ns));
        bins.write(end_ns, |bin| bin.has_problem() || is_near(bin))
    }
}

/// Returns the application's time in a bin, µs; time without a reading was idle.
fn sender_app_us((first_ns, last_ns): (i64, i64), bin: &Bin) -> i32 {
    let from_ns = first_ns.max(bin.begin_ns);
    let until_ns = last_ns.min(bin.begin_ns + BIN_NS);
    let lifetime_ns = (until_ns - from_ns).max(0).cast_unsigned();
    let idle_ns = lifetime_ns.saturating_sub(bin.covered_ns);
    clamp_to_i32(us(idle_ns + bin.sender_app_ns))
}

/// Returns whether a row has something new.
pub(super) fn is_change(before: Option<&tables::Connection>, now: &tables::Connection) -> bool {
    before.is_none_or(|before| before.pid != now.pid || before.role != now.role)
}

#[cfg(test)]
mod tests {
    use super::super::timeline::ClockReading;
    use super::*;

    #[test]
    fn value_that_the_kernel_does_not_count_is_null() {
        let span = IntervalSpan::beginning(ClockReading::default(), 60_000_000_000);
        for has_timeouts in [false, true] {
            let context = RowContext {
                host: "web-1",
                span: &span,
                has_calls: false,
                has_timeouts,
            };
            let zero = has_timeouts.then_some(0);
            let row = context.interval(&Connection::new(1, 0), &IntervalPart::default(), 1_000);
            assert_eq!((row.fast_retransmit_us, row.timeout_us), (zero, zero));
            assert_eq!((row.timeouts, row.delayed_ack_us), (zero, None));
            let zero = has_timeouts.then_some(0);
            let row = context.problem(1, (0, 1_000), &Bin::default());
            assert_eq!((row.fast_retransmit_us, row.timeout_us), (zero, zero));
            assert_eq!((row.delayed_ack_us, row.sender_app_us), (None, None));
        }
    }
}
