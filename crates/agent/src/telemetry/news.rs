//! Messages about deliveries to a collector: that they begin to fail, that they succeed again, and what is lost. In: the state of
//! each signal. Out: lines for the journal, when there is news.

use std::collections::BTreeMap;

use otlp::Signal;
use otlp::delivery::{DropCause, SignalState};

use crate::notify::LogPriority;

/// Next step where a collector takes nothing.
const HINT: &str = "check the collector, and [otlp] or OTEL_EXPORTER_OTLP_*: port 4318 is OTLP over HTTP, port \
    4317 is gRPC";

/// Messages that were printed last, so that only a change is printed again.
#[derive(Debug, Default)]
pub struct DeliveryNews {
    addresses: BTreeMap<Signal, String>,
    last: BTreeMap<Signal, PrintedState>,
}

/// State of a signal that was printed.
#[derive(Debug, Default)]
struct PrintedState {
    fails: bool,
    is_full: bool,
    /// Items that were dropped from a full queue before the failure.
    full_before: u64,
    refused: u64,
    remark: Option<String>,
}

impl DeliveryNews {
    /// Creates the news before anything is printed.
    pub fn new(addresses: BTreeMap<Signal, String>) -> Self {
        Self {
            addresses,
            last: BTreeMap::new(),
        }
    }

    /// Returns the messages to be printed now.
    pub fn news(&mut self, states: &BTreeMap<Signal, SignalState>) -> Vec<(LogPriority, String)> {
        let mut lines = Vec::new();
        for (signal, state) in states {
            let address = self.addresses.get(signal).map_or("", String::as_str);
            let last = self.last.entry(*signal).or_default();
            lines.extend(last.news(*signal, address, state));
        }
        lines
    }

    /// Returns the last messages: what was not delivered.
    pub fn last_news(&self, states: &BTreeMap<Signal, SignalState>) -> Vec<(LogPriority, String)> {
        let lost = states.iter().filter_map(|(signal, state)| {
            let items = state.dropped.get(&DropCause::Ended)?;
            let address = self.addresses.get(signal).map_or("", String::as_str);
            let why = state.error.as_deref().map_or("no answer yet", first_line);
            let text = format!(
                "{items} {}s not delivered to {address}: {why}\nhint: {HINT}",
                signal.item()
            );
            Some((LogPriority::Warning, text))
        });
        lost.collect()
    }
}

impl PrintedState {
    /// Returns what to print on one signal: a new error, its end, items dropped.
    fn news(
        &mut self,
        signal: Signal,
        address: &str,
        state: &SignalState,
    ) -> Vec<(LogPriority, String)> {
        let mut lines = Vec::new();
        let item = signal.item();
        let dropped = |cause| state.dropped.get(&cause).copied().unwrap_or_default();
        let refused = dropped(DropCause::Refused);
        let fails = state.error.is_some();
        if let Some(why) = state.error.as_deref().filter(|_| !self.fails) {
            let outcome = match refused > self.refused {
                true => "refused for good",
                false => "tried again",
            };
            lines.push((
                LogPriority::Warning,
                format!(
                    "cannot deliver {signal} to {address}: {}; {outcome}\nhint: {HINT}",
                    first_line(why)
                ),
            ));
        } else if self.fails && !fails {
            lines.push((LogPriority::Info, format!("{address} takes {signal} again")));
        }
        let full = dropped(DropCause::Full);
        let full_before = if fails { self.full_before } else { full };
        let is_full = full > full_before;
        if is_full && !self.is_full {
            let text = format!(
                "the queue to {address} is full: the oldest {item}s are dropped; whylat_otlp_dropped_items_total counts them\n\
                 hint: [otlp] queue_max_bytes holds more"
            );
            lines.push((LogPriority::Warning, text));
        }
        if state.remark.is_some() && state.remark != self.remark {
            let rejected = dropped(DropCause::Rejected);
            let remark = state.remark.as_deref().map_or("", first_line);
            let text = format!(
                "{address} reports on {signal}: {remark}; {rejected} {item}s rejected so far"
            );
            lines.push((LogPriority::Warning, text));
        }
        *self = Self {
            fails,
            is_full,
            full_before,
            refused,
            remark: state.remark.clone(),
        };
        lines
    }
}

/// Returns the first line of a text; hints follow it.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://a/v1/metrics";

    /// Returns the lines printed for this state.
    fn news(news: &mut DeliveryNews, state: &SignalState) -> Vec<String> {
        let lines = news.news(&BTreeMap::from([(Signal::Metrics, state.clone())]));
        lines.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_failure_a_loss_and_a_recovery_are_printed_once() {
        let addresses = BTreeMap::from([(Signal::Metrics, URL.to_owned())]);
        let mut printed = DeliveryNews::new(addresses);
        let mut state = SignalState::default();
        assert_eq!(news(&mut printed, &state), [""; 0]);
        state.error = Some("HTTP status 503\nhint: --tries".to_owned());
        let lines = news(&mut printed, &state);
        let begin =
            format!("cannot deliver metrics to {URL}: HTTP status 503; tried again\nhint: ");
        assert!(
            lines[0].starts_with(&begin) && lines.len() == 1,
            "{lines:?}"
        );
        assert!(!lines[0].contains("--tries"));
        assert_eq!(news(&mut printed, &state), [""; 0]);
        state.dropped.insert(DropCause::Full, 7);
        let lines = news(&mut printed, &state);
        assert!(lines[0].contains("is full: the oldest data points are dropped"));
        state.dropped.insert(DropCause::Full, 8);
        assert_eq!(news(&mut printed, &state), [""; 0]);
        state.error = None;
        let expected = format!("{URL} takes metrics again");
        assert_eq!(news(&mut printed, &state), [expected]);
        state.error = Some("HTTP status 503".to_owned());
        assert_eq!(news(&mut printed, &state).len(), 1, "not full yet");
        state.dropped.insert(DropCause::Ended, 3);
        let last = printed.last_news(&BTreeMap::from([(Signal::Metrics, state)]));
        assert!(last[0].1.starts_with("3 data points not delivered to "));
    }
}
