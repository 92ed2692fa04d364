//! Draws what distinguishes the slowest requests of a service from the others.

use diagnose::requests::contrast_report::{
    Contrast, ContrastPart, ContrastTrait, TraitKind, TraitValue,
};
use diagnose::requests::functions::ShareBounds;
use diagnose::units::{count, duration, format_bytes, quantity};

use super::parts::LABEL;
use crate::layout::TextLayout;

/// Parts that are named.
const PARTS: usize = 3;

/// Traits that are named: JSON has all.
const TRAITS: usize = 6;

/// Draws what slow requests have in common.
pub fn draw(layout: &mut TextLayout, contrast: &Contrast) {
    let text = format!(
        "{} of {} or longer took {} more than others, on average",
        quantity(contrast.slow, "request"),
        duration(contrast.slow_from_ns),
        duration(contrast.extra_ns)
    );
    layout.entry(2, "slow", LABEL, &text);
    for part in contrast.parts.iter().take(PARTS) {
        layout.entry(2, "", LABEL, &first_cause(part, contrast.compared.slow));
    }
    if let Some(why) = contrast.why_unknown {
        let text = format!("other differences are unknown: {why}");
        return layout.entry(2, "", LABEL, &text);
    }
    for it in contrast.traits.iter().take(TRAITS) {
        layout.entry(2, "", LABEL, &trait_sentence(it));
    }
    if contrast.traits.is_empty() {
        layout.entry(2, "", LABEL, "nothing else differs beyond chance");
    }
}

/// Returns how many slow requests a part delayed most, and by how much.
fn first_cause(part: &ContrastPart, slow: u64) -> String {
    format!(
        "{}: first cause of {} of {} ({}), {} more on average",
        part.part.text(),
        count(part.requests),
        count(slow),
        format_bounds(&part.share),
        duration(part.extra_ns)
    )
}

/// Returns which requests have the trait: share of slow ones, share of others.
fn trait_sentence(it: &ContrastTrait) -> String {
    let samples = match it.what {
        TraitKind::Function => " of samples",
        _ => "",
    };
    format!(
        "{}: {:.0} %{samples} ({}), others {:.0} % ({})",
        title(it),
        it.slow_share.share * 100.0,
        format_bounds(&it.slow_share),
        it.others_share.share * 100.0,
        format_bounds(&it.others_share)
    )
}

/// Returns the title of a trait that slow requests have more often.
fn title(it: &ContrastTrait) -> String {
    let number = |number: u64| match it.what {
        TraitKind::RequestBytes => format!("{} in the request", format_bytes(number)),
        TraitKind::ResponseBytes => format!("{} in the response", format_bytes(number)),
        TraitKind::Behind => format!("behind {}", quantity(number, "other")),
        _ => quantity(number, "call"),
    };
    match &it.value {
        TraitValue::AtMost(most) => format!("at most {}", number(*most)),
        TraitValue::AtLeast(least) => format!("at least {}", number(*least)),
        TraitValue::Name(name) => match it.what {
            TraitKind::Peer => format!("other end {name}"),
            TraitKind::Process => format!("process {name}"),
            TraitKind::Thread => format!("thread {name}"),
            TraitKind::Function => format!("computing {name}"),
            _ => name.clone(),
        },
    }
}

/// The 95 % bounds of a share.
fn format_bounds(share: &ShareBounds) -> String {
    format!("{:.0}–{:.0} %", share.low * 100.0, share.high * 100.0)
}
