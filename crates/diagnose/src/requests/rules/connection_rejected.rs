//! A server answers some connections with a message and closes them; others it serves. The program waits, and connects again.

use std::collections::{BTreeMap, HashMap};

use super::rule::{ProgramVerdict, Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{direct_confidence, make_advice, make_fact, number, time_fact};
use crate::report::severity::{LEAST_HARM_NS, held_up};
use crate::report::{Fact, FactUnit, FactValue, RuleDoubt, RuleId};
use crate::requests::case::ServiceCase;
use crate::requests::digests::connection_ends::{ConnectionGroup, ConnectionTurns};
use crate::requests::evidence::RequestEvidence;
use crate::units::{count, duration, format_bytes, quantity};
use crate::waits::join::association::property_chance;
use crate::waits::join::factor::SideCounts;

/// The rule `connection_rejected`.
pub struct ConnectionRejected;

/// A close within this part of the time between an answer and the next connection comes at once: one of so many does by chance.
const AT_ONCE_OF: u64 = 16;

/// So many closes, all at once, come by chance less often than once in a thousand times: 16 times itself, three times, is 4,096.
/// Of more closes, most must come at once.
const AT_ONCE_LEAST: u64 = 3;

impl RequestRule for ConnectionRejected {
    fn id(&self) -> RuleId {
        RuleId::ConnectionRejected
    }

    fn summary(&self) -> &'static str {
        "The server answers some connections with a message and closes them, and the program waits before it connects again"
    }

    /// The time is lost between connections, so that it counts beside that of requests.
    fn check_programs(&self, evidence: &RequestEvidence<'_>) -> Vec<ProgramVerdict> {
        let services = evidence.services();
        let clients = services.iter().filter(|it| !it.is_server());
        let cases: HashMap<ConnectionGroup, &ServiceCase<'_>> = clients
            .map(|it| ((it.key.name.clone(), it.key.address.clone()), it))
            .collect();
        let groups = evidence.digests.connection_ends.groups();
        let known = groups
            .iter()
            .filter_map(|(key, group)| Some((*cases.get(key)?, group)));
        known
            .filter_map(|(case, group)| Some(verdict(case, group, &find_rejections(group)?)))
            .collect()
    }
}

/// Connections of a group that ended with the same answer.
#[derive(Debug)]
struct RejectedConnections<'a> {
    /// Those.
    ended: Vec<&'a ConnectionTurns>,
    /// The answer.
    answer: Answer,
    /// Connections that had another answer at that place, and went on.
    others: u64,
    /// Closed by the server at once.
    closed_at_once: u64,
    /// Time that threads slept until they connected again, beyond their usual pause, ns.
    slept_ns: u64,
    /// Pause of the program after other answers, ns: the median.
    usual_ns: u64,
    /// That so many ended so is no chance.
    is_certain: bool,
}

/// An answer: its turn, the bytes that it answers, and its own.
type Answer = (usize, u64, u64);

/// Answers of a group of connections: which ended them, and which did not.
#[derive(Debug, Default)]
struct AnswerTable<'a> {
    /// Connections that ended with an answer.
    ended: BTreeMap<Answer, Vec<&'a ConnectionTurns>>,
    /// How many, by turn and bytes of the request.
    ended_at: BTreeMap<(usize, u64), u64>,
    /// Connections that went on, by turn and bytes of the request, and by bytes of the answer.
    went_on: BTreeMap<(usize, u64), BTreeMap<u64, u64>>,
}

impl<'a> AnswerTable<'a> {
    fn new(group: &'a [ConnectionTurns]) -> Self {
        let mut table = Self::default();
        for connection in group {
            let last = connection.turns.len().saturating_sub(1);
            for (place, (asked, answered)) in connection.turns.iter().enumerate() {
                if place == last && !connection.goes_on {
                    let answer = (place, *asked, *answered);
                    table.ended.entry(answer).or_default().push(connection);
                    *table.ended_at.entry((place, *asked)).or_default() += 1;
                } else {
                    let answers = table.went_on.entry((place, *asked)).or_default();
                    *answers.entry(*answered).or_default() += 1;
                }
            }
        }
        table
    }

