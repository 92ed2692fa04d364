//! The causes of all explained messages of an application, together.

use std::collections::BTreeMap;

use super::cause::{CauseKey, CauseNamer, MessageRule};
use super::explain::{Anomaly, Deviation};
use super::report::{
    CausePart, CauseSpan, CauseTime, CoveredShare, CpuShare, FiveNumbers, HitOrder,
    LatencyQuantile, MessageCauses, QueueSpread, Queueing, TailCause, TailGroup,
};
use super::sets::{ExplainedMessage, ExplainedMessages, OrdinaryMessages};
use super::side::GroupKey;

/// Ranks of the latencies that are given: more of the tail than of the body.
const SHARES: [f64; 14] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0,
];
/// Messages named as examples of a cause.
const EXAMPLES: usize = 3;

/// Inputs of a group's summary.
pub(super) struct GroupSummary<'a> {
    pub(super) causes: CauseNamer<'a>,
    pub(super) body: OrdinaryMessages,
    pub(super) queueing: Vec<Queueing>,
    pub(super) cores: Vec<CpuShare>,
    pub(super) started_ns: u64,
}

/// Time that one cause added, by message.
#[derive(Default)]
struct CauseHits {
    /// Index of the message, ns.
    messages: Vec<(usize, f64)>,
    first: u64,
    parts: BTreeMap<String, PartHits>,
}

struct PartHits {
    anomaly: Anomaly,
    ns: Vec<f64>,
    sum_ns: f64,
}

