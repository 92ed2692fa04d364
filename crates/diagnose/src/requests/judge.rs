//! Asks every rule about each service and about programs, and makes findings of what they say, worst first.

use super::case::{PartClaim, ServiceCase};
use super::digests::DigestSet;
use super::evidence::RequestEvidence;
use super::nesting::ServiceNesting;
use super::request_table::RequestTable;
use super::rules::shared::time_fact;
use super::rules::{
    ProgramVerdict, REQUEST_RULES, Remedy, RequestFinding, RequestRule, RequestVerdict,
};
use super::service::Side;
use crate::report::finding::FactList;
use crate::report::severity::{
    EXPLAINS_LEAST, is_short, severity, severity_of_share, severity_within,
};
use crate::report::{
    DataDirection, EstimatedWin, Finding, FindingSubject, RuleDoubt, Severity, UndecidedFinding,
};
use crate::rows::windows::RULES_NOT_ASKED;
use crate::units::{count, ratio_of};

/// A cause that cannot be avoided has to explain most of what the slowest requests took longer.
const EXPLAINS_MOST: f64 = 0.5;

/// Below this a gain is no estimate: it is within what two runs of the same work differ.
const LEAST_WIN: f64 = 1.05;

/// Findings of the rules on requests.
#[derive(Debug, Default)]
pub struct RequestFindings {
    /// Findings.
    pub findings: Vec<Finding>,
    /// Problems with a cause that the recording does not show.
    pub undecided: Vec<UndecidedFinding>,
}

impl RequestTable {
    /// Returns the findings of all rules, after [`RequestTable::finish`].
    pub(crate) fn judge_requests(&self, digests: &DigestSet) -> RequestFindings {
        evaluate_rules(&RequestEvidence::new(self, digests))
    }
}

/// Runs all rules on requests, and returns findings and undecided findings.
fn evaluate_rules(evidence: &RequestEvidence<'_>) -> RequestFindings {
    let mut found = RequestFindings::default();
    let nesting = ServiceNesting::find(evidence.table);
    let is_asked = |rule: &&&dyn RequestRule| {
        !(evidence.has_windows() && RULES_NOT_ASKED.contains(&rule.id().name()))
    };
    for mut case in evidence.services() {
        let outer_ns = nesting.outer_ns(evidence.table, case.id);
        for rule in REQUEST_RULES.iter().filter(is_asked) {
            judge_service(*rule, (&mut case, outer_ns), &mut found);
        }
    }
    for rule in REQUEST_RULES.iter().filter(is_asked) {
        for program in rule.check_programs(evidence) {
            let ProgramVerdict {
                subject,
                time,
                verdict,
            } = program;
            found.add(*rule, evidence, (subject, time, 0), verdict);
        }
    }
    found
}

