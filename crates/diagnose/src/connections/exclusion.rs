//! Causes that the evidence excludes, and gaps of the evidence: in the same words for all rules.

use table::Stage;

use crate::connections::case::Case;
use crate::report::RuledOut;
use crate::report::severity::WARNING_SHARE;
use crate::units::{count, duration, percent};

/// A cause that a finding may be mistaken for.
#[derive(Debug, Clone, Copy)]
pub enum ExcludableCause {
    /// The application gave nothing to send.
    SenderApp,
    /// The congestion window was full.
    CongestionWindow,
    /// The receiver's window was full.
    ReceiverWindow,
    /// The send buffer was full.
    SendBuffer,
    /// The receiver held its ACK back.
    DelayedAck,
    /// Lost data waited for a timer.
    LostData,
    /// Segments were lost.
    Loss,
    /// The other end's application did not read in time.
    SlowReader,
}

impl Case<'_> {
    /// Returns those of `causes` that the evidence excludes, each with that evidence.
    pub fn rule_out(&self, causes: &[ExcludableCause]) -> Vec<RuledOut> {
        let excluded = |cause: &ExcludableCause| match cause {
            ExcludableCause::SenderApp => {
                self.not_stage("the sending application", Stage::SenderApp)
            }
            ExcludableCause::CongestionWindow => {
                self.not_stage("the congestion window", Stage::CongestionWindow)
            }
            ExcludableCause::ReceiverWindow => {
                self.not_stage("the receiver's window", Stage::ReceiverWindow)
            }
            ExcludableCause::SendBuffer => self.not_stage("the send buffer", Stage::SendBuffer),
            ExcludableCause::DelayedAck => self.not_stage("a delayed ACK", Stage::DelayedAck),
            ExcludableCause::LostData => self.not_stage("lost data", Stage::RetransmitTimeout),
            ExcludableCause::Loss => self.not_loss(),
            ExcludableCause::SlowReader => self.not_peer_reader(),
        };
        causes.iter().filter_map(excluded).collect()
    }

    /// Rules out a stage by its share of the life; one that takes a part of it worth a
    /// warning is not ruled out.
    fn not_stage(&self, cause: &'static str, stage: Stage) -> Option<RuledOut> {
        let share = self.own.judged.stages.get(stage)?;
        if share.share > WARNING_SHARE {
            return None;
        }
        let because = match share.ns {
            0 => "none of its duration".to_owned(),
            ns => format!(
                "{} of its duration ({})",
                percent(share.share),
                duration(ns)
            ),
        };
        Some(RuledOut { cause, because })
    }

    /// Rules out loss by its counters.
    fn not_loss(&self) -> Option<RuledOut> {
        let retransmits = self.retransmits()?;
        let because = match self
            .own
            .growth(|sample| sample.data_segs_out.map(u64::from))
        {
            Some(segments) => format!(
                "{} of {} segments were retransmitted",
                count(retransmits),
                count(segments.max(retransmits))
            ),
            None => format!("{} segments were retransmitted", count(retransmits)),
        };
        Some(RuledOut {
            cause: "packet loss",
            because,
        })
    }

    /// Rules out a slow reader at the other end, by the stages of the sender.
    fn not_peer_reader(&self) -> Option<RuledOut> {
        let late = self
            .peer_reader_late()
            .filter(|late| *late <= WARNING_SHARE)?;
        let because = format!("bytes waited for it {} of the time", percent(late));
        Some(RuledOut {
            cause: "a slow reader",
            because,
        })
    }

    /// Returns the gaps that every finding has: the far end unseen, records lost.
    pub fn general_blind_spots(&self) -> Vec<String> {
        let mut blind = Vec::new();
        if self.context.given.is_capture {
            blind.push(
                "A capture shows only packets; whylat infers what programs and buffers did."
                    .to_owned(),
            );
        } else if self.peer.is_none() {
            blind.push(
                "The other end is not recorded; whylat infers its side from this end.".to_owned(),
            );
        }
        for (probe, lost) in &self.context.lost {
            blind.push(format!("{} records of {probe} were lost.", count(*lost)));
        }
        if self.context.not_judged > 0 {
            blind.push(format!(
                "whylat did not judge {} shorter connections.",
                count(self.context.not_judged)
            ));
        }
        blind
    }

    /// Returns the remedies that would make an inconclusive rule conclusive.
    pub fn more_detail(&self) -> Vec<String> {
        let mut help = Vec::new();
        if self.context.detail == "stats" {
            help.push("Record as root with `--detail calls`, which measures every wait.".into());
        }
        for (probe, remedy) in self
            .context
            .off
            .iter()
            .filter(|(_, remedy)| !remedy.is_empty())
        {
            help.push(format!("Turn on {probe}: {remedy}"));
        }
        help
    }
}
