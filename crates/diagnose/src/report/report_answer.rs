//! The answer of a report: text, page and JSON take it from here.

use super::finding::SLEPT_BETWEEN;
use super::severity::LEAST_HARM_NS;
use super::{Finding, Receive, Report, RuleId, Severity, SlowMessages, UndecidedFinding};
use crate::imports::ImportedTrace;

/// The answer of a report, which its first sentence gives.
#[derive(Debug, Clone, Copy)]
pub enum ReportAnswer<'a> {
    /// A trace of another tool: it is listed, not judged.
    Imported(&'a ImportedTrace),
    /// The worst problem.
    Problem(&'a Finding),
    /// The slow messages that cost most.
    SlowMessages(&'a SlowMessages),
    /// No problem was found, but there may be this one.
    Undecided(&'a UndecidedFinding),
    /// Nothing is wrong at this end: requests wait for the other end.
    OtherEnd(&'a Finding),
    /// No TCP connection was seen.
    NoConnection,
    /// Nothing is wrong with the only connection, which received and sent nothing.
    OnlyReceived(&'a Receive),
    /// Nothing is wrong: the path limited the rate.
    PathLimited(&'a Finding),
    /// Nothing is wrong: the qdisc or the device of this host limited the rate.
    LocalQueue(&'a Finding),
    /// Nothing is wrong: a client sleeps between its requests.
    ClientPace(&'a Finding),
    /// Nothing is wrong.
    NoProblem,
}

impl<'a> ReportAnswer<'a> {
    /// Returns the finding that the answer speaks of.
    pub fn finding(self) -> Option<&'a Finding> {
        match self {
            Self::Problem(found)
            | Self::OtherEnd(found)
            | Self::PathLimited(found)
            | Self::LocalQueue(found)
            | Self::ClientPace(found) => Some(found),
            _ => None,
        }
    }
}

impl Report {
    /// Returns what the report answers first.
    pub fn answer(&self) -> ReportAnswer<'_> {
        let worst = self.findings.first().filter(|it| !it.is_note());
        let mut undecided = self.undecided.iter();
        let doubt = undecided.find(|it| !it.is_minor());
        match (worst, doubt) {
            _ if let Some(trace) = &self.imported => ReportAnswer::Imported(trace),
            (Some(worst), _) => ReportAnswer::Problem(worst),
            _ if let Some(slow) = self.costly_messages().next() => ReportAnswer::SlowMessages(slow),
            (_, Some(doubt)) => ReportAnswer::Undecided(doubt),
            _ if let Some(waits) = self.other_end() => ReportAnswer::OtherEnd(waits),
            _ if self.connections.is_empty() => ReportAnswer::NoConnection,
            _ if let Some(receive) = self.only_received() => ReportAnswer::OnlyReceived(receive),
            _ if let Some(path) = self.first_of(RuleId::PathLimited) => {
                ReportAnswer::PathLimited(path)
            }
            _ if let Some(queue) = self.first_of(RuleId::LocalQueue) => {
                ReportAnswer::LocalQueue(queue)
            }
            _ if let Some(pace) = self.find_pace() => ReportAnswer::ClientPace(pace),
            _ => ReportAnswer::NoProblem,
        }
    }

    /// Returns the slow messages that are a warning, worst first.
    pub fn costly_messages(&self) -> impl Iterator<Item = &SlowMessages> {
        let slow = self.slow_messages.iter().flatten();
        slow.filter(|it| it.severity > Severity::Info)
    }

    /// Marks the finding that the report answers with, once all is known.
    pub(crate) fn mark_answer(&mut self) {
        let answer = self.answer().finding().map(std::ptr::from_ref);
        for finding in &mut self.findings {
            finding.is_answer = answer == Some(std::ptr::from_ref(finding));
        }
    }

    /// Returns the finding that requests of the first service wait for the other end: if that is most of their time, and most of
    /// them take as long as the shortest stall that Linux makes on purpose, or longer.
    fn other_end(&self) -> Option<&Finding> {
        let first = self.requests.as_ref()?.services.first()?;
        let is_slow = first.duration_ns.p50 >= LEAST_HARM_NS;
        let mut findings = self.findings.iter().filter(|_| is_slow);
        findings.find(|it| {
            let subject = it.subject.requests.as_ref();
            let is_of_first = subject.is_some_and(|of| of.address == first.address);
            it.rule == RuleId::RemoteSlow && it.share > 0.5 && is_of_first
        })
    }

    /// Returns the finding that a client sleeps between its requests.
    fn find_pace(&self) -> Option<&Finding> {
        let mut findings = self.findings.iter();
        findings.find(|it| it.evidence.0.iter().any(|fact| fact.name == SLEPT_BETWEEN))
    }

    /// Returns what the only connection received, if it sent nothing.
    fn only_received(&self) -> Option<&Receive> {
        match self.connections.as_slice() {
            [only] if only.sent_nothing => only.receive.as_ref(),
            _ => None,
        }
    }

    /// Returns the first finding of a rule.
    fn first_of(&self, rule: RuleId) -> Option<&Finding> {
        let mut findings = self.findings.iter();
        findings.find(|it| it.rule == rule)
    }
}