    /// Returns the connections that ended with an answer, if none with this answer went on, and others with another one did.
    fn judge(&self, answer: Answer) -> Option<RejectedConnections<'a>> {
        let (place, asked, answer_bytes) = answer;
        let others = self.went_on.get(&(place, asked))?;
        let ended = self.ended.get(&answer)?;
        let closed_at_once = ended.iter().filter(|it| is_closed_at_once(it)).count() as u64;
        if others.contains_key(&answer_bytes) || closed_at_once == 0 {
            return None;
        }
        let others: u64 = others.values().sum();
        let all_ended = self.ended_at.get(&(place, asked)).copied();
        let such = SideCounts {
            slow: ended.len() as u64,
            fast: 0,
        };
        let known = SideCounts {
            slow: all_ended.unwrap_or(0),
            fast: others,
        };
        let is_rare = property_chance(such, known, self.ended.len()).is_some();
        let closed_first = ended.iter().filter(|it| it.closed_by_other_ns.is_some());
        let is_most = 2 * closed_at_once > closed_first.count() as u64;
        Some(RejectedConnections {
            ended: ended.clone(),
            answer,
            others,
            closed_at_once,
            slept_ns: ended.iter().map(|it| it.slept_ns).sum(),
            usual_ns: 0,
            is_certain: is_rare && is_most && closed_at_once >= AT_ONCE_LEAST,
        })
    }
}

impl RejectedConnections<'_> {
    /// Leaves out the program's usual pause; `None`: it sleeps about as long after every answer.
    fn beyond_usual(mut self, group: &[ConnectionTurns]) -> Option<Self> {
        let slept_ns = self.slept_ns;
        let usual_ns = usual_pause_ns(group, self.answer);
        let beyond = |it: &&ConnectionTurns| it.slept_ns.saturating_sub(usual_ns);
        self.slept_ns = self.ended.iter().map(beyond).sum();
        self.usual_ns = usual_ns;
        (2 * self.slept_ns > slept_ns).then_some(self)
    }
}

/// Returns the answer after which connections ended and threads slept longest, if no connection with that answer went on, and
/// others with another answer there did.
fn find_rejections(group: &[ConnectionTurns]) -> Option<RejectedConnections<'_>> {
    let table = AnswerTable::new(group);
    let judged = table.ended.keys().filter_map(|answer| table.judge(*answer));
    let worst = judged.max_by_key(|it| (it.is_certain, it.slept_ns));
    worst?.beyond_usual(group)
}

/// Returns the median of the pauses after other answers, ns: until the next request, or the next connection.
fn usual_pause_ns(group: &[ConnectionTurns], answer: Answer) -> u64 {
    let (place, asked, answer_bytes) = answer;
    let is_other = |it: &ConnectionTurns| {
        it.turns.len() != place + 1 || it.turns[place] != (asked, answer_bytes)
    };
    let within = group.iter().flat_map(|it| it.gaps_ns.iter().copied());
    let after = group
        .iter()
        .filter(|it| !it.goes_on && is_other(it))
        .filter_map(|it| Some(it.next_ns?.saturating_sub(it.answered_ns)));
    let mut pauses: Vec<u64> = within.chain(after).collect();
    pauses.sort_unstable();
    pauses.get(pauses.len() / 2).copied().unwrap_or(0)
}

/// Returns whether the server closed soon after its answer: before a wait of the program would be a finding, and soon
/// compared with the time until the next connection. A server that closes idle connections waits for seconds.
fn is_closed_at_once(connection: &ConnectionTurns) -> bool {
    let times = connection.closed_by_other_ns.zip(connection.next_ns);
    times.is_some_and(|(closed_ns, next_ns)| {
        let after_ns = closed_ns.saturating_sub(connection.answered_ns);
        let pause_ns = next_ns.saturating_sub(connection.answered_ns);
        after_ns < LEAST_HARM_NS.min(pause_ns / AT_ONCE_OF)
    })
}