/// Runs one rule on a service; a finding claims its parts from later rules. `outer_ns`: time of the requests that
/// contain those of the service.
fn judge_service(
    rule: &dyn RequestRule,
    (case, outer_ns): (&mut ServiceCase<'_>, u64),
    found: &mut RequestFindings,
) {
    let verdict = rule.check(case);
    let parts = match &verdict {
        RequestVerdict::Quiet => return,
        RequestVerdict::Fires(fired) => fired.parts.clone(),
        RequestVerdict::Inconclusive(..) => Vec::new(),
    };
    let time = case.digest.time.unwrap_or_default();
    let evidence = case.evidence;
    found.add(rule, evidence, (case.subject(), time, outer_ns), verdict);
    let rule = rule.id();
    let latest = found.findings.last();
    if latest.is_some_and(|it| it.rule == rule && !it.is_note()) {
        case.claims.push(PartClaim { rule, parts });
    }
}

impl RequestFindings {
    /// Adds a rule's verdict: a finding, an undecided one, or nothing.
    fn add(
        &mut self,
        rule: &dyn RequestRule,
        evidence: &RequestEvidence<'_>,
        (subject, time, outer_ns): (FindingSubject, (u64, u64), u64),
        verdict: RequestVerdict,
    ) {
        match verdict {
            RequestVerdict::Quiet => {}
            RequestVerdict::Fires(fired) => {
                let found = finding(rule, evidence, (subject, time, outer_ns), *fired);
                self.findings.push(found);
            }
            RequestVerdict::Inconclusive(headline, doubt) => self
                .undecided
                .push(undecided_finding(subject, headline, *doubt)),
        }
    }
}

/// Label of the time by which a finding's harm is weighed, where that makes it another severity than the service's own time.
const OUTER_LABEL: &str = "time of the requests that contain these";

/// Label of the time by which losses are weighed that are short in each request, where that makes it another severity.
const SPAN_LABEL: &str = "from the first request to the end of the last";

fn finding(
    rule: &dyn RequestRule,
    evidence: &RequestEvidence<'_>,
    (subject, time, outer_ns): (FindingSubject, (u64, u64), u64),
    mut fired: RequestFinding,
) -> Finding {
    let total_ns = fired.whole_ns;
    let subject = FindingSubject {
        lifetime_ns: total_ns,
        ..subject
    };
    let lost = evidence.losses().iter();
    let lost = lost.map(|(probe, lost)| format!("{} records of {probe} were lost.", count(*lost)));
    let could_not_see = fired.could_not_see.iter().cloned().chain(lost);
    let span_ns = time.1.saturating_sub(time.0);
    let severity = severity_of(&fired, total_ns.max(outer_ns), span_ns);
    let mut facts = std::mem::take(&mut fired.facts);
    if severity < severity_of(&fired, total_ns.max(outer_ns), 0) {
        facts.push(time_fact("span_ns", span_ns, SPAN_LABEL));
    }
    if severity != severity_of(&fired, total_ns, span_ns) {
        facts.push(time_fact("outer_requests_ns", outer_ns, OUTER_LABEL));
    }
    Finding {
        rule: rule.id(),
        severity,
        direction: fired.direction.unwrap_or_else(|| data_direction(&subject)),
        from_ns: time.0,
        until_ns: time.1,
        share: fired
            .lost_share
            .unwrap_or_else(|| ratio_of(fired.harm_ns, total_ns).min(1.0)),
        harm_ns: fired.harm_ns,
        could_not_see: could_not_see.collect(),
        estimated_win: estimate_win(&fired, total_ns),
        is_answer: false,
        headline: fired.headline,
        involved: fired.involved,
        threads: fired.threads,
        evidence: FactList(facts),
        ruled_out: fired.ruled_out,
        advice: fired.advice,
        confidence: fired.confidence,
        subject,
    }
}

/// Returns the severity by harm, as of connections: against the time of all requests instead of a life. Where the requests that
/// contain these are recorded, too, their time counts. `span_ns`: from the first request to the end of the last.
fn severity_of(fired: &RequestFinding, total_ns: u64, span_ns: u64) -> Severity {
    if let Some(share) = fired.lost_share {
        return severity_of_share(share);
    }
    let of_time = ratio_of(fired.harm_ns, total_ns);
    // what the slowest took longer is as small a part of the outer requests
    let of_slowest = fired.excess_share * ratio_of(fired.whole_ns, total_ns);
    match fired.remedy {
        Remedy::Avoidable if of_time.max(of_slowest) >= EXPLAINS_LEAST => {
            let of_requests = severity(&[(fired.harm_ns, total_ns)]);
            match is_short_each(fired) {
                true => of_requests.min(severity_of_short(fired, total_ns, span_ns)),
                false => of_requests,
            }
        }
        Remedy::Unavoidable if fired.excess_share >= EXPLAINS_MOST => {
            severity(&[(fired.excess_ns, total_ns)])
        }
        Remedy::Avoidable | Remedy::Unavoidable => Severity::Info,
    }
}

/// Returns whether requests lose too little to be a problem alone, the slowest hundredth included.
fn is_short_each(fired: &RequestFinding) -> bool {
    is_short(fired.harm_ns / fired.requests.max(1))
        && is_short(fired.excess_ns / slowest_requests(fired))
}

/// Returns how many requests are the slowest hundredth.
fn slowest_requests(fired: &RequestFinding) -> u64 {
    (fired.requests / 100).max(1)
}

/// Returns whether requests lost at most an ordinary turn of others, the slowest hundredth included, and less than most of
/// their time.
fn is_turn_each(fired: &RequestFinding, total_ns: u64) -> bool {
    fired.harm_ns <= fired.turn_ns.saturating_mul(fired.requests)
        && fired.excess_ns <= fired.turn_ns.saturating_mul(slowest_requests(fired))
        && ratio_of(fired.harm_ns, total_ns) <= EXPLAINS_MOST
}

/// Returns the most severe band of short losses: critical only if they fill most of the time, too. As of connections, who
/// looks for short requests with a large share of something finds some. Ordinary turns of others have to fill a twentieth of it.
fn severity_of_short(fired: &RequestFinding, total_ns: u64, span_ns: u64) -> Severity {
    let of_span = severity_within(&[(fired.harm_ns, span_ns)], 0);
    match is_turn_each(fired, total_ns) {
        true => of_span,
        false => of_span.max(Severity::Warning),
    }
}

/// Returns the time that is left without the harm. It is an upper bound of the gain: other work may take that time.
fn estimate_win(fired: &RequestFinding, total_ns: u64) -> Option<EstimatedWin> {
    let assumes = fired.gain?;
    let rest = 1.0 - ratio_of(fired.harm_ns, total_ns);
    // A thousandfold is the largest estimate.
    let times_faster = 1.0 / rest.clamp(0.001, 1.0);
    (times_faster >= LEAST_WIN).then_some(EstimatedWin {
        times_faster,
        at_least: false,
        at_most: true,
        assumes,
    })
}

/// Returns the direction of a service's data: a client sends, a server receives.
fn data_direction(subject: &FindingSubject) -> DataDirection {
    match subject.requests.as_ref().map(|it| it.role) {
        Some(Side::Client) => DataDirection::Receiving,
        Some(Side::Server) | None => DataDirection::Sending,
    }
}

fn undecided_finding(
    subject: FindingSubject,
    headline: String,
    doubt: RuleDoubt,
) -> UndecidedFinding {
    UndecidedFinding {
        candidates: doubt.candidates,
        headline,
        direction: data_direction(&subject),
        share: ratio_of(doubt.concerned_ns, subject.lifetime_ns).min(1.0),
        possible_harm_ns: doubt.concerned_ns,
        evidence: FactList(doubt.facts),
        why: doubt.why.to_owned(),
        would_help: doubt.would_help.map(str::to_owned).into_iter().collect(),
        subject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::LONGEST_SLICE_NS;

    const MS: u64 = 1_000_000;

    /// Makes a finding of so many requests: each lost this time, ns, which is half of its duration.
    fn lost_each(requests: u64, each_ns: u64, turn_ns: u64) -> RequestFinding {
        RequestFinding {
            requests,
            turn_ns,
            harm_ns: requests * each_ns,
            whole_ns: 2 * requests * each_ns,
            remedy: Remedy::Avoidable,
            ..RequestFinding::without_harm()
        }
    }

    fn severity_in(fired: &RequestFinding, span_ns: u64) -> Severity {
        severity_of(fired, fired.whole_ns - 1, span_ns)
    }

    /// The same of requests with three times as much time.
    fn severity_of_turn(fired: &RequestFinding, span_ns: u64) -> Severity {
        severity_of(fired, 3 * fired.whole_ns, span_ns)
    }

    #[test]
    fn short_losses_are_critical_only_if_they_fill_the_time() {
        let fired = lost_each(1_000, MS, 0);
        assert_eq!(severity_in(&fired, 1_500 * MS), Severity::Critical);
        assert_eq!(severity_in(&fired, 3_000 * MS), Severity::Warning);
        assert_eq!(severity_in(&fired, 100_000 * MS), Severity::Warning);
        let long = lost_each(20, 50 * MS, 0);
        assert_eq!(severity_in(&long, 100_000 * MS), Severity::Critical);
    }

    #[test]
    fn slow_requests_among_short_ones_are_critical() {
        let slowest = RequestFinding {
            excess_ns: 900 * MS,
            excess_share: 0.9,
            ..lost_each(1_000, MS, 0)
        };
        assert_eq!(severity_in(&slowest, 100_000 * MS), Severity::Critical);
    }

    #[test]
    fn ordinary_turns_of_others_have_to_fill_a_twentieth() {
        let turn = lost_each(1_000, MS, 2 * MS);
        assert_eq!(severity_of_turn(&turn, 30_000 * MS), Severity::Info);
        assert_eq!(severity_of_turn(&turn, 10_000 * MS), Severity::Warning);
        let longer = lost_each(1_000, 3 * MS, 2 * MS);
        assert_eq!(severity_of_turn(&longer, 100_000 * MS), Severity::Warning);
    }

    #[test]
    fn long_delays_of_a_few_requests_are_no_turns() {
        // a request takes 5 ms; one in ten is late by 25 ms more
        let late = RequestFinding {
            harm_ns: 100 * 25 * MS,
            whole_ns: 1_000 * 5 * MS + 100 * 25 * MS,
            excess_ns: 10 * 22 * MS,
            excess_share: 1.0,
            ..lost_each(1_000, MS, LONGEST_SLICE_NS)
        };
        assert_eq!(
            severity_of(&late, late.whole_ns, 60_000 * MS),
            Severity::Warning
        );
    }

    #[test]
    fn turns_that_are_most_of_the_requests_are_a_warning() {
        // 10 requests a second, of 1 ms each, wait 2.5 ms for a CPU
        let slow = RequestFinding {
            harm_ns: 600 * 5 * MS / 2,
            whole_ns: 600 * 7 * MS / 2,
            ..lost_each(600, MS, LONGEST_SLICE_NS)
        };
        assert_eq!(
            severity_of(&slow, slow.whole_ns, 60_000 * MS),
            Severity::Warning
        );
    }
}
