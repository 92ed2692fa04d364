//! Contexts on the CPUs during messages: NSight's core-context summary (section 7, figure 20).

use std::collections::{BTreeMap, HashMap};

use table::ActivityKind;

use super::report::{CpuContext, CpuShare};
use super::spans::{LabelId, LabelTable, SpanLabel, SpanTable};

/// Context of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CpuState {
    /// A thread, or the idle task, outside of interrupts.
    Thread(LabelId),
    /// Interrupts and softirqs, whatever they interrupted.
    Interrupts,
    /// It is not known what.
    Unknown,
}

/// Times by CPU, over the lifetimes of a set of messages.
#[derive(Debug, Default)]
pub(super) struct ContextTimes {
    messages: u64,
    ns: HashMap<(u16, CpuState), u64>,
}

impl ContextTimes {
    /// Counts one message for the means.
    pub(super) fn count(&mut self) {
        self.messages += 1;
    }

    /// Adds what a CPU did during a part of a lifetime.
    pub(super) fn add(
        &mut self,
        cpu: u16,
        times_ns: (u64, u64),
        spans: &SpanTable,
        labels: &LabelTable,
    ) {
        let (from_ns, until_ns) = times_ns;
        let mut unknown_ns = until_ns.saturating_sub(from_ns);
        let mut thread = None;
        let mut interrupted_until_ns = from_ns;
        spans.visit_overlapping(cpu, from_ns, until_ns, |span| {
            let kind = labels.get(span.what).kind;
            let begin_ns = span.begin_ns.max(from_ns);
            let end_ns = span.end_ns.min(until_ns);
            if matches!(kind, ActivityKind::Irq | ActivityKind::Softirq) {
                let ns = end_ns.saturating_sub(begin_ns.max(interrupted_until_ns));
                interrupted_until_ns = interrupted_until_ns.max(end_ns);
                *self.ns.entry((cpu, CpuState::Interrupts)).or_default() += ns;
                match thread.filter(|(_, end_ns)| begin_ns < *end_ns) {
                    Some((thread, _)) => *self.ns.entry((cpu, thread)).or_default() -= ns,
                    None => unknown_ns = unknown_ns.saturating_sub(ns),
                }
            } else if span.depth == 0 {
                let ns = end_ns - begin_ns;
                thread = Some((CpuState::Thread(span.what), end_ns));
                *self
                    .ns
                    .entry((cpu, CpuState::Thread(span.what)))
                    .or_default() += ns;
                unknown_ns = unknown_ns.saturating_sub(ns);
            }
        });
        if unknown_ns > 0 {
            *self.ns.entry((cpu, CpuState::Unknown)).or_default() += unknown_ns;
        }
    }

    /// Returns for each CPU its mean time by context: of these messages, and of the usual ones.
    pub(super) fn compare(&self, usual: &Self, labels: &LabelTable) -> Vec<CpuShare> {
        let mut cores: BTreeMap<u16, BTreeMap<String, (f64, f64)>> = BTreeMap::new();
        for ((cpu, context), ns) in &self.ns {
            let contexts = cores.entry(*cpu).or_default();
            contexts.entry(name(*context, labels)).or_default().0 += self.mean(*ns);
        }
        for ((cpu, context), ns) in &usual.ns {
            let contexts = cores.entry(*cpu).or_default();
            contexts.entry(name(*context, labels)).or_default().1 += usual.mean(*ns);
        }
        cores
            .into_iter()
            .map(|(cpu, it)| cpu_share(cpu, it))
            .collect()
    }

    /// Returns the mean time of a message.
    fn mean(&self, ns: u64) -> f64 {
        ns as f64 / self.messages.max(1) as f64
    }
}

/// Returns what one CPU did, as mean time of slow and of usual messages.
fn cpu_share(cpu: u16, contexts: BTreeMap<String, (f64, f64)>) -> CpuShare {
    let mut contexts: Vec<CpuContext> = contexts
        .into_iter()
        .map(|(name, (ns, usual_ns))| CpuContext { name, ns, usual_ns })
        .collect();
    // stable: by name where they are alike
    contexts.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    CpuShare {
        cpu,
        ns: contexts.iter().map(|it| it.ns).sum(),
        usual_ns: contexts.iter().map(|it| it.usual_ns).sum(),
        contexts,
    }
}

/// Returns the name of a CPU's state: the thread, the interrupt, idle or unknown.
fn name(context: CpuState, labels: &LabelTable) -> String {
    match context {
        CpuState::Interrupts => "interrupts".to_owned(),
        CpuState::Unknown => "not known".to_owned(),
        CpuState::Thread(id) => match labels.get(id) {
            SpanLabel {
                kind: ActivityKind::Idle,
                ..
            } => "idle".to_owned(),
            SpanLabel {
                kind: ActivityKind::Untraced | ActivityKind::DecodeError,
                ..
            } => "not known".to_owned(),
            SpanLabel {
                application, name, ..
            } => {
                let name = application.as_ref().or(name.as_ref());
                name.map_or_else(|| "a thread".to_owned(), Clone::clone)
            }
        },
    }
}
