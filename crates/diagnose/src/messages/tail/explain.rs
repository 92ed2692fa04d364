//! The places that explain why a message took longer than usual. A place is no cause where those within it explain
//! most of what it took longer (NSight, section 5.2); nothing is searched within a context that an ordinary
//! message does not meet, nor within another message's processing: the remedy is the same whatever it does.

use serde::Serialize;
use table::ActivityKind;

use super::reference::{ReferenceSet, UsualTime};
use super::spans::LabelTable;
use super::tree::{PlaceTime, PlaceTimes, PlaceTree, SpanId, TreeNode, TreePlace};

/// A context is unexpected where fewer than this share of the reference messages meet it (NSight, section 5.2: a
/// minority).
const MINORITY: f64 = 0.5;

/// How a place differs from the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anomaly {
    /// Most ordinary messages do not meet it.
    Unexpected,
    /// It came more often.
    MoreOften,
    /// It took longer.
    Slower,
}

impl Anomaly {
    /// Returns the anomaly's stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unexpected => "unexpected",
            Self::MoreOften => "more_often",
            Self::Slower => "slower",
        }
    }
}

/// Time that a place added to a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Deviation {
    pub(super) node: TreeNode,
    /// Longer than usual, ns.
    pub(super) ns: f64,
    pub(super) anomaly: Anomaly,
}

/// Limits of anomalies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExplainSettings {
    /// Share of what a place took longer that those within it must explain for it to be none, 0–1.
    pub explained: f64,
    /// Differences below this are none, ns: the resolution of the source.
    pub resolution_ns: f64,
}

/// Why a message took longer than usual.
#[derive(Debug, Default)]
pub(super) struct MessageExplanation {
    /// Longer than usual, ns.
    pub(super) deviation_ns: f64,
    /// Whether that exceeds the resolution: else there are no causes.
    pub(super) is_longer: bool,
    /// Places, largest first; together at most that.
    pub(super) causes: Vec<Deviation>,
}

impl MessageExplanation {
    /// Returns the spans of the message at the places that caused its latency.
    pub(super) fn spans(&self, times: &mut PlaceTimes) -> Vec<(TreeNode, SpanId)> {
        let is_cause = |node| self.causes.iter().any(|cause| cause.node == node);
        let spans = times.spans().iter().copied();
        spans.filter(|(node, _)| is_cause(*node)).collect()
    }

    /// Returns the share of the extra time that causes explain, 0 to 1; 1 without extra time.
    pub(super) fn coverage(&self, is_known: impl Fn(&Deviation) -> bool) -> f64 {
        let known = self.causes.iter().filter(|it| is_known(it));
        let explained_ns = known.fold(0.0, |sum, it| sum + it.ns);
        if self.deviation_ns <= 0.0 {
            return 1.0;
        }
        (explained_ns / self.deviation_ns).clamp(0.0, 1.0)
    }
}

/// A place while the tree is gone through from its leaves.
#[derive(Debug, Default)]
struct InnerCauses {
    causes: Vec<Deviation>,
    explained_ns: f64,
}

/// Finds the causes of one message's latency, by comparison with the reference.
pub(super) fn explain(
    latency_ns: u64,
    times: &mut PlaceTimes,
    tree: &PlaceTree,
    labels: &LabelTable,
    reference: &ReferenceSet,
    settings: ExplainSettings,
) -> MessageExplanation {
    let deviation_ns = latency_ns as f64 - reference.latency_ns();
    if deviation_ns < settings.resolution_ns {
        return MessageExplanation {
            deviation_ns,
            ..MessageExplanation::default()
        };
    }
    let places: Vec<(TreeNode, PlaceTime)> = times.sort_places().collect();
    let index_of = |node: TreeNode| places.binary_search_by_key(&node, |(node, _)| *node).ok();
    let mut within: Vec<InnerCauses> = places.iter().map(|_| InnerCauses::default()).collect();
    let mut whole = InnerCauses::default();
    for index in (0..places.len()).rev() {
        let (node, observed) = places[index];
        let inner = std::mem::take(&mut within[index]);
        let usual = reference.usual_time(node);
        let found = judge_place(node, observed, usual, inner, tree, labels, settings);
        let around = tree.parent_node(node).and_then(index_of);
        let outer = around.map_or(&mut whole, |around| &mut within[around]);
        outer.explained_ns += found.explained_ns;
        outer.causes.extend(found.causes);
    }
    let mut causes = cap_causes(whole, deviation_ns).causes;
    causes.sort_by(|a, b| b.ns.total_cmp(&a.ns).then(a.node.cmp(&b.node)));
    MessageExplanation {
        deviation_ns,
        is_longer: true,
        causes,
    }
}

/// Returns the causes at a place of the tree, and within that place.
fn judge_place(
    node: TreeNode,
    observed: PlaceTime,
    usual: UsualTime,
    inner: InnerCauses,
    tree: &PlaceTree,
    labels: &LabelTable,
    settings: ExplainSettings,
) -> InnerCauses {
    let deviation_ns = observed.time_ns as f64 - usual.time_ns;
    if deviation_ns < settings.resolution_ns {
        return InnerCauses::default();
    }
    let itself = Deviation {
        node,
        ns: deviation_ns,
        anomaly: find_anomaly(observed, usual),
    };
    if is_opaque(tree, labels, node, usual) {
        return InnerCauses {
            causes: vec![itself],
            explained_ns: deviation_ns,
        };
    }
    let mut inner = cap_causes(inner, deviation_ns);
    let is_seen = !matches!(tree.place(node), TreePlace::Role(_));
    if !is_seen || inner.explained_ns >= settings.explained * deviation_ns {
        return inner;
    }
    // what is left is its own
    inner.causes.push(Deviation {
        ns: deviation_ns - inner.explained_ns,
        ..itself
    });
    inner.explained_ns = deviation_ns;
    inner
}

/// Returns whether inner places are not searched.
fn is_opaque(tree: &PlaceTree, labels: &LabelTable, node: TreeNode, usual: UsualTime) -> bool {
    match tree.place(node) {
        TreePlace::Role(_) | TreePlace::Own => false,
        TreePlace::OtherMessage
        | TreePlace::Received(_)
        | TreePlace::Blocked(_)
        | TreePlace::Moved
        | TreePlace::Other(_) => true,
        TreePlace::Within(what) => {
            let kind = labels.get(what).kind;
            let is_context = matches!(
                kind,
                ActivityKind::Irq | ActivityKind::Softirq | ActivityKind::Task
            );
            is_context && usual.present < MINORITY
        }
    }
}

/// Scales the causes within a place down, if their sum exceeds the place's own extra time.
fn cap_causes(mut within: InnerCauses, most_ns: f64) -> InnerCauses {
    if within.explained_ns > most_ns {
        let share = most_ns / within.explained_ns;
        within.causes.iter_mut().for_each(|it| it.ns *= share);
        within.explained_ns = most_ns;
    }
    within
}

/// Returns how a slow message differs at a place: longer, more often, or new there.
fn find_anomaly(observed: PlaceTime, usual: UsualTime) -> Anomaly {
    // each as long as usual, there were just more of them
    let each_ns = observed.time_ns as f64 / f64::from(observed.count.max(1));
    let usual_each_ns = usual.time_ns / usual.count.max(1.0);
    if usual.present < MINORITY {
        Anomaly::Unexpected
    } else if f64::from(observed.count) >= usual.count + 1.0 && each_ns < 2.0 * usual_each_ns {
        Anomaly::MoreOften
    } else {
        Anomaly::Slower
    }
}
