//! SNAP's five problems of a connection, as agents count them: the one list of them. In: a row of `fleet_intervals`. Out: the
//! time with each problem, by its name in metrics, and the rule with a page that explains it.

use table::fleet::FleetInterval;

/// A problem of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionProblem {
    /// Name in metrics.
    pub name: &'static str,
    /// Rule that has a page of it.
    pub rule: &'static str,
    /// Returns the time with it, us; `None`: not measured.
    pub time_us: fn(&FleetInterval) -> Option<i64>,
}

/// All problems, in the order of SNAP's footnote 4.
pub const PROBLEMS: [ConnectionProblem; 5] = [
    ConnectionProblem {
        name: "send_buffer",
        rule: "send_buffer_limited",
        time_us: |row| Some(row.send_buffer_us),
    },
    ConnectionProblem {
        name: "fast_retransmit",
        rule: "fast_retransmits",
        time_us: |row| row.fast_retransmit_us,
    },
    ConnectionProblem {
        name: "timeout",
        rule: "retransmit_timeouts",
        time_us: |row| row.timeout_us,
    },
    ConnectionProblem {
        name: "delayed_ack",
        rule: "delayed_ack",
        time_us: |row| row.delayed_ack_us,
    },
    ConnectionProblem {
        name: "receiver_window",
        rule: "slow_reader",
        time_us: |row| Some(row.receiver_window_us),
    },
];

impl ConnectionProblem {
    /// Returns the headline of the problem's page.
    pub fn sentence(&self) -> &'static str {
        let page = diagnose::pages::page(self.rule).unwrap_or_default();
        let line = page.lines().nth(2).unwrap_or_default();
        line.trim_matches(['*', '.'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_has_a_page_that_begins_with_a_sentence() {
        for problem in PROBLEMS {
            let sentence = problem.sentence();
            assert!(
                sentence.contains(' ') && !sentence.contains('*'),
                "{}: {sentence}",
                problem.rule
            );
        }
    }
}
