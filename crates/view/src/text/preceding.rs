//! The sends, receives and counters that precede slow waits: one sentence for each association, and one where nothing is
//! known.

use diagnose::units::{count, duration, format_bytes, percent, pluralize, quantity};
use diagnose::waits::join::report::{FactorAssociation, FactorKind, FactorReport, Preceding};

use crate::layout::TextLayout;

/// Draws the sentences on calls before slow waits. `longer_than_ns`: the filter's limit for slow
/// waits.
pub fn draw(
    layout: &mut TextLayout,
    label: usize,
    preceding: &Preceding,
    longer_than_ns: Option<u64>,
) {
    let condition = match longer_than_ns {
        Some(ns) => format!("> {}", duration(ns)),
        None => format!("≥ {}", duration(preceding.slow_from_ns)),
    };
    let sentences = list_sentences(preceding, &condition);
    for (index, text) in sentences.iter().enumerate() {
        layout.entry(4, if index == 0 { "before" } else { "" }, label, text);
    }
}

/// Returns one sentence for each association. `condition`: which waits are slow.
fn list_sentences(preceding: &Preceding, condition: &str) -> Vec<String> {
    let associated = preceding.factors.iter().filter_map(|factor| {
        let association = factor.association.as_ref()?;
        Some(association_sentence(
            preceding,
            factor,
            association,
            condition,
        ))
    });
    let mut sentences: Vec<String> = associated.collect();
    sentences.extend(unknown_sends(preceding));
    if preceding.counter_values_left_out > 0 {
        sentences.push(format!(
            "ignored: {} of counters after the first 64",
            quantity(preceding.counter_values_left_out, "value")
        ));
    }
    sentences
}

/// Returns how much more often slow waits follow a condition than fast ones.
fn association_sentence(
    preceding: &Preceding,
    factor: &FactorReport,
    association: &FactorAssociation,
    condition: &str,
) -> String {
    let of = (factor.slow_of, factor.fast_of);
    let waits = match of == (preceding.slow, preceding.fast) {
        true => "waits",
        false => "waits on connections",
    };
    let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
    let mut text = format!(
        "{} of {waits} {condition} {} (shorter waits: {})",
        share(association.slow, factor.slow_known),
        describe_relation(&factor.what, association),
        share(association.fast, factor.fast_known)
    );
    let known = (factor.slow_known, factor.fast_known);
    if known != of {
        text += &format!(
            "; recorded for {} of {} slow and {} of {} shorter waits",
            count(known.0),
            count(of.0),
            count(known.1),
            count(of.1)
        );
    }
    text
}

/// Returns the text on the relation between waits and a value.
fn describe_relation(what: &FactorKind, association: &FactorAssociation) -> String {
    let from_on = |value: String| match association.is_low() {
        true => format!("≤ {value}"),
        false => format!("≥ {value}"),
    };
    match what {
        FactorKind::SendBytes => format!(
            "follow a send of {}",
            from_on(format_bytes(association.value as u64))
        ),
        FactorKind::ReceiveBytes => format!(
            "follow a receive of {}",
            from_on(format_bytes(association.value as u64))
        ),
        FactorKind::SendsSinceReceive => {
            sends_since(association.value as u64, association.is_low())
        }
        FactorKind::Counter {
            name, unit, change, ..
        } => {
            let name = name.as_deref().unwrap_or("(its name was lost)");
            let unit = unit
                .as_ref()
                .map_or(String::new(), |unit| format!(" {unit}"));
            let value = from_on(format!("{}{unit}", association.value));
            match change {
                false => format!("have counter `{name}` {value}"),
                true => format!("have a last change of counter `{name}` {value}"),
            }
        }
    }
}

/// Returns the condition on the number of sends since the last receive.
fn sends_since(sends: u64, is_low: bool) -> String {
    let number = match (sends, is_low) {
        (0, true) => return "follow a receive without a later send".to_owned(),
        (_, true) => pluralize(&format!("≤ {} send(s)", count(sends)), sends),
        (_, false) => pluralize(&format!("≥ {} send(s)", count(sends)), 2),
    };
    format!("follow {number} since the last receive")
}

/// Returns that no send before the waits on a connection is known, if so.
fn unknown_sends(preceding: &Preceding) -> Option<String> {
    let sends = preceding
        .factors
        .iter()
        .find(|it| it.what == FactorKind::SendBytes)?;
    let both = sends.slow_of > 0 && sends.fast_of > 0;
    (both && (sends.slow_known == 0 || sends.fast_known == 0)).then(|| {
        format!(
            "unknown whether slow waits follow small sends: sends recorded before {} of {} slow and {} of {} shorter \
             waits",
            count(sends.slow_known),
            count(sends.slow_of),
            count(sends.fast_known),
            count(sends.fast_of)
        )
    })
}
