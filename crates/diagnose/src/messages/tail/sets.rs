//! The two sets of messages of a group: ordinary ones, and slow ones with their explanations.

use super::contexts::ContextTimes;
use super::explain::MessageExplanation;
use super::message::HostMessage;
use super::queueing::{QueueAhead, UsualQueue};
use super::reference::ReferenceSet;
use super::report::BandCounts;
use super::tree::{SpanId, TreeNode};

/// Messages that others are compared with.
#[derive(Default)]
pub(super) struct OrdinaryMessages {
    pub(super) judged: BandCounts,
    pub(super) reference: ReferenceSet,
    pub(super) contexts: ContextTimes,
    pub(super) ahead: UsualQueue,
}

/// Messages that are explained.
#[derive(Default)]
pub(super) struct ExplainedMessages<'a> {
    pub(super) judged: BandCounts,
    pub(super) slow: Vec<ExplainedMessage<'a>>,
    pub(super) contexts: ContextTimes,
    pub(super) ahead: Vec<QueueAhead>,
}

/// A message that was explained.
pub(super) struct ExplainedMessage<'a> {
    pub(super) message: &'a HostMessage,
    pub(super) ahead: u32,
    pub(super) explanation: MessageExplanation,
    /// The spans at the places that are its causes.
    pub(super) spans: Vec<(TreeNode, SpanId)>,
}
