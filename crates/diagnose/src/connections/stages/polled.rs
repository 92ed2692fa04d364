//! Stages without the ledger. The kernel's own clocks say how long data was outstanding
//! (`busy`) and how long the receiver's window was the limit; the rest of the busy time is
//! split by what random polls saw. What a poll does not show stays `unknown`, and a stage that
//! neither can show (Nagle under a cork, queues below TCP, delayed ACKs, lost tails) is not
//! listed at all.

use table::tables::TcpSample;
use table::{Method, Stage};

use super::bound;
use crate::connections::gather::ConnectionDigest;
use crate::connections::gather::polls::PollClass;
use crate::report::{StageShare, Stages};

/// Poll classes that split the busy time; the others are measured by clocks.
const SPLIT: [PollClass; 6] = [
    PollClass::RecoveryFull,
    PollClass::CwndFull,
    PollClass::ShortTail,
    PollClass::HeldSegments,
    PollClass::BufferFull,
    PollClass::AllSent,
];

/// Stages that a split class can become, `unknown` apart.
const SPLIT_STAGES: [Stage; 5] = [
    Stage::FastRetransmit,
    Stage::CongestionWindow,
    Stage::Pacing,
    Stage::Nagle,
    Stage::SendBuffer,
];

/// Judged time and its stages.
pub struct PollStages {
    /// Judged time, ns.
    pub life_ns: u64,
    /// Shares of the stages that polls show.
    pub stages: Stages,
}

/// The kernel's clocks over the judged time, ns.
struct KernelClocks {
    life_ns: u64,
    busy_ns: u64,
    window_ns: u64,
    timeout_ns: u64,
    bound: f64,
}

/// Judges a connection by samples and events; the error says why it cannot be judged.
pub fn judge_polls(gathered: &ConnectionDigest, jiffy_ns: u64) -> Result<PollStages, String> {
    let identity = gathered.identity.as_ref();
    let opened_ns = identity.and_then(|identity| identity.opened_ns);
    let clocks = clocks(gathered, opened_ns, jiffy_ns)?;
    let nodelay = identity.and_then(|identity| identity.nodelay);
    let paced = is_paced(identity.and_then(|identity| identity.congestion.as_deref()));
    let mut stages = Stages::default();
    let idle_ns = clocks.life_ns - clocks.busy_ns;
    for (stage, ns) in [
        (Stage::SenderApp, idle_ns),
        (Stage::ReceiverWindow, clocks.window_ns),
        (Stage::RetransmitTimeout, clocks.timeout_ns),
    ] {
        stages.set(stage, clock_share(&clocks, ns));
    }
    split(
        gathered,
        &clocks,
        |class| stage_of(class, nodelay, paced),
        &mut stages,
    );
    Ok(PollStages {
        life_ns: clocks.life_ns,
        stages,
    })
}

/// Returns the kernel's own clocks of a connection, or why they are missing.
fn clocks(
    gathered: &ConnectionDigest,
    opened_ns: Option<u64>,
    jiffy_ns: u64,
) -> Result<KernelClocks, String> {
    let samples = &gathered.samples;
    let (Some(last), Some((_, start_ns))) = (&samples.last, samples.start(opened_ns)) else {
        return Err("the recording has no sample of it".to_owned());
    };
    let life_ns = last.time_ns.saturating_sub(start_ns);
    if life_ns == 0 {
        return Err("the recording has one sample of it, and it was open before".to_owned());
    }
    let micros = |counter: fn(&TcpSample) -> Option<u64>| {
        samples.growth(opened_ns, counter).map(|us| us * 1_000)
    };
    let Some(busy_ns) = micros(|sample| sample.busy_us) else {
        return Err("the kernel does not report how long data was not acknowledged".to_owned());
    };
    let busy_ns = busy_ns.min(life_ns);
    let window_ns = micros(|sample| sample.rwnd_limited_us)
        .unwrap_or(0)
        .min(busy_ns);
    let timeout_ns = timeout_ns(gathered, opened_ns, (start_ns, last.time_ns));
    let periods = samples.growth(opened_ns, |sample| sample.data_segs_out.map(u64::from));
    let bound_ns = bound::chronograph_ns(periods.unwrap_or(1), jiffy_ns);
    Ok(KernelClocks {
        life_ns,
        busy_ns,
        window_ns,
        timeout_ns: timeout_ns.min(busy_ns - window_ns),
        bound: bound::as_share(bound_ns, life_ns),
    })
}

