//! Time with each problem, by bins of the day's clock. In: intervals between two readings, with their
//! problems. Out: bins; the time of an interval that reaches into several is split.

use table::fleet::BIN_NS;

/// SNAP's five problems, in the order of its footnote 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Problem {
    SendBuffer,
    FastRetransmit,
    Timeout,
    DelayedAck,
    ReceiverWindow,
}

impl Problem {
    /// Returns the problem's name in metrics and verdicts.
    pub(super) fn name(self) -> &'static str {
        crate::problems::PROBLEMS[self as usize].name
    }
}

/// Number of problems.
pub(super) const PROBLEMS: usize = crate::problems::PROBLEMS.len();

/// Raised flags, one bit a [`Problem`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProblemFlags(u8);

impl ProblemFlags {
    /// Sets the flag of a problem if `raised`.
    pub(super) fn raise(&mut self, problem: Problem, raised: bool) {
        self.0 |= u8::from(raised) << problem as usize;
    }

    /// Returns whether any problem was seen.
    pub(super) fn has_any(self) -> bool {
        self.0 != 0
    }

    /// Returns whether this problem was seen.
    pub(super) fn has(self, problem: Problem) -> bool {
        self.0 & 1 << problem as usize != 0
    }
}

/// The time between two readings, with its problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PollInterval {
    /// From here, `CLOCK_REALTIME`.
    pub(super) begin_ns: i64,
    /// Up to here.
    pub(super) end_ns: i64,
    /// Problems, for all of it.
    pub(super) raised: ProblemFlags,
    /// Of it, the time in which the application had given nothing to send.
    pub(super) sender_app_ns: u64,
}

/// One bin of a connection: its start, the time that readings cover, and the time with each problem; ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bin {
    /// Its start, a multiple of [`BIN_NS`].
    pub(super) begin_ns: i64,
    /// Time that readings cover; the rest was idle.
    pub(super) covered_ns: u64,
    /// Time with each problem.
    pub(super) problem_ns: [u64; PROBLEMS],
    /// Time of `covered_ns` in which the application had given nothing to send.
    pub(super) sender_app_ns: u64,
    /// It is in a row.
    is_written: bool,
}

impl Bin {
    /// Returns whether the bin has a problem.
    pub(super) fn has_problem(&self) -> bool {
        self.problem_ns.iter().any(|ns| *ns > 0)
    }

    /// Returns how long this problem was seen in the bin.
    pub(super) fn time_ns(&self, problem: Problem) -> u64 {
        self.problem_ns[problem as usize]
    }
}

/// Returns the start of the bin in which a time lies.
pub(super) fn bin_of(time_ns: i64) -> i64 {
    time_ns.div_euclid(BIN_NS) * BIN_NS
}

