//! The rules: one file each, listed in `report/rule_id.rs`. A rule looks at one connection and says that
//! it fires, that it is quiet, or that the recording cannot tell; findings of many connections
//! are put together afterwards.
//!
//! A rule fires on harm, and names what it excluded. Its page is `docs/findings/NAME.md`.

mod burst_after_idle;
mod cpu_contention;
mod delayed_ack;
mod delayed_ack_after_timeout;
mod fast_retransmits;
mod incast;
mod listen_overflow;
mod nagle_delayed_ack;
mod path_limited;
mod proxy_stall;
mod receive_buffer_limited;
mod retransmit_timeouts;
mod send_buffer_exceeds_window;
mod send_buffer_limited;
mod sender_app_limited;
mod shared;
mod slow_reader;
mod small_writes;
mod softirq_delay;
mod spurious_retransmits;
mod syn_retries;
mod thin_stream_timeouts;

use table::Stage;

use crate::connections::case::Case;
use crate::report::{
    Advice, Confidence, Direction, Fact, Finding, Level, Merge, RuleId, RuledOut, Undecided, Unit,
    Value, for_each_rule,
};

/// What a rule says of one connection.
#[derive(Debug)]
pub enum Verdict {
    /// Not this.
    Quiet,
    /// This, with so much harm.
    Fires(Found),
    /// It may be this; the recording cannot tell.
    CannotTell(Doubt),
}

/// What a firing rule found on one connection.
#[derive(Debug)]
pub struct Found {
    /// Direction of the data concerned.
    pub direction: Direction,
    /// Time in the stages concerned, ns.
    pub concerned_ns: u64,
    /// Time that threads were blocked or data was late, ns: within the life, but for rules that
    /// count [beyond it](Rule::is_beyond_life).
    pub harm_ns: u64,
    /// The numbers that show it.
    pub facts: Vec<Fact>,
}

/// What a rule that cannot tell knows of one connection.
#[derive(Debug)]
pub struct Doubt {
    /// All rules that may apply.
    pub candidates: Vec<RuleId>,
    /// Time concerned, ns.
    pub concerned_ns: u64,
    /// The numbers that show it.
    pub facts: Vec<Fact>,
    /// Why the cause cannot be told.
    pub why: &'static str,
    /// What would tell, beside more detail.
    pub would_help: Option<&'static str>,
}

/// What a finding says beside its numbers; asked only of its worst connection.
#[derive(Debug)]
pub struct Explanation {
    /// Excluded causes.
    pub ruled_out: Vec<RuledOut>,
    /// What the recording cannot show.
    pub could_not_see: Vec<String>,
    /// What to do, best first.
    pub advice: Vec<Advice>,
    /// What it may bring.
    pub win: WinBasis,
    /// How sure it is.
    pub confidence: Confidence,
}