/// Judges the rejected connections of a service.
fn verdict(
    case: &ServiceCase<'_>,
    group: &[ConnectionTurns],
    rejected: &RejectedConnections<'_>,
) -> ProgramVerdict {
    let first_ns = rejected.ended.first().map_or(0, |it| it.answered_ns);
    let last_ns = rejected.ended.last().map_or(0, |it| it.answered_ns);
    let time = case.digest.time.unwrap_or((first_ns, last_ns));
    let mut subject = case.subject();
    subject.lifetime_ns = case.total_ns() + rejected.slept_ns;
    let is_harm = held_up(rejected.slept_ns, subject.lifetime_ns);
    let verdict = match rejected.is_certain {
        true => RequestVerdict::Fires(Box::new(finding(case, group, rejected))),
        false if is_harm => doubt_verdict(case, group, rejected),
        false => RequestVerdict::Quiet,
    };
    ProgramVerdict {
        subject,
        time: (time.0.min(first_ns), time.1.max(last_ns)),
        verdict,
    }
}

/// Makes the finding of connections that the server closed after its message.
fn finding(
    case: &ServiceCase<'_>,
    group: &[ConnectionTurns],
    rejected: &RejectedConnections<'_>,
) -> RequestFinding {
    RequestFinding {
        harm_ns: rejected.slept_ns,
        whole_ns: case.total_ns() + rejected.slept_ns,
        remedy: Remedy::Avoidable,
        involved: name_involved(case, rejected),
        headline: format!(
            "{} rejected {} of {} connections of {} with a message of {}: {} slept {}.",
            case.key.address,
            count(rejected.ended.len() as u64),
            count(group.len() as u64),
            case.key.name,
            format_bytes(rejected.answer.2),
            case.key.name,
            duration(rejected.slept_ns)
        ),
        facts: collect_facts(group, rejected),
        could_not_see: vec![
            "What the message says: whylat reads no payload. The program's log may have it."
                .to_owned(),
        ],
        advice: make_advice(FIXES),
        gain: Some("the server serves each connection"),
        confidence: direct_confidence(
            case,
            "the sizes of answers, the closes and the sleeps were measured",
        ),
        ..RequestFinding::new(case)
    }
}

const FIXES: [&str; 4] = [
    "Read the message: the program's log has the error with which the server refused the connection.",
    "A database at its limit of connections does this: PostgreSQL `too many clients already`, MySQL and MariaDB error 1040. \
     Open fewer connections: a pool in each process, or one before the server (pgbouncer, ProxySQL). Return them sooner.",
    "If the server has memory for more, raise its limit: `max_connections` (PostgreSQL, MySQL, MariaDB), `maxclients` (redis).",
    "Wait less before the next attempt, with a random time, as long as the server is not overloaded.",
];

/// Returns an undecided verdict: too few connections ended so.
fn doubt_verdict(
    case: &ServiceCase<'_>,
    group: &[ConnectionTurns],
    rejected: &RejectedConnections<'_>,
) -> RequestVerdict {
    RequestVerdict::undecided(
        format!(
            "{} may have rejected {} of {}: {} slept {} before the next.",
            case.key.address,
            count(rejected.ended.len() as u64),
            quantity(group.len() as u64, "connection"),
            case.key.name,
            duration(rejected.slept_ns)
        ),
        RuleDoubt {
            candidates: vec![RuleId::ConnectionRejected],
            concerned_ns: rejected.slept_ns,
            facts: collect_facts(group, rejected),
            why: "So few connections may end with the same answer by chance.",
            would_help: Some(
                "Read the program's log at these times, or record for longer: more such connections decide it.",
            ),
        },
    )
}

