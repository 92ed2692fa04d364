//! The numbers that rules give as evidence, and how to read them again.

use crate::connections::case::Case;
use crate::connections::gather::calls::CallDigest;
use crate::report::{Fact, FactMerge, FactUnit, FactValue};

/// A count, added up over connections.
pub(in crate::connections::rules) fn sum(
    name: &'static str,
    value: u64,
    label: &'static str,
) -> Fact {
    Fact {
        name,
        value: FactValue::Whole(value),
        unit: FactUnit::Count,
        label,
        merge: FactMerge::Sum,
    }
}

/// A duration, added up over connections.
pub(in crate::connections::rules) fn total_ns(
    name: &'static str,
    value_ns: u64,
    label: &'static str,
) -> Fact {
    Fact {
        name,
        value: FactValue::Whole(value_ns),
        unit: FactUnit::Ns,
        label,
        merge: FactMerge::Sum,
    }
}

/// Makes the fact of a duration; of several connections the longest counts.
pub(in crate::connections::rules) fn longest_ns(
    name: &'static str,
    value_ns: u64,
    label: &'static str,
) -> Fact {
    Fact {
        name,
        value: FactValue::Whole(value_ns),
        unit: FactUnit::Ns,
        label,
        merge: FactMerge::Max,
    }
}

/// A number of the worst connection.
pub(in crate::connections::rules) fn worst(
    name: &'static str,
    value: FactValue,
    unit: FactUnit,
    label: &'static str,
) -> Fact {
    Fact {
        name,
        value,
        unit,
        label,
        merge: FactMerge::Worst,
    }
}

/// Returns a whole number of the worst connection, if known.
pub(in crate::connections::rules) fn known(
    name: &'static str,
    value: Option<u64>,
    unit: FactUnit,
    label: &'static str,
) -> Option<Fact> {
    value.map(|value| worst(name, FactValue::Whole(value), unit, label))
}

/// Makes a fact in bytes of the worst connection; `None` if the bytes are unknown.
pub(in crate::connections::rules) fn known_bytes(
    name: &'static str,
    value: Option<u64>,
    label: &'static str,
) -> Option<Fact> {
    known(name, value, FactUnit::Bytes, label)
}

/// Returns yes or no for the worst connection, if known.
pub(in crate::connections::rules) fn known_flag(
    name: &'static str,
    value: Option<bool>,
    label: &'static str,
) -> Option<Fact> {
    value.map(|value| worst(name, FactValue::Is(value), FactUnit::Flag, label))
}

/// Makes the fact of a share or rate of the worst connection; `None` if it is unknown.
pub(in crate::connections::rules) fn known_real(
    name: &'static str,
    value: Option<f64>,
    unit: FactUnit,
    label: &'static str,
) -> Option<Fact> {
    value.map(|value| worst(name, FactValue::Real(value), unit, label))
}

/// Makes the fact of the path's min RTT; `None` if it is unknown.
pub(in crate::connections::rules) fn min_rtt(case: &Case) -> Option<Fact> {
    let rtt_ns = case
        .own
        .gathered
        .samples
        .min_rtt_us
        .map(|us| u64::from(us) * 1_000);
    known("min_rtt_ns", rtt_ns, FactUnit::Ns, "min RTT of the path")
}

/// Returns the value of the fact with this name, if it is a whole number.
pub(in crate::connections::rules) fn whole(facts: &[Fact], name: &str) -> Option<u64> {
    facts
        .iter()
        .find(|fact| fact.name == name)
        .and_then(|fact| match fact.value {
            FactValue::Whole(value) => Some(value),
            _ => None,
        })
}

/// Returns the value of the fact with this name, if it is a share, a rate or a mean.
pub(in crate::connections::rules) fn real(facts: &[Fact], name: &str) -> Option<f64> {
    facts
        .iter()
        .find(|fact| fact.name == name)
        .and_then(|fact| match fact.value {
            FactValue::Real(value) => Some(value),
            _ => None,
        })
}

/// Returns the pattern of the calls: size of writes, writes per read.
pub(in crate::connections::rules) fn pattern(case: &Case) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(mean_bytes) = case.mean_send_bytes() {
        let value = FactValue::Whole(mean_bytes.round() as u64);
        facts.push(worst(
            "mean_write_bytes",
            value,
            FactUnit::Bytes,
            "average write",
        ));
    }
    let calls = case.own.calls;
    if let Some(ratio) = calls.and_then(CallDigest::sends_per_receive) {
        facts.push(worst(
            "writes_per_read",
            FactValue::Real(ratio),
            FactUnit::Ratio,
            "writes for each read",
        ));
    }
    facts
}
