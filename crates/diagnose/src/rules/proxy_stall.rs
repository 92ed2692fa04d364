//! A thread that serves several connections was blocked in a call on one of them while another had
//! data for it: a proxy that waits until the far side has taken what it passes on (SNAP, figure 7), or
//! a server whose one slow client holds up the others.

use table::{Method, Stage};

use super::{
    Doubt, Explanation, Found, Rule, Verdict, WinBasis, advice, known, measured, sum, total_ns,
};
use crate::case::{Case, LEAST_POLLS};
use crate::report::{Advice, Direction, Finding, Undecided, Unit};
use crate::subject::Subject;
use crate::units::{duration, percent};

/// See the module.
pub struct ProxyStall;

impl Rule for ProxyStall {
    fn name(&self) -> &'static str {
        "proxy_stall"
    }

    fn summary(&self) -> &'static str {
        "A thread blocked on one connection lets the data of another wait"
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some((other, blocked_ns, times)) = blocker(case) else {
            return Verdict::Quiet;
        };
        let waited = case
            .own
            .judged
            .receive
            .as_ref()
            .map(|receive| receive.reader_slow);
        let Some(waited) = waited.filter(|waited| waited.method == Method::Ledger) else {
            let never_seen = waited.is_some_and(|waited| waited.ns == 0);
            if never_seen && case.own.gathered.samples.polls >= LEAST_POLLS {
                return Verdict::Quiet;
            }
            return self.cannot_tell(blocked_ns, times);
        };
        let harm_ns = blocked_ns.min(waited.ns);
        if harm_ns == 0 {
            return Verdict::Quiet;
        }
        let facts = [
            Some(sum(
                "blocked_before",
                times,
                "time(s) that its thread was blocked in a call on the other",
            )),
            Some(total_ns(
                "blocked_ns",
                blocked_ns,
                "it was blocked there in all",
            )),
            Some(total_ns(
                "reader_slow_ns",
                waited.ns,
                "bytes waited here to be read",
            )),
            known(
                "other_connection",
                Some(other.id),
                Unit::Id,
                "id of the other connection",
            ),
        ];
        Verdict::Fires(Found {
            direction: Direction::Receiving,
            concerned_ns: harm_ns,
            harm_ns,
            facts: facts.into_iter().flatten().collect(),
        })
    }

    fn explain(&self, case: &Case) -> Explanation {
        let mut advised: Vec<Advice> = blocker(case)
            .and_then(|(other, _, _)| mend_first(other))
            .into_iter()
            .collect();
        advised.extend(advice([
            "Let no call wait for one peer: O_NONBLOCK and epoll, with a queue of its own for each \
             connection; or a thread for each.",
            "Bound what one peer may hold up: SO_SNDTIMEO where the thread sends, SO_RCVTIMEO where \
             it receives.",
        ]));
        Explanation {
            ruled_out: Vec::new(),
            could_not_see: vec![
                "Waits of the thread outside socket calls (locks, files, sleep).".into(),
            ],
            advice: advised,
            // What a late reader costs its sender depends on what the buffers between them hold.
            win: WinBasis::Unknown,
            confidence: measured(case, "calls and waiting bytes were timed in the kernel"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "Data waited because its thread was blocked on another connection: {} of {} ({}).",
            duration(finding.harm_ns),
            duration(finding.subject.lifetime_ns),
            percent(finding.share)
        )
    }

    fn doubt(&self, undecided: &Undecided) -> String {
        format!(
            "A thread was blocked on another connection, {} in all, before it read here: data may \
             have waited.",
            duration(undecided.possible_harm_ns)
        )
    }
}

/// The connection behind which most was waited, how long it blocked the thread, and how often. Where
/// the path is the other's limit, the data waits at one end of it or at the other.
fn blocker<'a>(case: &Case<'a>) -> Option<(&'a Subject<'a>, u64, u64)> {
    if case.own.behind.is_empty() {
        return None;
    }
    let beside = case.neighbours.of_same_process(case.own);
    let blockers = case.own.behind.iter().filter_map(|behind| {
        let other = *beside.iter().find(|other| other.id == behind.conn)?;
        (!is_path_limited(other)).then_some((other, behind.blocked_ns, behind.times))
    });
    blockers.max_by_key(|(_, blocked_ns, _)| *blocked_ns)
}

/// Whether congestion control held it up for most of its life.
fn is_path_limited(other: &Subject) -> bool {
    let network = [
        Stage::CongestionWindow,
        Stage::Pacing,
        Stage::FastRetransmit,
    ];
    let ns: u64 = network
        .iter()
        .map(|stage| other.judged.stages.ns(*stage))
        .sum();
    ns * 2 > other.judged.life_ns
}

/// The other connection's own problem, which comes first.
fn mend_first(other: &Subject) -> Option<Advice> {
    let identity = other.identity()?;
    let (stage, share) = other
        .judged
        .stages
        .iter()
        .max_by_key(|(_, share)| share.ns)?;
    let (local, remote) = (&identity.local, &identity.remote);
    // TCP holds nothing up there: the thread waits for what the other end sends.
    let line = if stage == Stage::SenderApp {
        format!("Look at {local} → {remote}: its thread waits for what comes from there.")
    } else {
        format!(
            "Mend {local} → {remote} first, on which the thread was blocked: its stage `{}` took {} \
             of its life.",
            stage.name(),
            percent(share.share)
        )
    };
    Some(Advice(line.into()))
}

impl ProxyStall {
    fn cannot_tell(&self, blocked_ns: u64, times: u64) -> Verdict {
        let label = "time(s) that its thread was blocked in a call on another connection";
        Verdict::CannotTell(Doubt {
            candidates: vec![self.name()],
            concerned_ns: blocked_ns,
            facts: vec![sum("blocked_before", times, label)],
            why: "How long bytes waited to be read was not measured.",
            would_help: Some("Record with the ledger (`tcp_stages`) on."),
        })
    }
}