/// How the win is estimated.
#[derive(Debug)]
pub enum WinBasis {
    /// All of the harm goes away.
    HarmGone(&'static str),
    /// At least as the harm promises, and no more than so many times is sure: what grew in spite of it
    /// may grow further.
    AtLeast(f64, &'static str),
    /// It cannot be estimated.
    Unknown,
}

/// One rule.
pub trait Rule: Sync {
    /// Returns its name in the list of all rules.
    fn id(&self) -> RuleId;
    /// What it finds, in one line.
    fn summary(&self) -> &'static str;
    /// Whether it looks at listening sockets, instead of connections.
    fn is_of_listeners(&self) -> bool {
        false
    }
    /// Whether its harm lies outside of the life of what it looks at: before it, or with clients.
    fn is_beyond_life(&self) -> bool {
        false
    }
    /// Whether it names what caused losses, so that rules that speak of loss in general are quiet.
    fn names_cause_of_loss(&self) -> bool {
        false
    }
    /// The stages in which its harm lies: they tell when. None if it lies in no stage.
    fn stages(&self) -> &'static [Stage] {
        &[]
    }
    /// From when to when it did harm, `CLOCK_MONOTONIC` ns.
    fn when(&self, case: &Case) -> (u64, u64) {
        case.when(self.stages())
    }
    /// Looks at one connection.
    fn check(&self, case: &Case) -> Verdict;
    /// Explains a finding by its worst connection.
    fn explain(&self, case: &Case) -> Explanation;
    /// One sentence for the finding.
    fn headline(&self, finding: &Finding) -> String;
    /// One sentence for what it cannot tell.
    fn doubt(&self, undecided: &Undecided) -> String {
        format!(
            "{} may be lost; the recording cannot tell to what.",
            crate::units::duration(undecided.possible_harm_ns)
        )
    }
}

macro_rules! declare_rules {
    ($($name:ident::$rule:ident),+ $(,)?) => {
        /// All rules, in the order in which they judge a connection.
        pub const RULES: &[&dyn Rule] = &[$(&$name::$rule),+];

        /// Returns the rule of this name.
        pub(crate) fn rule(id: RuleId) -> &'static dyn Rule {
            match id {
                $(RuleId::$rule => &$name::$rule,)+
            }
        }
    };
}
for_each_rule!(declare_rules);

/// Rules that answer a question, what sets the pace or where memory lies, and accuse nobody: always
/// `info`.
pub const ANSWERS: [RuleId; 3] = [
    RuleId::PathLimited,
    RuleId::SendBufferExceedsWindow,
    RuleId::SenderAppLimited,
];

/// What the harm takes of the life: `390 ms of 784 ms (49.7 %)`. The share is that of these two numbers.
fn of_life(finding: &Finding) -> String {
    let subject = &finding.subject;
    let life_ns = subject.lifetime_ns;
    let life = crate::units::duration(life_ns);
    let whose = match subject.connections {
        0 | 1 => life,
        number => format!(
            "the {life} of {} connections together",
            crate::units::count(number)
        ),
    };
    format!(
        "{} of {whose} ({})",
        crate::units::duration(finding.harm_ns),
        crate::units::percent(crate::units::part(finding.harm_ns, life_ns))
    )
}

/// One sentence for time that no stage explains.
fn outstanding(undecided: &Undecided) -> String {
    format!(
        "Data was outstanding for {} ({}) and nothing says what it waited for.",
        crate::units::duration(undecided.possible_harm_ns),
        crate::units::percent(undecided.share)
    )
}

/// A count, added up over connections.
fn sum(name: &'static str, value: u64, label: &'static str) -> Fact {
    Fact {
        name,
        value: Value::Whole(value),
        unit: Unit::Count,
        label,
        merge: Merge::Sum,
    }
}

/// A duration, added up over connections.
fn total_ns(name: &'static str, value_ns: u64, label: &'static str) -> Fact {
    Fact {
        name,
        value: Value::Whole(value_ns),
        unit: Unit::Ns,
        label,
        merge: Merge::Sum,
    }
}

/// A duration of which the longest is kept.
fn longest_ns(name: &'static str, value_ns: u64, label: &'static str) -> Fact {
    Fact {
        name,
        value: Value::Whole(value_ns),
        unit: Unit::Ns,
        label,
        merge: Merge::Max,
    }
}

/// A number of the worst connection.
fn worst(name: &'static str, value: Value, unit: Unit, label: &'static str) -> Fact {
    Fact {
        name,
        value,
        unit,
        label,
        merge: Merge::Worst,
    }
}

/// Whole number of the worst connection, where it is known.
fn known(name: &'static str, value: Option<u64>, unit: Unit, label: &'static str) -> Option<Fact> {
    value.map(|value| worst(name, Value::Whole(value), unit, label))
}

/// Bytes of the worst connection, where they are known.
fn known_bytes(name: &'static str, value: Option<u64>, label: &'static str) -> Option<Fact> {
    known(name, value, Unit::Bytes, label)
}

