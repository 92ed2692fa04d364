//! One connection as a rule sees it: what is known of it alone, its other end, and what the
//! recording could see at all. Rules read; they keep nothing.

use table::tables::TcpStage;
use table::{Method, Stage, TcpEventKind};

use crate::connections::context::RecordingContext;
use crate::connections::gather::calls::CallDigest;
use crate::connections::neighbours::Neighbours;
use crate::connections::outage::Outage;
use crate::connections::subject::ConnectionSubject;
use crate::kernel::TCP_INIT_CWND;
use crate::report::severity::held_up;
use crate::report::{DataDirection, RuleId};

/// Polls that must agree before they are believed: five of five happen by chance in 3 % of
/// cases if each way is as likely, below the usual 5 %.
pub const LEAST_POLLS: u64 = 5;

/// A connection with its other end and the recording around it.
#[derive(Debug)]
pub struct Case<'a> {
    /// The connection.
    pub own: &'a ConnectionSubject<'a>,
    /// Its other end, when it is on this host and recorded.
    pub peer: Option<&'a ConnectionSubject<'a>>,
    /// Coverage of the recording.
    pub context: &'a RecordingContext,
    /// Connections beside it.
    pub neighbours: &'a Neighbours<'a>,
    /// Outages of the path that explain most of what its timers retransmitted.
    pub outages: Vec<Outage>,
    /// Rules that fired on it before this one, with the harm found, ns.
    pub earlier: Vec<(RuleId, u64)>,
    /// Whether an earlier rule was inconclusive.
    pub doubt: bool,
    /// Whether an earlier rule has named what caused its losses: then those that speak of loss in
    /// general have nothing to add.
    pub loss_named: bool,
}

/// Stages of lost data: what fills them is a cause of loss.
pub const LOSS_STAGES: [Stage; 3] = [
    Stage::RetransmitTimeout,
    Stage::TailLoss,
    Stage::FastRetransmit,
];