/// Returns the numbers that show it.
fn collect_facts(group: &[ConnectionTurns], rejected: &RejectedConnections<'_>) -> Vec<Fact> {
    let most_ns = rejected.ended.iter().map(|it| it.slept_ns).max();
    vec![
        number(
            "rejected",
            rejected.ended.len() as u64,
            "connections that ended with this answer",
        ),
        number("connections", group.len() as u64, "connections"),
        number(
            "others_went_on",
            rejected.others,
            "connections with another answer there, which went on",
        ),
        make_fact(
            "answer_bytes",
            FactValue::Whole(rejected.answer.2),
            FactUnit::Bytes,
            "length of the answer",
        ),
        number(
            "closed_at_once",
            rejected.closed_at_once,
            "closed by the server first, at once",
        ),
        time_fact(
            "slept_ns",
            rejected.slept_ns,
            "longest sleep before a next connection, less the usual pause",
        ),
        time_fact(
            "usual_pause_ns",
            rejected.usual_ns,
            "pause after other answers (median)",
        ),
        time_fact(
            "slept_max_ns",
            most_ns.unwrap_or(0),
            "the longest of these sleeps",
        ),
    ]
}

/// Names the place in the program where threads slept longest.
fn name_involved(case: &ServiceCase<'_>, rejected: &RejectedConnections<'_>) -> Vec<String> {
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for connection in &rejected.ended {
        let title = connection
            .stack
            .and_then(|stack| case.evidence.names().stack_title(stack));
        if let Some(title) = title {
            *times.entry(title).or_default() += connection.slept_ns;
        }
    }
    let most = times.into_iter().max_by_key(|(_, ns)| *ns);
    let line = most.map(|(title, ns)| format!("in {title}: {}", duration(ns)));
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Makes a connection that ends with an answer of so many bytes, and a sleep until the next one; the server closes first.
    fn ended(answer_bytes: u64, slept_ms: u64) -> ConnectionTurns {
        ConnectionTurns {
            turns: vec![(41, answer_bytes)],
            gaps_ns: Vec::new(),
            goes_on: false,
            answered_ns: 0,
            closed_by_other_ns: Some(MS / 10),
            next_ns: Some((slept_ms + 1) * MS),
            slept_ns: slept_ms * MS,
            stack: None,
        }
    }

    /// Makes a connection of two turns with such a pause between them.
    fn served(answer_bytes: u64, pause_ms: u64) -> ConnectionTurns {
        ConnectionTurns {
            turns: vec![(41, answer_bytes), (20, 60)],
            gaps_ns: vec![pause_ms * MS],
            closed_by_other_ns: None,
            slept_ns: 0,
            ..ended(answer_bytes, 20)
        }
    }

    /// Judges eight connections that ended beside twelve others.
    fn judge(rejected: &ConnectionTurns, others: &ConnectionTurns) -> Option<(u64, bool)> {
        let mut group = vec![rejected.clone(); 8];
        group.extend(vec![others.clone(); 12]);
        let found = find_rejections(&group)?;
        Some((found.slept_ns / MS, found.is_certain))
    }

    #[test]
    fn rejected_connections_have_an_answer_of_their_own() {
        assert_eq!(
            judge(&ended(86, 500), &served(300, 20)),
            Some((3_832, true))
        );
        // the same answer went on elsewhere
        assert_eq!(judge(&ended(300, 500), &served(300, 20)), None);
    }

    #[test]
    fn a_client_that_closes_first_is_not_rejected() {
        let mut done = ended(86, 500);
        done.closed_by_other_ns = None;
        assert_eq!(judge(&done, &served(300, 20)), None);
        // an idle connection that the server closes later
        done.closed_by_other_ns = Some(400 * MS);
        assert_eq!(judge(&done, &served(300, 20)), None);
        // it closes idle connections after 2 s, and the program polls every 40 s while there is nothing to do
        let poll = ConnectionTurns {
            closed_by_other_ns: Some(2_000 * MS),
            ..ended(86, 40_000)
        };
        assert_eq!(judge(&poll, &served(300, 20)), None);
    }

    #[test]
    fn the_usual_pause_of_the_program_is_no_back_off() {
        assert_eq!(judge(&ended(86, 500), &served(300, 490)), None);
    }

    #[test]
    fn few_connections_do_not_decide() {
        let group = [ended(86, 500), ended(86, 500), served(300, 20)];
        let found = find_rejections(&group).expect("a candidate");
        assert!(!found.is_certain);
    }
}
