//! One connection, or one listening socket, with all that is known of it alone.

use table::tables::{Connection, TcpSample};

use crate::connections::cpu::CpuObservation;
use crate::connections::gather::ConnectionDigest;
use crate::connections::gather::answers::AnswerWaits;
use crate::connections::gather::blocked::BlockedCalls;
use crate::connections::gather::calls::CallDigest;
use crate::connections::gather::system_calls::SystemCallTime;
use crate::connections::gather::threads::BlockedElsewhere;
use crate::connections::stages::StageTimes;

/// One connection, judged.
#[derive(Debug)]
pub struct ConnectionSubject<'a> {
    /// Socket cookie.
    pub id: u64,
    /// Digests.
    pub gathered: &'a ConnectionDigest,
    /// Calls; `None` when they were not logged.
    pub calls: Option<&'a CallDigest>,
    /// Calls on other connections in which its reader was blocked while its data waited.
    pub behind: Option<&'a BlockedElsewhere>,
    /// Calls in which a thread was blocked; `None` without delayed ACKs.
    pub blocked: Option<&'a BlockedCalls>,
    /// Waits of the sending thread for answers; `None` unless a cork held data.
    pub answers: Option<&'a AnswerWaits>,
    /// Activity of its process and its CPUs.
    pub cpu: CpuObservation,
    /// Time in its life in which the thread that reads slept on a timer, ns; `None`: the reader or its waits were not recorded.
    pub reader_slept_ns: Option<u64>,
    /// CPU time of its process in socket calls; `None`: no sample shows it.
    pub system_calls: Option<SystemCallTime>,
    /// Stages.
    pub judged: StageTimes,
    /// Command name of the owner.
    pub comm: Option<&'a str>,
}

impl ConnectionSubject<'_> {
    /// Returns the connection's row, folded from all its rows; `None` if it has none.
    pub fn identity(&self) -> Option<&Connection> {
        self.gathered.identity.as_ref()
    }

    /// Returns when the connection was opened, ns; `None`: before the recording.
    pub fn opened_ns(&self) -> Option<u64> {
        self.identity().and_then(|identity| identity.opened_ns)
    }

    /// Returns the start of the judged time, ns.
    pub fn start_ns(&self) -> u64 {
        let ledger = self.judged.ledger.as_ref().map(|ledger| ledger.since_ns);
        let listener = self.gathered.listener.as_ref().map(|it| it.since_ns);
        let sample = self
            .gathered
            .samples
            .start(self.opened_ns())
            .map(|(_, ns)| ns);
        self.opened_ns()
            .or(ledger)
            .or(listener)
            .or(sample)
            .unwrap_or(0)
    }

    /// Returns begin and end of the judged time, ns.
    pub fn life(&self) -> (u64, u64) {
        let start_ns = self.start_ns();
        (start_ns, start_ns + self.judged.life_ns)
    }

    /// Returns the growth of a counter of `tcp_info` over the judged time; `None` if unknown.
    pub fn growth(&self, counter: impl Fn(&TcpSample) -> Option<u64>) -> Option<u64> {
        self.gathered.samples.growth(self.opened_ns(), counter)
    }

    /// Returns from when to when counters of `tcp_info` grew, ns; `None` without a sample.
    pub fn counted_period(&self) -> Option<(u64, u64)> {
        let samples = &self.gathered.samples;
        let (_, start_ns) = samples.start(self.opened_ns())?;
        Some((start_ns, samples.last.as_ref()?.time_ns))
    }

    /// Returns the mean of all RTT samples, µs; `None` without a ledger.
    pub fn mean_rtt_us(&self) -> Option<u64> {
        let ledger = self.judged.ledger.as_ref()?;
        ledger.rtt_sum_us.checked_div(ledger.rtt_samples.into())
    }

    /// Returns the mean RTT, µs; without a ledger the last smoothed RTT.
    pub fn round_trip_us(&self) -> Option<u64> {
        let smoothed = || self.last_sample().map(|last| last.srtt_us.into());
        self.mean_rtt_us().or_else(smoothed)
    }

    /// Returns the last known limit of the send buffer, bytes: the kernel changes it over time.
    pub fn sndbuf_bytes(&self) -> Option<u32> {
        let last = self.last_sample().and_then(|last| last.sndbuf_bytes);
        let known = || self.identity()?.sndbuf_bytes;
        last.or_else(known)
    }

    /// Returns whether at least half of what it retransmitted was late, not lost: the receiver had it already, or the kernel found
    /// its timeouts spurious.
    pub fn is_mostly_late(&self) -> bool {
        let retransmits = self.growth(|sample| Some(sample.total_retrans.into()));
        let duplicates = self.growth(|sample| sample.dsack_dups.map(u64::from));
        let is_counted = retransmits
            .zip(duplicates)
            .is_some_and(|(all, had)| all > 0 && 2 * had >= all);
        let events = &self.gathered.events;
        let ledger = self.judged.ledger.as_ref();
        let spurious = ledger.map_or(0, |ledger| ledger.spurious_timeouts as usize);
        let is_undone = spurious > 0 && 2 * spurious >= events.loss.len();
        is_counted || is_undone || events.is_mostly_taken_back()
    }

    /// Returns the size of the socket's receive buffer, in bytes; `None`: not sampled.
    pub fn rcvbuf_bytes(&self) -> Option<u32> {
        let last = self.last_sample().and_then(|last| last.rcvbuf_bytes);
        let known = || self.identity()?.rcvbuf_bytes;
        last.or_else(known)
    }

    /// Returns the last sample; `None` without any.
    pub fn last_sample(&self) -> Option<&TcpSample> {
        self.gathered.samples.last.as_ref()
    }
}
