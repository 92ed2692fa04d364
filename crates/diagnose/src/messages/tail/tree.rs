//! Where the time of messages went, as a tree: core role, context, and what ran in it. All messages share one
//! tree of places; each has a time and a count at those that it observed.

use std::collections::HashMap;

use serde::Serialize;
use table::WaitObject;

use super::spans::LabelId;

/// A core's part in a message (NSight, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreRole {
    /// The core that the kernel received or sent it on.
    Receive,
    /// The core of the thread.
    Application,
}

/// A place where time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TreePlace {
    /// All of a core's part.
    Role(CoreRole),
    /// The message's own thread.
    Own,
    /// The own thread, or the kernel when it received, at another message of the program.
    OtherMessage,
    /// The kernel was at a message of another program.
    Received(LabelId),
    /// The own thread waits, and wants no CPU.
    Blocked(WaitObject),
    /// The own thread wants a CPU, and is moved from one to another.
    Moved,
    /// Another thread, the idle task, or what is not known.
    Other(LabelId),
    /// Within any of these: interrupts, softirqs, system calls, functions.
    Within(LabelId),
}

/// A place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TreeNode(u32);

/// All places, as a tree.
#[derive(Debug, Default)]
pub(super) struct PlaceTree {
    places: Vec<(Option<TreeNode>, TreePlace)>,
    nodes: HashMap<(Option<TreeNode>, TreePlace), TreeNode>,
}

/// Time of a message at a place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PlaceTime {
    pub(super) time_ns: u64,
    /// How often it began.
    pub(super) count: u32,
}

/// Times of one message at all places, and their spans.
#[derive(Debug, Default)]
pub(super) struct PlaceTimes {
    observed: Vec<PlaceTime>,
    touched: Vec<TreeNode>,
    spans: Vec<(TreeNode, SpanId)>,
}

/// Identity of a span in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId {
    /// CPU.
    pub cpu: u16,
    /// When it began.
    pub begin_ns: u64,
    /// Number of spans around it.
    pub depth: u16,
}

impl PlaceTree {
    /// Returns the node of a place within another; adds it if it is new.
    pub(super) fn child_node(&mut self, around: Option<TreeNode>, place: TreePlace) -> TreeNode {
        let next = TreeNode(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let node = *self.nodes.entry((around, place)).or_insert(next);
        if node == next {
            self.places.push((around, place));
        }
        node
    }

    /// Returns the place of a node.
    pub(super) fn place(&self, node: TreeNode) -> TreePlace {
        self.places[node.index()].1
    }

    /// Returns the node around this one; `None` at the root.
    pub(super) fn parent_node(&self, node: TreeNode) -> Option<TreeNode> {
        self.places[node.index()].0
    }

    /// Returns the role of the CPU around this node.
    pub(super) fn role(&self, node: TreeNode) -> CoreRole {
        let mut at = node;
        loop {
            match (self.place(at), self.parent_node(at)) {
                (TreePlace::Role(role), _) => return role,
                (_, Some(around)) => at = around,
                // every path begins with a role
                (_, None) => return CoreRole::Application,
            }
        }
    }
}

impl TreeNode {
    /// Returns the node's number; inner nodes have higher numbers.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl PlaceTimes {
    /// Removes all times.
    pub(super) fn clear(&mut self) {
        for node in self.touched.drain(..) {
            self.observed[node.index()] = PlaceTime::default();
        }
        self.spans.clear();
    }

    /// Adds a stay at a place.
    pub(super) fn add(&mut self, node: TreeNode, more: PlaceTime) {
        let index = node.index();
        if index >= self.observed.len() {
            self.observed.resize(index + 1, PlaceTime::default());
        }
        self.touched.push(node);
        let observed = &mut self.observed[index];
        observed.time_ns += more.time_ns;
        observed.count += more.count;
    }

    /// Adds a stay at a place, and the span that was there.
    pub(super) fn add_span(&mut self, node: TreeNode, more: PlaceTime, span: SpanId) {
        self.add(node, more);
        if more.time_ns > 0 {
            self.spans.push((node, span));
        }
    }

    /// The spans in which places were observed, each once a place.
    pub(super) fn spans(&mut self) -> &[(TreeNode, SpanId)] {
        self.spans.sort_unstable();
        self.spans.dedup();
        &self.spans
    }

    /// Takes time away that belongs elsewhere.
    pub(super) fn subtract_time(&mut self, node: TreeNode, time_ns: u64) {
        let observed = &mut self.observed[node.index()];
        observed.time_ns = observed.time_ns.saturating_sub(time_ns);
    }

    /// Returns all visited places with their times; inner places come after outer ones.
    pub(super) fn sort_places(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = (TreeNode, PlaceTime)> + Clone + '_ {
        self.touched.sort_unstable();
        self.touched.dedup();
        self.touched
            .iter()
            .map(|node| (*node, self.observed[node.index()]))
    }
}