/// Time stalled until a retransmission timeout ended it. The kernel enters Loss only when
/// the timer expires, so the stall began one timeout earlier, less the round trip that an
/// answer may take. Without events, the kernel's own time in recovery is a lower bound.
fn timeout_ns(gathered: &ConnectionDigest, opened_ns: Option<u64>, life: (u64, u64)) -> u64 {
    let samples = &gathered.samples;
    let srtt_us = samples.last.as_ref().map_or(0, |last| last.srtt_us);
    let wait_us = samples.first_rto_us.unwrap_or(0).saturating_sub(srtt_us);
    let mut until_ns = life.0;
    let mut total_ns = 0;
    for (entered_ns, left_ns) in &gathered.events.loss {
        let from_ns = entered_ns
            .saturating_sub(u64::from(wait_us) * 1_000)
            .max(until_ns);
        let to_ns = left_ns.unwrap_or(life.1).min(life.1);
        total_ns += to_ns.saturating_sub(from_ns);
        until_ns = until_ns.max(to_ns);
    }
    if total_ns > 0 {
        return total_ns;
    }
    let recovery_ms = samples.growth(opened_ns, |sample| sample.total_rto_time_ms.map(u64::from));
    recovery_ms.unwrap_or(0) * 1_000_000
}

/// Returns the stage that one poll shows; Unknown if several are possible.
pub fn seen_by_poll(class: PollClass, nodelay: Option<bool>, congestion: Option<&str>) -> Stage {
    match class {
        PollClass::Idle => Stage::SenderApp,
        PollClass::TimeoutRecovery => Stage::RetransmitTimeout,
        PollClass::WindowFull => Stage::ReceiverWindow,
        PollClass::AllSent => Stage::InFlight,
        class => stage_of(class, nodelay, is_paced(congestion)),
    }
}

/// Returns whether the congestion control spreads segments over time by itself.
fn is_paced(congestion: Option<&str>) -> bool {
    congestion.is_some_and(|name| name.starts_with("bbr"))
}

/// Returns the stage that one poll shows; Unknown if several look alike.
fn stage_of(class: PollClass, nodelay: Option<bool>, paced: bool) -> Stage {
    match class {
        PollClass::RecoveryFull => Stage::FastRetransmit,
        PollClass::CwndFull => Stage::CongestionWindow,
        PollClass::BufferFull => Stage::SendBuffer,
        PollClass::ShortTail if nodelay == Some(false) => Stage::Nagle,
        PollClass::HeldSegments if paced => Stage::Pacing,
        // A delayed ACK, a lost tail and a plain round trip look alike to a poll.
        _ => Stage::Unknown,
    }
}

/// Returns a stage's share of the connection's life, from the kernel's clocks.
fn clock_share(clocks: &KernelClocks, ns: u64) -> StageShare {
    StageShare {
        share: ns as f64 / clocks.life_ns as f64,
        ns,
        method: Method::Chronograph,
        bound: clocks.bound,
    }
}

/// Splits the busy time that no clock explains.
fn split(
    gathered: &ConnectionDigest,
    clocks: &KernelClocks,
    stage_of: impl Fn(PollClass) -> Stage,
    stages: &mut Stages,
) {
    let rest_ns = clocks.busy_ns - clocks.window_ns - clocks.timeout_ns;
    let Some((parts, polls)) = gathered.samples.weights.class_shares(SPLIT) else {
        stages.set(Stage::Unknown, clock_share(clocks, rest_ns));
        return;
    };
    let mut left_ns = rest_ns;
    for stage in SPLIT_STAGES {
        let classes = SPLIT.iter().zip(parts);
        let found = classes.filter(|(class, _)| stage_of(**class) == stage);
        let part: f64 = found.map(|(_, part)| part).sum();
        let ns = ((rest_ns as f64 * part) as u64).min(left_ns);
        left_ns -= ns;
        stages.set(stage, sampled_share(clocks, rest_ns, ns, polls));
    }
    let unknown = sampled_share(clocks, rest_ns, left_ns, polls);
    stages.set(Stage::Unknown, unknown);
}

/// A share that `polls` random polls gave of `rest_ns`. Their error and that of the clocks
/// that left the rest add up.
fn sampled_share(clocks: &KernelClocks, rest_ns: u64, ns: u64, polls: f64) -> StageShare {
    let life = clocks.life_ns as f64;
    let part = ns as f64 / rest_ns.max(1) as f64;
    let bound = rest_ns as f64 / life * bound::wilson_half_width(part, polls) + clocks.bound;
    StageShare {
        share: ns as f64 / life,
        ns,
        method: Method::Samples,
        bound: bound.min(1.0),
    }
}
