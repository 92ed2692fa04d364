//! Requests wait for the other end, which is not recorded: beyond the round trip of the path.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    BUSY_LEAST, EXPLAINS_LEAST, busy_share, direct_confidence, duration_facts, make_advice,
    of_requests, of_time, rule_out, share_fact, slows_slowest, time_fact,
};
use crate::report::{RuleDoubt, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::{count, duration, percent};

/// The rule `remote_slow`.
pub struct RemoteSlow;

const PARTS: &[RequestPart] = &[RequestPart::Remote];

impl RequestRule for RemoteSlow {
    fn id(&self) -> RuleId {
        RuleId::RemoteSlow
    }

    fn summary(&self) -> &'static str {
        "Requests wait for the other end, which is not recorded"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let harm = case.harm(PARTS);
        if case.is_server()
            || case.is_claimed(RequestPart::Remote)
            || harm.share.max(harm.excess_share) < EXPLAINS_LEAST
        {
            return RequestVerdict::Quiet;
        }
        let is_slow = slows_slowest(case, &harm);
        match case.digest.path_ns {
            None if is_slow => make_doubt(case, &harm),
            _ => RequestVerdict::Fires(Box::new(finding(case, &harm, is_slow))),
        }
    }
}

fn collect_facts(case: &ServiceCase<'_>, harm: &PartHarm) -> Vec<crate::report::Fact> {
    let mut facts = duration_facts(case);
    facts.push(time_fact("remote_ns", harm.ns, "wait for the other end"));
    facts.push(share_fact(
        "remote_share",
        harm.share,
        "of the time of requests",
    ));
    if harm.excess_share > 0.0 {
        let label = "of the extra time of the slowest 1 %";
        facts.push(share_fact("remote_excess_share", harm.excess_share, label));
    }
    facts.extend(
        case.digest
            .path_ns
            .map(|ns| time_fact("min_rtt_ns", ns, "min RTT of the path")),
    );
    facts
}

/// Makes the finding: the other end or the path took the time.
fn finding(case: &ServiceCase<'_>, harm: &PartHarm, is_slow: bool) -> RequestFinding {
    let pool = FullPool::find(case);
    let headline = match is_slow {
        true => format!(
            "The other end made the slowest of {} slow: {} more than usual.",
            of_requests(case),
            duration(harm.excess_ns)
        ),
        false => format!(
            "{} waited for the other end: {}{}.",
            of_requests(case),
            of_time(case, harm.ns),
            pool.as_ref().map_or_else(String::new, FullPool::clause)
        ),
    };
    let path = case.digest.path_ns;
    let others = case.unrecorded_others();
    let unseen = path
        .is_none()
        .then_some("How much of this is the path's round trip: no sample has it.");
    let unseen = unseen.map(str::to_owned).into_iter();
    let unseen = unseen.chain(pool.as_ref().map(FullPool::doubt));
    RequestFinding {
        parts: PARTS.to_vec(),
        involved: name_involved(&case.key.address, &others),
        headline,
        facts: collect_facts(case, harm),
        ruled_out: rule_out(
            case,
            &[
                ("the path", &[RequestPart::Network]),
                ("computing", &[RequestPart::Cpu]),
                ("connecting", &[RequestPart::Connect, RequestPart::Dns]),
            ],
        ),
        could_not_see: ["What threads of the other end did: their waits were not recorded."]
            .map(str::to_owned)
            .into_iter()
            .chain(unseen)
            .collect(),
        advice: make_advice(
            std::iter::once(fix(&case.key.address, case.pids(), &others))
                .chain(pool.map(|_| FullPool::FIX.to_owned())),
        ),
        confidence: direct_confidence(
            case,
            "the wait was measured; it includes a longer queue on the path",
        ),
        excess_share: if is_slow { harm.excess_share } else { 0.0 },
        ..RequestFinding::from_harm(case, harm, Remedy::Unavoidable)
    }
}

