//! Queues before a message by place: NSight's queueing breakdown (section 7, figure 19). The
//! application receives, handles and answers other messages first; the kernel receives or sends them.

use table::ActivityKind;

use super::message::HostMessage;
use super::queue::ThreadQueue;
use super::report::{FiveNumbers, QueuePlace, Queueing};
use super::side::TailSide;
use super::spans::LabelTable;
use super::tree::{PlaceTimes, PlaceTree, TreePlace};
use crate::messages::message::MessageDirection;

const ALL: [QueuePlace; 5] = [
    QueuePlace::ApplicationReceive,
    QueuePlace::ApplicationRequest,
    QueuePlace::ApplicationSend,
    QueuePlace::KernelReceive,
    QueuePlace::KernelSend,
];

/// Of one message, by [`ALL`].
pub(super) type QueueAhead = [QueueDepth; ALL.len()];

/// Depth and time of one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct QueueDepth {
    /// Messages, or calls for them.
    depth: u32,
    ns: u64,
}

/// Returns what was queued before a message, and for how long; `times`: the message's own.
pub(super) fn queues_ahead(
    message: &HostMessage,
    queue: ThreadQueue,
    (side, labels): (&TailSide, &LabelTable),
    tree: &PlaceTree,
    times: &mut PlaceTimes,
) -> QueueAhead {
    let kernel = QueueDepth {
        depth: side.handed_meanwhile(message),
        ns: match message.id.direction {
            MessageDirection::Received => message
                .times
                .handed_ns
                .saturating_sub(message.times.start_ns),
            MessageDirection::Sent => message.latency_ns(),
        },
    };
    let [mut receive, mut request, mut send] = [QueueDepth::default(); 3];
    let is_other = |node| tree.place(node) == TreePlace::OtherMessage;
    for (node, observed) in times.sort_places() {
        match tree.place(node) {
            TreePlace::OtherMessage => request.ns += observed.time_ns,
            TreePlace::Within(what) if tree.parent_node(node).is_some_and(is_other) => {
                let what = labels.get(what);
                let is_call = what.kind == ActivityKind::Syscall;
                let at = match what.name.as_deref().filter(|_| is_call) {
                    Some(name) if is_receive_call(name) => &mut receive,
                    Some(name) if is_send_call(name) => &mut send,
                    _ => continue,
                };
                at.depth += observed.count;
                at.ns += observed.time_ns;
            }
            _ => {}
        }
    }
    request.ns = request.ns.saturating_sub(receive.ns + send.ns);
    request.depth = queue.ahead;
    match message.id.direction {
        MessageDirection::Received => [receive, request, send, kernel, QueueDepth::default()],
        MessageDirection::Sent => [receive, request, send, QueueDepth::default(), kernel],
    }
}

fn is_receive_call(call: &str) -> bool {
    ["recv", "read", "preadv"]
        .iter()
        .any(|it| call.starts_with(it))
}

fn is_send_call(call: &str) -> bool {
    ["send", "write", "pwritev", "splice"]
        .iter()
        .any(|it| call.starts_with(it))
}

/// Queues before ordinary messages: sums.
#[derive(Debug, Default)]
pub(super) struct UsualQueue {
    messages: u64,
    sums: [(u64, u64); ALL.len()],
}

impl UsualQueue {
    /// Adds the queues before one usual message.
    pub(super) fn add(&mut self, ahead: &QueueAhead) {
        self.messages += 1;
        for (sum, one) in self.sums.iter_mut().zip(ahead) {
            sum.0 += u64::from(one.depth);
            sum.1 += one.ns;
        }
    }

    /// Returns where messages waited behind more than is usual, for clearly longer.
    pub(super) fn compare(&self, all: &[QueueAhead], resolution_ns: f64) -> Vec<Queueing> {
        let mean = |sum: u64| sum as f64 / self.messages.max(1) as f64;
        let of = |(index, queued): (usize, &QueuePlace)| {
            let (usual_depth, usual_ns) = (mean(self.sums[index].0), mean(self.sums[index].1));
            let more = all.iter().map(|ahead| {
                let one = ahead[index];
                (f64::from(one.depth) - usual_depth, one.ns as f64 - usual_ns)
            });
            let hit: Vec<(f64, f64)> = more
                .filter(|(depth, ns)| *depth >= 0.5 && *ns >= resolution_ns)
                .collect();
            (!hit.is_empty()).then(|| Queueing {
                queued: *queued,
                messages: hit.len() as u64,
                usual_ahead: usual_depth,
                ahead: FiveNumbers::from_values(hit.iter().map(|it| it.0).collect()),
                deviation_ns: FiveNumbers::from_values(hit.iter().map(|it| it.1).collect()),
            })
        };
        ALL.iter().enumerate().filter_map(of).collect()
    }
}