impl GroupSummary<'_> {
    /// Makes the report of a group: its percentiles, causes and slow messages.
    pub(super) fn group(
        self,
        (application, direction): GroupKey,
        [sorted_ns, compared_ns]: [Vec<u64>; 2],
        tail: &ExplainedMessages<'_>,
    ) -> TailGroup {
        let slow = &tail.slow;
        let by_message: Vec<Vec<(CauseKey, f64)>> =
            slow.iter().map(|it| self.causes_of(it)).collect();
        let mut hits = self.hits(slow, &by_message);
        let mut causes: Vec<(CauseKey, TailCause)> = std::mem::take(&mut hits)
            .into_iter()
            .map(|(key, hits)| (key.clone(), cause_of(&key, hits, slow)))
            .collect();
        causes.sort_by(|(a, one), (b, other)| {
            let by_first = other.first.cmp(&one.first);
            by_first
                .then(other.sum_ns.total_cmp(&one.sum_ns))
                .then(a.cmp(b))
        });
        let index: BTreeMap<CauseKey, usize> = causes
            .iter()
            .enumerate()
            .map(|(index, (key, _))| (key.clone(), index))
            .collect();
        let explained: Vec<MessageCauses> = slow
            .iter()
            .zip(by_message)
            .map(|(it, causes)| self.explained(it, causes, &index))
            .collect();
        TailGroup {
            application,
            direction,
            messages: sorted_ns.len() as u64,
            latency: quantiles(&sorted_ns),
            latency_sum_ns: sorted_ns.iter().sum(),
            compared_messages: compared_ns.len() as u64,
            compared: quantiles(&compared_ns),
            tail: tail.judged,
            body: self.body.judged,
            usual_ns: self.body.reference.latency_ns(),
            deviation_ns: mean(slow.iter().map(|it| it.explanation.deviation_ns)),
            longer: slow.iter().filter(|it| it.explanation.is_longer).count() as u64,
            covered: covered_share(slow, &explained),
            queue: self.queue_spread(slow),
            queueing: self.queueing,
            cores: self.cores,
            causes: causes.into_iter().map(|(_, cause)| cause).collect(),
            explained,
        }
    }

    /// The causes of a message, largest first.
    fn causes_of(&self, slow: &ExplainedMessage<'_>) -> Vec<(CauseKey, f64)> {
        let mut causes: BTreeMap<CauseKey, f64> = BTreeMap::new();
        for deviation in &slow.explanation.causes {
            *causes.entry(self.key(deviation)).or_default() += deviation.ns;
        }
        let mut causes: Vec<_> = causes
            .into_iter()
            .filter(|(key, _)| key.rule != MessageRule::Untraced)
            .collect();
        causes.sort_by(|(a, one), (b, other)| other.total_cmp(one).then(a.cmp(b)));
        causes
    }

    /// Returns the cause to which a deviation belongs.
    fn key(&self, deviation: &Deviation) -> CauseKey {
        self.causes.cause_key(deviation.node)
    }

    /// Counts, for each cause, the slow messages that it explains, and their time.
    fn hits(
        &self,
        slow: &[ExplainedMessage<'_>],
        by_message: &[Vec<(CauseKey, f64)>],
    ) -> BTreeMap<CauseKey, CauseHits> {
        let mut hits: BTreeMap<CauseKey, CauseHits> = BTreeMap::new();
        for (index, causes) in by_message.iter().enumerate() {
            for (place, (key, ns)) in causes.iter().enumerate() {
                let hits = hits.entry(key.clone()).or_default();
                hits.messages.push((index, *ns));
                hits.first += u64::from(place == 0);
            }
        }
        for deviation in slow.iter().flat_map(|it| &it.explanation.causes) {
            let Some(hits) = hits.get_mut(&self.key(deviation)) else {
                continue;
            };
            let name = self.causes.place_name(deviation.node);
            let part = hits.parts.entry(name).or_insert(PartHits {
                anomaly: deviation.anomaly,
                ns: Vec::new(),
                sum_ns: 0.0,
            });
            part.ns.push(deviation.ns);
            part.sum_ns += deviation.ns;
        }
        hits
    }

    /// Returns the causes of one slow message, with shares of its extra time.
    fn explained(
        &self,
        slow: &ExplainedMessage<'_>,
        causes: Vec<(CauseKey, f64)>,
        index: &BTreeMap<CauseKey, usize>,
    ) -> MessageCauses {
        let is_known = |it: &Deviation| self.key(it).rule.is_explained();
        let spans = self.spans(slow, index);
        MessageCauses {
            id: slow.message.id.to_string(),
            since_start_ns: slow.message.times.start_ns.saturating_sub(self.started_ns),
            latency_ns: slow.message.latency_ns(),
            deviation_ns: slow.explanation.deviation_ns,
            covered: slow.explanation.coverage(is_known),
            ahead: slow.ahead,
            causes: causes
                .into_iter()
                .filter_map(|(key, ns)| {
                    let cause = *index.get(&key)?;
                    Some(CauseTime { cause, ns })
                })
                .collect(),
            spans,
        }
    }

    /// The spans that the causes of a message are made of. One can be at two places: at its own, and at that of
    /// the messages that it received first.
    fn spans(
        &self,
        slow: &ExplainedMessage<'_>,
        index: &BTreeMap<CauseKey, usize>,
    ) -> Vec<CauseSpan> {
        let mut spans = Vec::new();
        for deviation in &slow.explanation.causes {
            let Some(&cause) = index.get(&self.key(deviation)) else {
                continue;
            };
            let own = slow.spans.iter();
            let own = own.filter(|(node, _)| *node == deviation.node);
            spans.extend(own.map(|(_, span)| CauseSpan {
                span: *span,
                cause,
                anomaly: deviation.anomaly,
            }));
        }
        spans.sort_unstable();
        spans.dedup();
        spans
    }

    /// Returns how many messages were ahead of the slow ones in the receive queue.
    fn queue_spread(&self, slow: &[ExplainedMessage<'_>]) -> QueueSpread {
        let usual = self.body.reference.mean_ahead();
        let mut ahead: Vec<u32> = slow.iter().map(|it| it.ahead).collect();
        ahead.sort_unstable();
        let deeper = ahead
            .iter()
            .filter(|ahead| f64::from(**ahead) > usual + 0.5);
        QueueSpread {
            usual,
            median: ahead.get(ahead.len() / 2).copied().unwrap_or(0),
            most: ahead.last().copied().unwrap_or(0),
            deeper: deeper.count() as u64,
        }
    }
}

/// Makes the report's entry of a cause: messages, time, examples.
fn cause_of(key: &CauseKey, hits: CauseHits, slow: &[ExplainedMessage<'_>]) -> TailCause {
    let CauseHits {
        mut messages,
        first,
        parts,
    } = hits;
    let order = order(&messages, slow.len());
    let deviation_ns = FiveNumbers::from_values(messages.iter().map(|(_, ns)| *ns).collect());
    let sum_ns = messages.iter().map(|(_, ns)| ns).sum();
    messages.sort_by(|(a, one), (b, other)| other.total_cmp(one).then(a.cmp(b)));
    let examples = messages.iter().take(EXAMPLES);
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by(|(a, one), (b, other)| {
        let by_sum = other.sum_ns.total_cmp(&one.sum_ns);
        by_sum.then_with(|| a.cmp(b))
    });
    TailCause {
        rule: key.rule.name(),
        what: key.what.clone(),
        category: key.category.map(crate::causes::Cause::name),
        role: key.role,
        messages: messages.len() as u64,
        first,
        deviation_ns,
        sum_ns,
        order,
        parts: parts
            .into_iter()
            .map(|(name, hits)| CausePart {
                name,
                anomaly: hits.anomaly,
                messages: hits.ns.len() as u64,
                deviation_ns: FiveNumbers::from_values(hits.ns),
            })
            .collect(),
        examples: examples
            .map(|(index, _)| slow[*index].message.id.to_string())
            .collect(),
        advice: key.advice(),
    }
}

/// Returns whether hit messages come one after the other more often than at random. Where that is
/// so for more than half of what is left until all would, they are bunched.
fn order(hit: &[(usize, f64)], all: usize) -> HitOrder {
    let beside = hit
        .windows(2)
        .filter(|two| two[1].0 == two[0].0 + 1)
        .count();
    let (hit, all, beside) = (hit.len() as f64, all as f64, beside as f64);
    if hit < 3.0 {
        return HitOrder::Spread;
    }
    let (share, by_chance) = (beside / (hit - 1.0), hit / all);
    if share > by_chance + (1.0 - by_chance) / 2.0 {
        HitOrder::Bunched
    } else {
        HitOrder::Spread
    }
}

/// Returns percentiles of sorted durations.
fn quantiles(sorted_ns: &[u64]) -> Vec<LatencyQuantile> {
    let Some(last) = sorted_ns.len().checked_sub(1) else {
        return Vec::new();
    };
    let rank = |share: f64| ((share * sorted_ns.len() as f64).ceil() as usize).clamp(1, last + 1);
    SHARES
        .iter()
        .map(|&share| LatencyQuantile {
            share,
            ns: sorted_ns[rank(share) - 1],
        })
        .collect()
}

/// Returns the mean; None without a value.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = values.len();
    (count > 0).then(|| values.sum::<f64>() / count as f64)
}

/// Returns the share of extra time that known causes explain: smallest and median. None if no
/// message took longer.
fn covered_share(
    slow: &[ExplainedMessage<'_>],
    explained: &[MessageCauses],
) -> Option<CoveredShare> {
    let longer = slow
        .iter()
        .zip(explained)
        .filter(|(it, _)| it.explanation.is_longer);
    let mut shares: Vec<f64> = longer.map(|(_, it)| it.covered).collect();
    shares.sort_by(f64::total_cmp);
    Some(CoveredShare {
        least: *shares.first()?,
        median: shares[shares.len() / 2],
    })
}

impl FiveNumbers {
    /// Returns minimum, quartiles and maximum of at least one value.
    pub(super) fn from_values(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * values.len() as f64) as usize;
            let last = values.len().saturating_sub(1);
            values.get(rank.min(last)).copied().unwrap_or(0.0)
        };
        Self {
            least: at(0.0),
            quarter: at(0.25),
            median: at(0.5),
            three_quarters: at(0.75),
            most: at(1.0),
        }
    }
}
