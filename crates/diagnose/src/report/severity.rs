//! Severity is harm, not share: time that a thread was blocked or data was late. The bands are those by which SNAP counts
//! applications in its Table 4: a problem for more than 5 % and for more than 50 % of the time.
//!
//! The base of that share, for each rule on connections:
//!
//! * A connection that lost [`LEAST_HARM_NS`] or more: its own life. A program waited for it.
//! * Connections that lost less: all of them together, against the time in which their program was recorded. A life of 5 ms
//!   is no base. One turn of another thread on the CPU is half of it, and who looks for such connections finds some.
//! * A lack of CPU, if a connection lost as much as that: all of them together, from the first of these connections to the end of the
//!   last. All connections of a program wait for its threads at one time, and one after the other.
//!
//! Rules on requests take the time of all requests of the service ([`severity`] with one member). Where each request loses less
//! than [`LEAST_HARM_NS`], it is critical only if that fills most of the time from the first request to the last, too.
//! A lack of CPU of at most a time slice in each, the slowest included, is an ordinary turn of others: it has to fill a twentieth of
//! that time, or to be most of the time of the requests.

use serde::Serialize;

use crate::kernel::TCP_DELACK_MIN_NS;

/// How much a finding matters, by harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is lost, or too little to act on.
    Info,
    /// More than a twentieth of the life of a connection is lost.
    Warning,
    /// More than half of it is lost.
    Critical,
}

impl Severity {
    /// Returns the severity's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Harm above this share of a life is a warning.
pub const WARNING_SHARE: f64 = 0.05;

/// Harm above this share of a life is critical.
const CRITICAL_SHARE: f64 = 0.5;

/// A cause that explains less than this of the time of requests is not what makes them slow: it is never above info.
pub const EXPLAINS_LEAST: f64 = 0.1;

/// Harm below this in total is never above info: it is the shortest stall that Linux makes on purpose.
pub const LEAST_HARM_NS: u64 = TCP_DELACK_MIN_NS;

/// Returns whether a share is printed as `<0.1 %`: then it says nothing, not even as information.
pub fn is_too_small(share: f64) -> bool {
    share < 0.001
}

/// Returns the severity of a finding over connections, each given as (harm, life) in ns. A band
/// counts when the connections in it or above lose enough together. So many healthy connections do
/// not dilute a few that stall.
pub fn severity(members: &[(u64, u64)]) -> Severity {
    severity_within(members, 0)
}

/// Returns the severity of a finding over a program's connections, each given as (harm, life) in
/// ns. The short stalls together also count as a share of `program_ns`, for which the program was
/// recorded.
pub fn severity_in_program(members: &[(u64, u64)], program_ns: u64) -> Severity {
    let (short, long): (Vec<_>, Vec<_>) =
        members.iter().partition(|(harm_ns, _)| is_short(*harm_ns));
    severity(&long).max(severity_within(&short, program_ns))
}

/// Returns whether a connection lost too little to be a problem alone.
pub fn is_short(harm_ns: u64) -> bool {
    harm_ns < LEAST_HARM_NS
}

/// Returns the severity of harm to members that is also a large share of `whole_ns`.
pub fn severity_within(members: &[(u64, u64)], whole_ns: u64) -> Severity {
    let is_above = |share: f64| {
        let over = |&&(harm_ns, life_ns): &&(u64, u64)| harm_ns as f64 > life_ns as f64 * share;
        let above = members.iter().filter(over);
        let harm_ns: u64 = above.map(|(harm_ns, _)| harm_ns).sum();
        harm_ns >= LEAST_HARM_NS && harm_ns as f64 > whole_ns as f64 * share
    };
    if is_above(CRITICAL_SHARE) {
        Severity::Critical
    } else if is_above(WARNING_SHARE) {
        Severity::Warning
    } else {
        Severity::Info
    }
}

/// Returns the severity of lost data, by its share.
pub fn severity_of_share(share: f64) -> Severity {
    match share {
        share if share > CRITICAL_SHARE => Severity::Critical,
        share if share > WARNING_SHARE => Severity::Warning,
        _ => Severity::Info,
    }
}

/// Returns whether one connection loses enough to count as held up.
pub fn held_up(harm_ns: u64, life_ns: u64) -> bool {
    severity(&[(harm_ns, life_ns)]) > Severity::Info
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn bands_follow_harm() {
        assert_eq!(severity(&[(0, SECOND)]), Severity::Info);
        assert_eq!(severity(&[(50_000_000, SECOND)]), Severity::Info);
        assert_eq!(severity(&[(51_000_000, SECOND)]), Severity::Warning);
        assert_eq!(severity(&[(510_000_000, SECOND)]), Severity::Critical);
    }

    #[test]
    fn a_short_stall_is_never_above_info() {
        assert_eq!(severity(&[(3_000_000, 5_000_000)]), Severity::Info);
        assert_eq!(
            severity(&vec![(3_000_000, 5_000_000); 5_003]),
            Severity::Critical
        );
    }

    #[test]
    fn short_stalls_are_weighed_against_their_program() {
        let short = vec![(3_000_000, 5_000_000); 107];
        let level = |program_ns| severity_in_program(&short, program_ns);
        // 321 ms: of 535 ms, of 5 s and of 10 s
        assert_eq!(level(535_000_000), Severity::Critical);
        assert_eq!(level(5 * SECOND), Severity::Warning);
        assert_eq!(level(10 * SECOND), Severity::Info);
        let mut with_long = short.clone();
        with_long.push((900_000_000, SECOND));
        assert_eq!(
            severity_in_program(&with_long, 10 * SECOND),
            Severity::Critical
        );
    }

    #[test]
    fn lack_of_cpu_of_a_short_connection_is_weighed_against_its_program() {
        let members = [(80_000_000, 100_000_000), (60_000_000, 100_000_000)];
        let of_program = |program_ns| severity_within(&members, program_ns);
        assert_eq!(of_program(200_000_000), Severity::Critical);
        assert_eq!(of_program(2 * SECOND), Severity::Warning);
        assert_eq!(of_program(5 * SECOND), Severity::Info);
        assert_eq!(
            severity_in_program(&members, 5 * SECOND),
            Severity::Critical
        );
    }

    #[test]
    fn healthy_connections_do_not_dilute_a_stalled_one() {
        let mut members = vec![(1_000_000, SECOND); 1_000];
        members.push((900_000_000, SECOND));
        assert_eq!(severity(&members), Severity::Critical);
    }
}