/// Splits an interval between two readings into bins, with its time in each; the application's time in proportion.
fn split(interval: &PollInterval) -> impl Iterator<Item = (i64, u64, u64)> {
    let PollInterval {
        begin_ns,
        end_ns,
        sender_app_ns,
        ..
    } = *interval;
    let length_ns = (end_ns - begin_ns).max(0).cast_unsigned();
    // up to a moment of the stretch: differences of this add up to the whole
    let given_ns = move |at_ns: i64| {
        let passed_ns = u128::from((at_ns - begin_ns).cast_unsigned());
        let share = u128::from(sender_app_ns) * passed_ns / u128::from(length_ns.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    let first_ns = bin_of(begin_ns);
    let bins = (0..).map(move |index| first_ns + index * BIN_NS);
    bins.take_while(move |bin_ns| *bin_ns < end_ns)
        .map(move |bin_ns| {
            let from_ns = bin_ns.max(begin_ns);
            let until_ns = (bin_ns + BIN_NS).min(end_ns);
            let time_ns = (until_ns - from_ns).cast_unsigned();
            (bin_ns, time_ns, given_ns(until_ns) - given_ns(from_ns))
        })
}

/// The bins of one connection of the present interval, and the last before it, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Bins(Vec<Bin>);

impl Bins {
    /// Adds an interval between two readings; these come in order.
    pub(super) fn add(&mut self, interval: &PollInterval) {
        for (begin_ns, time_ns, sender_app_ns) in split(interval) {
            if self.0.last().is_none_or(|bin| bin.begin_ns != begin_ns) {
                self.0.push(Bin {
                    begin_ns,
                    ..Bin::default()
                });
            }
            let Some(bin) = self.0.last_mut() else {
                return;
            };
            bin.covered_ns += time_ns;
            bin.sender_app_ns += sender_app_ns;
            for (index, sum_ns) in bin.problem_ns.iter_mut().enumerate() {
                if interval.raised.0 & 1 << index != 0 {
                    *sum_ns += time_ns;
                }
            }
        }
    }

    /// Returns the bins, the oldest first.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = &Bin> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether one of the bins has a problem.
    pub(super) fn has_problem(&self) -> bool {
        self.0.iter().any(Bin::has_problem)
    }

    /// Returns the bins that start before `end_ns`.
    pub(super) fn bins_before(&self, end_ns: i64) -> impl Iterator<Item = &Bin> {
        self.0.iter().filter(move |bin| bin.begin_ns < end_ns)
    }

    /// Returns the chosen bins that start before `end_ns` and were not returned before.
    pub(super) fn write(&mut self, end_ns: i64, is_chosen: impl Fn(&Bin) -> bool) -> Vec<Bin> {
        let before = self.0.iter_mut().filter(|bin| bin.begin_ns < end_ns);
        let chosen = before.filter(|bin| !bin.is_written && is_chosen(bin));
        chosen
            .map(|bin| {
                bin.is_written = true;
                *bin
            })
            .collect()
    }

    /// Forgets the bins that start before this time.
    pub(super) fn forget_before(&mut self, begin_ns: i64) {
        self.0.retain(|bin| bin.begin_ns >= begin_ns);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn names_of_problems_are_in_the_order_of_their_list() {
        let problems = [
            (Problem::SendBuffer, "send_buffer"),
            (Problem::FastRetransmit, "fast_retransmit"),
            (Problem::Timeout, "timeout"),
            (Problem::DelayedAck, "delayed_ack"),
            (Problem::ReceiverWindow, "receiver_window"),
        ];
        for (problem, name) in problems {
            assert_eq!(problem.name(), name);
        }
    }

    /// Makes an interval between polls, with these flags.
    fn interval(begin_ns: i64, length_ns: i64, raised: u8, sender_app_ns: u64) -> PollInterval {
        PollInterval {
            begin_ns,
            end_ns: begin_ns + length_ns,
            raised: ProblemFlags(raised),
            sender_app_ns,
        }
    }

    #[test]
    fn interval_over_a_bin_edge_is_split_there() {
        let mut bins = Bins::default();
        bins.add(&interval(
            3 * S,
            4 * S,
            1 << Problem::Timeout as u8,
            2 * S as u64,
        ));
        let timeouts: Vec<(i64, u64)> = bins
            .iter()
            .map(|bin| (bin.begin_ns, bin.time_ns(Problem::Timeout)))
            .collect();
        let s = |seconds: u64| seconds * S as u64;
        assert_eq!(timeouts, [(2 * S, s(1)), (4 * S, s(2)), (6 * S, s(1))]);
        let given: Vec<u64> = bins.iter().map(|bin| bin.sender_app_ns * 2).collect();
        assert_eq!(given, [s(1), s(2), s(1)]);
        assert_eq!(bins.write(4 * S, |_| true).len(), 1);
        assert_eq!(bins.write(6 * S, |_| true).len(), 1, "each is written once");
        bins.forget_before(4 * S);
        assert_eq!(bins.iter().count(), 2);
    }

    proptest! {
        /// Stretches with gaps between them: nothing is lost, nothing counted twice, no bin overfull.
        #[test]
        fn splitting_keeps_every_nanosecond(
            start_ns in -10 * S..10 * S,
            parts in proptest::collection::vec((0..3 * S, 0..7 * S, 0_u8..32, 0..=100_u64), 1..40),
        ) {
            let (mut at_ns, mut bins) = (start_ns, Bins::default());
            let (mut whole, mut given, mut wrong) = (0, 0, [0; PROBLEMS]);
            for (gap_ns, length_ns, raised, percent) in parts {
                let length = length_ns.cast_unsigned();
                let part = interval(at_ns + gap_ns, length_ns, raised, length * percent / 100);
                bins.add(&part);
                whole += length;
                given += part.sender_app_ns;
                for (index, sum) in wrong.iter_mut().enumerate() {
                    *sum += if raised & 1 << index != 0 { length } else { 0 };
                }
                at_ns = part.end_ns;
            }
            let sum = |of: &dyn Fn(&Bin) -> u64| bins.iter().map(of).sum::<u64>();
            prop_assert_eq!(sum(&|bin| bin.covered_ns), whole);
            prop_assert_eq!(sum(&|bin| bin.sender_app_ns), given);
            for (index, expected) in wrong.into_iter().enumerate() {
                prop_assert_eq!(sum(&|bin| bin.problem_ns[index]), expected);
            }
            let mut last_ns = i64::MIN;
            for bin in bins.iter() {
                prop_assert!(bin.begin_ns % BIN_NS == 0 && bin.begin_ns > last_ns);
                prop_assert!(bin.covered_ns <= BIN_NS.cast_unsigned());
                prop_assert!(bin.sender_app_ns <= bin.covered_ns);
                last_ns = bin.begin_ns;
            }
        }
    }
}