/// Yes or no for the worst connection, where it is known.
fn known_flag(name: &'static str, value: Option<bool>, label: &'static str) -> Option<Fact> {
    value.map(|value| worst(name, Value::Is(value), Unit::Flag, label))
}

/// Share or rate of the worst connection, where it is known.
fn known_real(
    name: &'static str,
    value: Option<f64>,
    unit: Unit,
    label: &'static str,
) -> Option<Fact> {
    value.map(|value| worst(name, Value::Real(value), unit, label))
}

/// Least round-trip time of the path, where it is known.
fn min_rtt(case: &Case) -> Option<Fact> {
    let rtt_ns = case
        .own
        .gathered
        .samples
        .min_rtt_us
        .map(|us| u64::from(us) * 1_000);
    known(
        "min_rtt_ns",
        rtt_ns,
        Unit::Ns,
        "least round-trip time of the path",
    )
}

/// Value of a whole-number fact.
fn whole(facts: &[Fact], name: &str) -> Option<u64> {
    facts
        .iter()
        .find(|fact| fact.name == name)
        .and_then(|fact| match fact.value {
            Value::Whole(value) => Some(value),
            _ => None,
        })
}

/// Value of a fact that is a share, a rate or a mean.
fn real(facts: &[Fact], name: &str) -> Option<f64> {
    facts
        .iter()
        .find(|fact| fact.name == name)
        .and_then(|fact| match fact.value {
            Value::Real(value) => Some(value),
            _ => None,
        })
}

/// Advice in fixed words.
fn advice<const N: usize>(lines: [&'static str; N]) -> Vec<Advice> {
    lines.into_iter().map(|line| Advice(line.into())).collect()
}

/// Confidence of a finding that the ledger measured, lowered when records were lost.
fn measured(case: &Case, because: &str) -> Confidence {
    if case.context.lost.is_empty() {
        Confidence {
            level: Level::High,
            because: because.to_owned(),
        }
    } else {
        let because = format!("{because}; but records were lost");
        Confidence {
            level: Level::Medium,
            because,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::finding::Evidence;
    use crate::report::{Severity, Subject};
    use crate::units::{part, percent};

    fn finding(rule: &dyn Rule, harm_ns: u64, connections: u64) -> Finding {
        Finding {
            rule: rule.id(),
            severity: Severity::Warning,
            headline: String::new(),
            subject: Subject {
                process: None,
                local: "10.0.0.1:1".into(),
                remote: "10.0.0.2:2".into(),
                connections,
                ids: vec![1],
                lifetime_ns: 784_000_000,
            },
            direction: Direction::Sending,
            from_ns: 0,
            until_ns: 0,
            share: 0.993,
            harm_ns,
            evidence: Evidence(Vec::new()),
            ruled_out: Vec::new(),
            could_not_see: Vec::new(),
            advice: Vec::new(),
            estimated_win: None,
            confidence: Confidence {
                level: Level::High,
                because: String::new(),
            },
        }
    }

    #[test]
    fn the_share_that_a_headline_prints_is_that_of_its_numbers() {
        let mut with_share = 0;
        for rule in RULES {
            for harm_ns in [1_000, 78_400_000, 390_000_000, 784_000_000] {
                let headline = rule.headline(&finding(*rule, harm_ns, 1));
                let Some((before, inside)) = headline.split_once('(') else {
                    continue;
                };
                with_share += 1;
                let printed = percent(part(harm_ns, 784_000_000));
                assert!(inside.starts_with(&printed), "{headline}");
                assert!(before.contains(" of 784 ms "), "{headline}");
            }
        }
        assert!(with_share >= 4 * 13, "{with_share}");
    }

    #[test]
    fn a_headline_that_adds_up_connections_says_how_many() {
        let headline =
            slow_reader::SlowReader.headline(&finding(&slow_reader::SlowReader, 390_000_000, 12));
        assert!(
            headline.ends_with(": 390 ms of the 784 ms of 12 connections together (49.7 %)."),
            "{headline}"
        );
    }
}
