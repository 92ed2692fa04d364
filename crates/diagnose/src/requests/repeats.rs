//! Requests over UDP with questions that were asked again: they, or their answers, may have been lost.

use super::datagrams::RepeatedQuestions;
use super::endpoint::EndpointId;

/// Requests that are kept of a service; more are counted.
const KEPT_MOST: usize = 1 << 16;

/// A request with questions that were asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatedRequest {
    /// Its flow.
    pub endpoint: EndpointId,
    /// When it began.
    pub begin_ns: u64,
    /// Its questions.
    pub again: RepeatedQuestions,
}

/// Requests of a service with questions that were asked again.
#[derive(Debug, Default)]
pub struct RepeatDigest {
    /// The first ones.
    pub kept: Vec<RepeatedRequest>,
    /// How many, those that are not kept included.
    pub requests: u64,
    /// Questions that were asked again, of all.
    pub questions: u64,
}

impl RepeatDigest {
    /// Adds a request if one of its questions was repeated.
    pub fn add(&mut self, endpoint: EndpointId, begin_ns: u64, again: RepeatedQuestions) {
        if again.count == 0 {
            return;
        }
        self.requests += 1;
        self.questions += again.count;
        if self.kept.len() < KEPT_MOST {
            self.kept.push(RepeatedRequest {
                endpoint,
                begin_ns,
                again,
            });
        }
    }
}

impl RepeatedRequest {
    /// Returns the time until the last question was repeated, ns.
    pub fn lost_ns(&self) -> u64 {
        self.again.last_ns.saturating_sub(self.begin_ns)
    }
}
