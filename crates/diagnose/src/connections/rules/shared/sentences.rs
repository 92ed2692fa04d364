//! Sentences and phrases that several rules say in the same words.

use super::facts::whole;
use crate::connections::case::Case;
use crate::report::{Advice, Confidence, ConfidenceLevel, Finding, PROGRAM_TIME, UndecidedFinding};

/// Returns the harm as a part of the life: `390 ms of 784 ms (49.7 %)`. The share is that of these two numbers. Short stalls
/// are a part of the program's time.
pub(in crate::connections::rules) fn of_life(finding: &Finding) -> String {
    let subject = &finding.subject;
    if let Some(program_ns) = whole(&finding.evidence.0, PROGRAM_TIME) {
        return format!(
            "{} of the {} that the program ran ({})",
            crate::units::duration(finding.harm_ns),
            crate::units::duration(program_ns),
            crate::units::percent(crate::units::ratio_of(finding.harm_ns, program_ns))
        );
    }
    let life_ns = subject.lifetime_ns;
    let life = crate::units::duration(life_ns);
    let lifetime = match subject.connections {
        0 | 1 => life,
        number => format!(
            "the {life} of {} connections together",
            crate::units::count(number)
        ),
    };
    format!(
        "{} of {lifetime} ({})",
        crate::units::duration(finding.harm_ns),
        crate::units::percent(crate::units::ratio_of(finding.harm_ns, life_ns))
    )
}

/// Returns the sentence on time that no stage explains.
pub(in crate::connections::rules) fn outstanding(undecided: &UndecidedFinding) -> String {
    format!(
        "Data was not acknowledged for {} ({}). The recording does not show why.",
        crate::units::duration(undecided.possible_harm_ns),
        crate::units::percent(undecided.share)
    )
}

/// Makes fixes of fixed sentences.
pub(in crate::connections::rules) fn advice<const N: usize>(
    lines: [&'static str; N],
) -> Vec<Advice> {
    lines.into_iter().map(|line| Advice(line.into())).collect()
}

/// Returns high confidence for a finding that the ledger measured; lower if records were lost.
pub(in crate::connections::rules) fn direct_confidence(case: &Case, because: &str) -> Confidence {
    if case.context.given.is_capture {
        return Confidence {
            level: ConfidenceLevel::Medium,
            because: "packets show the end of every interval".to_owned(),
        };
    }
    if case.context.lost.is_empty() {
        Confidence {
            level: ConfidenceLevel::High,
            because: because.to_owned(),
        }
    } else {
        let because = format!("{because}; but records were lost");
        Confidence {
            level: ConfidenceLevel::Medium,
            because,
        }
    }
}
