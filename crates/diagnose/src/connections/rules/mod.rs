//! The rules: one file each, listed in `report/rule_id.rs`. A rule looks at one connection and says that
//! it fires, that it is quiet, or that the recording does not show it; findings of many connections
//! are put together afterwards.
//!
//! A rule fires on harm, and names what it excluded. Its page is `docs/findings/NAME.md`.

mod burst_after_idle;
mod cork_delay;
mod cpu_contention;
mod delayed_ack;
mod delayed_ack_after_timeout;
mod fast_retransmits;
mod incast;
mod listen_overflow;
mod local_queue;
mod nagle_delayed_ack;
mod packet_dropped_here;
mod path_limited;
mod path_mtu;
mod proxy_stall;
mod receive_buffer_limited;
mod reset_by_us;
mod retransmit_timeouts;
mod rule;
mod send_buffer_exceeds_window;
mod send_buffer_limited;
mod sender_app_limited;
mod shared;
mod slow_reader;
mod small_io;
mod small_writes;
mod softirq_delay;
mod spurious_retransmits;
mod syn_retries;
mod thin_stream_timeouts;
mod zerocopy_copied;

use crate::report::{RuleId, for_each_rule};

pub use rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};

macro_rules! declare_rules {
    ($($name:ident::$rule:ident),+ $(,)?) => {
        /// All rules, in the order in which they judge a connection.
        pub const RULES: &[&dyn Rule] = &[$(&$name::$rule),+];
    };
}
for_each_rule!(declare_rules);

/// Returns the rules that answer a question, in the order in which they judge: see [`Rule::is_answer`].
pub fn answer_rules() -> impl Iterator<Item = RuleId> {
    let answers = RULES.iter().filter(|rule| rule.is_answer());
    answers.map(|rule| rule.id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::finding::FactList;
    use crate::report::{
        Confidence, ConfidenceLevel, DataDirection, Finding, FindingSubject, Severity,
    };
    use crate::units::{percent, ratio_of};

    /// Makes a warning of a rule with this harm and number of connections.
    fn finding(rule: &dyn Rule, harm_ns: u64, connections: u64) -> Finding {
        Finding {
            rule: rule.id(),
            severity: Severity::Warning,
            is_answer: false,
            headline: String::new(),
            subject: FindingSubject {
                process: None,
                local: "10.0.0.1:1".into(),
                remote: "10.0.0.2:2".into(),
                connections,
                ids: vec![1],
                lifetime_ns: 784_000_000,
                requests: None,
            },
            direction: DataDirection::Sending,
            from_ns: 0,
            until_ns: 0,
            share: 0.993,
            harm_ns,
            involved: Vec::new(),
            threads: std::collections::BTreeSet::new(),
            evidence: FactList(Vec::new()),
            ruled_out: Vec::new(),
            could_not_see: Vec::new(),
            advice: Vec::new(),
            estimated_win: None,
            confidence: Confidence {
                level: ConfidenceLevel::High,
                because: String::new(),
            },
        }
    }

    #[test]
    fn headline_share_matches_its_numbers() {
        let mut with_share = 0;
        for rule in RULES {
            for harm_ns in [1_000, 78_400_000, 390_000_000, 784_000_000] {
                let headline = rule.headline(&finding(*rule, harm_ns, 1));
                let shares = headline.rsplit_once('(');
                let Some((before, inside)) = shares.filter(|(_, inside)| inside.ends_with("%)."))
                else {
                    continue;
                };
                with_share += 1;
                let printed = percent(ratio_of(harm_ns, 784_000_000));
                assert!(inside.starts_with(&printed), "{headline}");
                assert!(before.contains(" of 784 ms "), "{headline}");
            }
        }
        assert!(with_share >= 4 * 13, "{with_share}");
    }

    #[test]
    fn headline_names_the_number_of_connections() {
        let headline =
            slow_reader::SlowReader.headline(&finding(&slow_reader::SlowReader, 390_000_000, 12));
        assert!(
            headline.ends_with("cost 390 ms of the 784 ms of 12 connections together (49.7 %)."),
            "{headline}"
        );
    }
}