/// Returns the other end, and its processes on this host.
fn name_involved(address: &str, others: &[(u32, String)]) -> Vec<String> {
    let names: Vec<_> = others.iter().map(|(_, name)| name.as_str()).collect();
    let end = format!("the other end is {address}");
    match names.as_slice() {
        [] => vec![end],
        names => vec![format!("{end}, on this host: {}", names.join(", "))],
    }
}

/// Returns the next step: a recording of both ends, if the other one is on this host.
fn fix(address: &str, own: impl Iterator<Item = u32>, others: &[(u32, String)]) -> String {
    let mut pids: Vec<_> = own.map(|pid| pid.to_string()).collect();
    if others.is_empty() || pids.is_empty() {
        return format!(
            "Record the process that listens at {address}: its report says why it is slow."
        );
    }
    pids.extend(others.iter().map(|(pid, _)| pid.to_string()));
    format!(
        "Record both ends: `whylat record -p {}`. Then the report follows the requests into the threads of the \
            other end.",
        pids.join(",")
    )
}

/// Connections of a program with tasks (an event loop, or a runtime's) that always have a request: tasks may wait in the program
/// until one is free, and no wait of a thread shows that.
struct FullPool {
    connections: u64,
    busy: f64,
}

impl FullPool {
    /// Fix if tasks wait.
    const FIX: &str = "If tasks of the program wait for a free connection, let its pool have more. Options: Node.js \
        `maxSockets`, Go `MaxConnsPerHost` and `SetMaxOpenConns`, aiohttp `limit`, httpx `max_connections`.";

    /// Finds it for a client; `None`: a connection was free, or each thread has its own.
    fn find(case: &ServiceCase<'_>) -> Option<Self> {
        let connections = case.digest.series.connections;
        // one request on a connection shows no time without one
        let has_next = case.requests() >= 2 * connections;
        let has_tasks = case.digest.series.threads < connections || case.has_task_runtime();
        let busy = busy_share(case);
        (connections > 1 && has_next && has_tasks && busy >= BUSY_LEAST)
            .then_some(Self { connections, busy })
    }

    /// Returns the end of the headline.
    fn clause(&self) -> String {
        let busy = percent(self.busy);
        format!(
            ", and the {} connections had a request {busy} of the time",
            count(self.connections)
        )
    }

    /// Returns what the recording does not show.
    fn doubt(&self) -> String {
        format!(
            "Whether tasks of the program waited for one of its {} connections: no wait of a thread shows that.",
            count(self.connections)
        )
    }
}

/// Makes the undecided finding: no sample has the round trip of the path.
fn make_doubt(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestVerdict {
    RequestVerdict::undecided(
        format!(
            "The slowest of {} waited {} for the path or for the other end.",
            of_requests(case),
            duration(harm.excess_ns)
        ),
        RuleDoubt {
            candidates: vec![RuleId::RemoteSlow, RuleId::PathQueue],
            concerned_ns: harm.excess_ns,
            facts: collect_facts(case, harm),
            why: "No sample has the round trip of the path.",
            would_help: Some("Record for longer, so that connections are sampled."),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "127.0.0.1:8000";

    #[test]
    fn both_ends_are_to_be_recorded_on_one_host() {
        let others = [
            (21, "python3[21]".to_owned()),
            (22, "python3[22]".to_owned()),
        ];
        let text = fix(ADDRESS, [7].into_iter(), &others);
        assert!(
            text.starts_with("Record both ends: `whylat record -p 7,21,22`."),
            "{text}"
        );
        let involved = name_involved(ADDRESS, &others);
        let expected = "the other end is 127.0.0.1:8000, on this host: python3[21], python3[22]";
        assert_eq!(involved, [expected]);
    }

    #[test]
    fn an_end_elsewhere_is_recorded_there() {
        let text = fix(ADDRESS, [7].into_iter(), &[]);
        assert!(
            text.starts_with("Record the process that listens at 127.0.0.1:8000"),
            "{text}"
        );
        assert_eq!(
            name_involved(ADDRESS, &[]),
            ["the other end is 127.0.0.1:8000"]
        );
    }
}