impl Case<'_> {
    /// Returns the judged duration of the connection, ns.
    pub fn life_ns(&self) -> u64 {
        self.own.judged.life_ns
    }

    /// Returns from when to when these stages took time, `CLOCK_MONOTONIC` ns, to a reading of the ledger; without one,
    /// or without stages, its life.
    pub fn interval(&self, stages: &[Stage]) -> (u64, u64) {
        let grew = self
            .ledger()
            .and(self.own.gathered.ledger.growth.interval(stages));
        grew.unwrap_or_else(|| {
            let start_ns = self.own.start_ns();
            (start_ns, start_ns + self.life_ns())
        })
    }

    /// Returns the time of the connection in a stage, ns.
    pub fn ns(&self, stage: Stage) -> u64 {
        self.own.judged.stages.stage_ns(stage)
    }

    /// Returns the share of the connection's time in a stage, 0 to 1.
    pub fn share(&self, stage: Stage) -> f64 {
        self.own
            .judged
            .stages
            .get(stage)
            .map_or(0.0, |share| share.share)
    }

    /// Returns how a stage was measured; `None` when it was not.
    pub fn method(&self, stage: Stage) -> Option<Method> {
        self.own.judged.stages.get(stage).map(|share| share.method)
    }

    /// Returns the ledger of a connection that sent data; `None` without one.
    pub fn ledger(&self) -> Option<&TcpStage> {
        self.own
            .judged
            .ledger
            .as_ref()
            .filter(|_| !self.own.judged.sent_nothing)
    }

    /// Returns the mean bytes of a send call; `None` without calls.
    pub fn mean_send_bytes(&self) -> Option<f64> {
        self.own.calls?.send.mean_bytes()
    }

    /// Returns the calls; `None` unless the blocked time of all is known.
    pub fn calls_with_blocking(&self) -> Option<&CallDigest> {
        let calls = self.own.calls?;
        (calls.send.unmeasured + calls.receive.unmeasured == 0).then_some(calls)
    }

    /// Returns the share of the time that bytes waited for the other end's reader. It comes from its ledger, or from
    /// polls if there are enough.
    pub fn peer_reader_late(&self) -> Option<f64> {
        let peer = self.peer?;
        let slow = &peer.judged.receive.as_ref()?.reader_slow;
        let known = slow.method.is_measured() || peer.gathered.samples.polls >= LEAST_POLLS;
        known.then_some(slow.share)
    }

    /// Bytes per second delivered over the judged time.
    pub fn delivered_bytes_per_s(&self) -> Option<f64> {
        let samples = &self.own.gathered.samples;
        let (_, start_ns) = samples.start(self.own.opened_ns())?;
        let elapsed_ns = samples.last.as_ref()?.time_ns.checked_sub(start_ns)?;
        let bytes = self.own.growth(|sample| Some(sample.bytes_acked))?;
        (elapsed_ns > 0).then(|| bytes as f64 * 1e9 / elapsed_ns as f64)
    }

    /// Returns the last known congestion window, in bytes.
    pub fn cwnd_bytes(&self) -> Option<u64> {
        let last = self.own.last_sample()?;
        let cwnd = Some(last.cwnd).filter(|cwnd| *cwnd > 0)?;
        Some(u64::from(cwnd) * u64::from(last.mss_bytes))
    }

    /// Returns whether so many bytes in flight, at the flow's own best rate, are twice what the path holds or more,
    /// and round trips are twice the path's: half of them waits in a queue on the path, which is full, and more bytes
    /// would only wait longer. (Little's law: bytes = rate × round trip.) Below the kernel's initial window
    /// (TCP_INIT_CWND) a round trip may be long without a second segment to acknowledge.
    pub fn fills_path(&self, in_flight_bytes: u64) -> bool {
        let mean_rtt_us = self.mean_rtt_us().unwrap_or(0);
        let rtt_us = self.own.gathered.samples.min_rtt_us;
        let mss = self.own.last_sample().map(|last| u64::from(last.mss_bytes));
        let (Some(path_bytes), Some(rtt_us), Some(mss)) =
            (self.best_in_flight_bytes(), rtt_us, mss)
        else {
            return false;
        };
        in_flight_bytes >= TCP_INIT_CWND * mss
            && in_flight_bytes >= 2 * path_bytes
            && mean_rtt_us >= 2 * u64::from(rtt_us)
    }

    /// Returns the bytes in flight that the flow's best rate needs: rate times min RTT.
    pub fn best_in_flight_bytes(&self) -> Option<u64> {
        let best = self.ledger()?.best_rate_bytes_per_s?;
        let rtt_us = self.own.gathered.samples.min_rtt_us?;
        u64::try_from(u128::from(best) * u128::from(rtt_us) / 1_000_000).ok()
    }

    /// Returns the mean of all RTT samples, µs; `None` without a ledger.
    pub fn mean_rtt_us(&self) -> Option<u64> {
        self.ledger()?;
        self.own.mean_rtt_us()
    }

    /// Returns the most bytes that were written and not yet acknowledged, by polls or ledger; 0 if
    /// unknown.
    pub fn max_send_queue_bytes(&self) -> u64 {
        let polled_bytes = self.own.gathered.samples.max_send_queue_bytes;
        let ledger_bytes = self.ledger().map_or(0, |led| led.max_send_queue_bytes);
        polled_bytes.max(ledger_bytes).into()
    }

    /// Returns the largest window that the other end announced, by polls or ledger, in bytes; 0 if
    /// unknown.
    pub fn largest_window_bytes(&self) -> u64 {
        let polled_bytes = self.own.gathered.samples.window.largest_bytes;
        let ledger_bytes = self.ledger().map_or(0, |led| led.max_snd_wnd_bytes);
        polled_bytes.max(ledger_bytes).into()
    }

    /// Returns the time of waits for a receiver's window that then grew to twice its size, ns; `None` where that is not known. It
    /// is no lack of buffer: the receiver had room for more.
    pub fn window_growth_ns(&self) -> Option<u64> {
        let growth_ns = match self.ledger() {
            Some(ledger) => ledger.window_growth_ns?,
            None => self
                .own
                .gathered
                .samples
                .window_growth_ns(self.own.opened_ns())?,
        };
        Some(growth_ns.min(self.ns(Stage::ReceiverWindow)))
    }

    /// Returns the time of waits for a send buffer that the kernel then made larger, ns; `None` where that is not
    /// known. No setting was the limit: the kernel makes it twice the congestion window, when an ACK finds it full.
    pub fn send_buffer_growth_ns(&self) -> Option<u64> {
        let growth_ns = self.ledger()?.send_buffer_growth_ns?;
        Some(growth_ns.min(self.ns(Stage::SendBuffer)))
    }

    /// Returns whether the receiver's window covers all that the path holds: a larger window would only let a queue on
    /// the path grow.
    pub fn window_fills_path(&self) -> bool {
        self.fills_path(self.largest_window_bytes())
    }

    /// Returns whether the send buffer, when it stops the writer, only keeps a queue on the path from growing.
    pub fn send_buffer_fills_path(&self) -> bool {
        self.fills_path(self.max_send_queue_bytes())
    }

    /// Largest window that the other end announced, and how much larger it is by that end's own
    /// account, where it is twice as large or more. A shift of the window scale that one end does not
    /// know of makes it a power of two (RFC 7323 2.2); TCP itself never does.
    pub fn window_changed_on_path(&self) -> Option<(u64, u64)> {
        let seen = self.largest_window_bytes();
        let announced = u64::from(self.peer?.last_sample()?.rcv_wnd_bytes?);
        (seen > 0 && announced >= 2 * seen).then_some((seen, announced))
    }

    /// Returns whether `rule` has a finding on the connection.
    pub fn has_fired(&self, rule: RuleId) -> bool {
        self.earlier.iter().any(|(fired, _)| *fired == rule)
    }

    /// Returns whether an earlier rule found that this connection loses enough to count.
    pub fn is_held_up(&self) -> bool {
        let held = |(_, harm_ns): &(RuleId, u64)| held_up(*harm_ns, self.life_ns());
        self.earlier.iter().any(held)
    }

    /// Returns whether the receiver already had half or more of what was retransmitted: that had not been lost.
    pub fn is_mostly_spurious(&self) -> bool {
        let duplicates = self.own.growth(|sample| sample.dsack_dups.map(u64::from));
        let retransmits = self.retransmits().unwrap_or(0);
        retransmits > 0 && duplicates.is_some_and(|duplicates| duplicates * 2 >= retransmits)
    }

    /// Returns, without a ledger, whether the receiver had at least half of what was retransmitted. Then the counters do not
    /// show whether anything was lost.
    pub fn stalls_may_be_late_acks(&self) -> bool {
        self.ledger().is_none() && self.stalled_ns() > 0 && self.is_mostly_spurious()
    }

    /// Time in which data was lost and not yet received again, ns.
    pub fn lost_ns(&self) -> u64 {
        self.stalled_ns() + self.ns(Stage::FastRetransmit)
    }

    /// Time in which lost data waited for a timer, ns. What the receiver added by holding its ACK
    /// back is not of the loss.
    pub fn stalled_ns(&self) -> u64 {
        let stalls_ns = self.ns(Stage::RetransmitTimeout) + self.ns(Stage::TailLoss);
        stalls_ns.saturating_sub(self.ack_held_ns())
    }

    /// Returns whether outages of the path explain its timers: most connections to the host got no ACK meanwhile.
    pub fn has_outage(&self) -> bool {
        !self.outages.is_empty()
    }

    /// Returns by how much receivers made stalls longer, because they delayed the ACK after a
    /// timeout, ns.
    pub fn ack_held_ns(&self) -> u64 {
        self.ledger().map_or(0, |led| led.timeout_ack_delayed_ns)
    }

    /// The part of a harm without which the work would have been done earlier, ns. What a program that
    /// only sends does between its calls, it does without the harm, too.
    pub fn winnable_ns(&self, harm_ns: u64) -> u64 {
        let only_sends = self.own.judged.bytes.1 == Some(0);
        let calls = self.own.calls.filter(|_| only_sends);
        let program_ns = calls.and_then(CallDigest::program_ns).unwrap_or(0);
        harm_ns.min(self.life_ns().saturating_sub(program_ns))
    }

    /// Returns the number of retransmitted segments; `None` if it is unknown.
    pub fn retransmits(&self) -> Option<u64> {
        self.own.growth(|sample| Some(sample.total_retrans.into()))
    }

    /// Returns the number of segments that events show as retransmitted for this reason.
    pub fn count_retransmits(&self, kind: TcpEventKind) -> u64 {
        let events = &self.own.gathered.events;
        match self.own.counted_period() {
            Some(span) => events.retransmitted_within(kind, span),
            None => events.count(kind),
        }
    }

    /// Returns the retransmissions that duplicate ACKs started, if events were recorded.
    pub fn fast_retransmits(&self) -> Option<u64> {
        let seen = self.count_retransmits(TcpEventKind::FastRetransmit);
        // A retransmission is seen a moment before or after it is counted.
        let most = self.retransmits().unwrap_or(u64::MAX);
        self.context.events.then_some(seen.min(most))
    }

    /// Returns the number of retransmissions that the receiver already had. It may also report some
    /// from before they were counted.
    pub fn spurious_retransmits(&self) -> Option<u64> {
        let duplicates = self.own.growth(|sample| sample.dsack_dups.map(u64::from))?;
        Some(duplicates.min(self.retransmits().unwrap_or(u64::MAX)))
    }

    /// Time in which the application was what the connection waited for: it gave nothing to send,
    /// or left ready bytes, or had been woken for them and waited for a CPU, ns.
    pub fn application_ns(&self) -> u64 {
        let receive = self.own.judged.receive.as_ref();
        let unread_ns = receive.map_or(0, |receive| receive.reader_slow.ns);
        let calls = self.own.calls;
        let woken_ns = calls.map_or(0, |calls| calls.receive.runq_ns);
        (self.ns(Stage::SenderApp) + unread_ns + woken_ns).min(self.life_ns())
    }

    /// CPU time of `ksoftirqd` on the application's CPU, as far as the application had use for it,
    /// ns; `None` where it is not known.
    pub fn ksoftirqd_ns(&self) -> Option<u64> {
        let worked_ns = self.own.cpu.home?.ksoftirqd_ns?;
        Some(worked_ns.min(self.cpu_wanted_ns()))
    }

    /// Time in which the connection waited for its application, and that for a CPU, as far as that
    /// is known, ns.
    pub fn cpu_wanted_ns(&self) -> u64 {
        let process = self.own.cpu.process.as_ref();
        let waited_ns = process.map_or(u64::MAX, |process| process.waited_ns);
        waited_ns.min(self.application_ns())
    }

    /// Direction of the data that waits for this end's application.
    pub fn application_direction(&self) -> DataDirection {
        if self.own.judged.sent_nothing {
            DataDirection::Receiving
        } else {
            DataDirection::Sending
        }
    }
}
