//! Messages that the kernel received, by CPU and time, with their programs: a message that came in has its CPU from its
//! arrival, or from when the message before it was handed to its socket, until it is itself. What it overlaps waited
//! for it (NSight, section 5.2: overlap with other messages is verified, not guessed).

use std::collections::HashMap;

use super::message::HostMessage;
use super::spans::LabelId;
use crate::messages::message::MessageDirection;

/// A message that a CPU received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reception {
    /// When it was handed to its socket.
    handed_ns: u64,
    /// When all of it had arrived.
    start_ns: u64,
    /// Its program.
    program: LabelId,
}

/// A time in which a CPU was at the message of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceptionSpan {
    pub(super) program: LabelId,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
}

/// Receptions by CPU.
#[derive(Debug, Default)]
pub(super) struct ReceptionTable {
    cpus: HashMap<u16, Vec<Reception>>,
}

impl ReceptionTable {
    /// Adds a message of a program.
    pub(super) fn add(&mut self, message: &HostMessage, program: LabelId) {
        let received = message.id.direction == MessageDirection::Received;
        if let Some(cpu) = message.kernel_cpu.filter(|_| received) {
            self.cpus.entry(cpu).or_default().push(Reception {
                handed_ns: message.times.handed_ns,
                start_ns: message.times.start_ns,
                program,
            });
        }
    }

    /// Sorts all receptions; call it before any question.
    pub(super) fn finish(&mut self) {
        self.cpus.values_mut().for_each(|it| it.sort_unstable());
    }

    /// Returns the receptions of a CPU within a time, in order; nothing is counted twice.
    pub(super) fn find_within(
        &self,
        cpu: u16,
        from_ns: u64,
        until_ns: u64,
    ) -> impl Iterator<Item = ReceptionSpan> + '_ {
        let all = self.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|it| it.handed_ns <= from_ns);
        let mut at_ns = from_ns;
        all[first..]
            .iter()
            .take_while(move |it| it.handed_ns <= until_ns)
            .filter_map(move |it| {
                let begin_ns = it.start_ns.max(at_ns);
                at_ns = it.handed_ns;
                (begin_ns < it.handed_ns).then_some(ReceptionSpan {
                    program: it.program,
                    begin_ns,
                    end_ns: it.handed_ns,
                })
            })
    }
}
