//! Puts what rules found on single connections together: one finding a rule, program, service
//! and direction, with the sums of their numbers and the words of its worst connection.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::Process;
use crate::connections::case::Case;
use crate::connections::program_time::ProgramTimes;
use crate::connections::rules::{Rule, RuleDoubt, RuleFinding, WinBasis};
use crate::report::finding::FactList;
use crate::report::severity::{is_short, severity_in_program, severity_within};
use crate::report::{
    DataDirection, EstimatedWin, Fact, FactMerge, FactUnit, FactValue, Finding, FindingSubject,
    PROGRAM_TIME, RuleId, UndecidedFinding,
};
use crate::units::ratio_of;

/// Most ids listed in a finding.
const MOST_IDS: usize = 16;

/// Outcome of one rule on one connection.
pub struct RuleResult<'a, T> {
    /// The rule.
    pub rule: &'static dyn Rule,
    /// The connection.
    pub case: &'a Case<'a>,
    /// Outcome.
    pub outcome: T,
}

/// Properties that the connections of one finding share.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FindingKey {
    rule: RuleId,
    comm: Option<String>,
    endpoint: String,
    receiving: bool,
    is_apart: bool,
}

/// The service that a connection belongs to: the listening side's address. A server's own
/// port gathers all its clients.
fn service_address(case: &Case) -> String {
    let identity = case.own.identity();
    let address = identity.map(|identity| case.context.served.address(identity));
    address.unwrap_or_default().to_owned()
}

/// Groups results that one finding can report: same rule and words, program, service address and direction.
fn gather<'a, T>(
    members: Vec<RuleResult<'a, T>>,
    direction: impl Fn(&T) -> DataDirection,
    weight: impl Fn(&T) -> (u64, u64),
) -> Vec<Vec<RuleResult<'a, T>>> {
    let mut groups: BTreeMap<FindingKey, Vec<RuleResult<'a, T>>> = BTreeMap::new();
    for member in members {
        let key = FindingKey {
            rule: member.rule.id(),
            comm: member.case.own.comm.map(str::to_owned),
            endpoint: service_address(member.case),
            receiving: direction(&member.outcome) == DataDirection::Receiving,
            is_apart: member.rule.is_apart(member.case),
        };
        groups.entry(key).or_default().push(member);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        // Worst first; the id makes the order of equals certain.
        group.sort_by_key(|member| {
            (
                std::cmp::Reverse(weight(&member.outcome)),
                member.case.own.id,
            )
        });
    }
    groups
}

/// Returns findings, in the order of rules.
pub fn findings(members: Vec<RuleResult<RuleFinding>>, times: &ProgramTimes) -> Vec<Finding> {
    let weight = |found: &RuleFinding| (found.harm_ns, found.concerned_ns);
    let groups = gather(members, |found| found.direction, weight);
    groups
        .iter()
        .filter_map(|group| finding(group, times))
        .collect()
}

/// Makes one finding of a group of results, with harm and share of all its connections.
fn finding(group: &[RuleResult<RuleFinding>], times: &ProgramTimes) -> Option<Finding> {
    let worst = group.first()?;
    let rule = worst.rule;
    let explanation = rule.explain(worst.case);
    let winnable = |member: &RuleResult<RuleFinding>| match explanation.win {
        WinBasis::HarmGone(_) => member.case.winnable_ns(member.outcome.harm_ns),
        WinBasis::AtLeast(..) | WinBasis::Unknown => member.outcome.harm_ns,
    };
    let winnable_ns = group.iter().map(winnable).sum();
    let harms: Vec<(u64, u64)> = group
        .iter()
        .map(|member| (member.outcome.harm_ns, member.case.life_ns()))
        .collect();
    let harm_ns = harms.iter().map(|(harm_ns, _)| harm_ns).sum();
    let subject = group_subject(group.iter().map(|member| member.case))?;
    let concerned_ns: u64 = group.iter().map(|member| member.outcome.concerned_ns).sum();
    let program_ns = times.sum_ns(group.iter().map(|member| member.case));
    let are_short = harms.iter().all(|(harm_ns, _)| is_short(*harm_ns));
    let intervals = group.iter().map(|member| rule.interval(member.case));
    let (from_ns, until_ns) = intervals.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let whole = WeighedTime::find(
        rule,
        are_short,
        (program_ns, until_ns.saturating_sub(from_ns)),
    );
    let base_ns = whole.as_ref().map(|it| it.ns);
    let base_ns = base_ns.filter(|ns| harm_ns > 0 && *ns > subject.lifetime_ns);
    let share = harm_share(
        harm_ns,
        concerned_ns,
        base_ns.unwrap_or(subject.lifetime_ns),
    );
    let mut facts = merge(group.iter().map(|member| member.outcome.facts.as_slice()));
    facts.extend(whole.filter(|_| base_ns.is_some()).map(WeighedTime::fact));
    let mut finding = Finding {
        from_ns,
        until_ns,
        rule: rule.id(),
        severity: match rule.is_of_program() {
            true => severity_within(&harms, base_ns.unwrap_or(subject.lifetime_ns)),
            false => severity_in_program(&harms, program_ns),
        },
        headline: String::new(),
        is_answer: false,
        direction: worst.outcome.direction,
        share,
        harm_ns,
        involved: Vec::new(),
        threads: find_readers(group),
        evidence: FactList(facts),
        ruled_out: explanation.ruled_out,
        could_not_see: explanation.could_not_see,
        advice: explanation.advice,
        estimated_win: estimate_win(
            explanation.win,
            winnable_ns,
            bound_ns(group),
            base_ns.unwrap_or(subject.lifetime_ns),
        ),
        confidence: explanation.confidence,
        subject,
    };
    finding.headline = rule.headline_of_worst(&finding, worst.case);
    Some(finding)
}

/// Returns the threads that read the connections; empty: one is not known.
fn find_readers(group: &[RuleResult<RuleFinding>]) -> BTreeSet<u32> {
    let reader = |it: &RuleResult<RuleFinding>| it.case.own.calls?.reader();
    let readers: Option<BTreeSet<u32>> = group.iter().map(reader).collect();
    readers.unwrap_or_default()
}

/// Time against which stalls of a program's connections are weighed, in place of their lives.
struct WeighedTime {
    ns: u64,
    label: &'static str,
}

impl WeighedTime {
    /// Returns it, for stalls that are all short and for causes in the program; `None`: the lives count. `program_ns`: how long the
    /// program was recorded; `period_ns`: from the first of these connections to the end of the last.
    fn find(rule: &dyn Rule, are_short: bool, (program_ns, period_ns): (u64, u64)) -> Option<Self> {
        if are_short {
            let label = "the program was recorded: each of its connections lost little";
            let ns = program_ns;
            return Some(Self { ns, label });
        }
        rule.is_of_program().then_some(Self {
            ns: program_ns.min(period_ns),
            label: "from the first of these connections to the end of the last",
        })
    }

    fn fact(self) -> Fact {
        Fact {
            name: PROGRAM_TIME,
            value: FactValue::Whole(self.ns),
            unit: FactUnit::Ns,
            label: self.label,
            merge: FactMerge::Worst,
        }
    }
}

/// Returns the harm as a share of the life; without harm, the share of the stages concerned. Harm outside of
/// the life can be more than all of it.
fn harm_share(harm_ns: u64, concerned_ns: u64, life_ns: u64) -> f64 {
    let ns = if harm_ns == 0 { concerned_ns } else { harm_ns };
    ratio_of(ns, life_ns).min(1.0)
}

/// Returns undecided findings, in the order of rules.
pub fn group_undecided(members: Vec<RuleResult<RuleDoubt>>) -> Vec<UndecidedFinding> {
    let groups = gather(
        members,
        |_| DataDirection::Sending,
        |doubt: &RuleDoubt| (doubt.concerned_ns, 0),
    );
    groups
        .iter()
        .filter_map(|group| undecided_finding(group))
        .collect()
}

/// Makes one undecided finding of a group of results that the recording cannot decide.
fn undecided_finding(group: &[RuleResult<RuleDoubt>]) -> Option<UndecidedFinding> {
    let worst = group.first()?;
    let rule = worst.rule;
    let subject = group_subject(group.iter().map(|member| member.case))?;
    let possible_harm_ns = group.iter().map(|member| member.outcome.concerned_ns).sum();
    let mut would_help: Vec<String> = worst
        .outcome
        .would_help
        .map(str::to_owned)
        .into_iter()
        .collect();
    would_help.extend(worst.case.more_detail());
    let mut undecided = UndecidedFinding {
        candidates: worst.outcome.candidates.clone(),
        headline: String::new(),
        direction: DataDirection::Sending,
        share: ratio_of(possible_harm_ns, subject.lifetime_ns).min(1.0),
        possible_harm_ns,
        evidence: FactList(merge(
            group.iter().map(|member| member.outcome.facts.as_slice()),
        )),
        why: worst.outcome.why.to_owned(),
        would_help,
        subject,
    };
    undecided.headline = rule.undecided_headline(&undecided);
    Some(undecided)
}

/// Returns the subject of a group; its first case is the worst.
fn group_subject<'a>(cases: impl Iterator<Item = &'a Case<'a>> + Clone) -> Option<FindingSubject> {
    let worst = cases.clone().next()?;
    let identity = worst.own.identity();
    let pid = identity.and_then(|identity| identity.pid);
    let pid_of = |case: &Case| case.own.identity().and_then(|identity| identity.pid);
    let one_pid = cases.clone().all(|case| pid_of(case) == pid);
    let comm = worst.own.comm.map(str::to_owned);
    let known = pid.is_some() || comm.is_some();
    let address = |of: fn(&table::tables::Connection) -> &String| {
        identity.map_or_else(|| "?".to_owned(), |identity| of(identity).clone())
    };
    Some(FindingSubject {
        process: known.then(|| Process {
            pid: pid.filter(|_| one_pid),
            comm,
        }),
        local: address(|identity| &identity.local),
        remote: address(|identity| &identity.remote),
        connections: cases.clone().count() as u64,
        ids: cases
            .clone()
            .take(MOST_IDS)
            .map(|case| case.own.id)
            .collect(),
        lifetime_ns: cases.map(Case::life_ns).sum(),
        requests: None,
    })
}

/// Merges the facts of a group's members by name; the worst member comes first.
fn merge<'a>(members: impl Iterator<Item = &'a [Fact]>) -> Vec<Fact> {
    let mut merged: Vec<Fact> = Vec::new();
    for (index, facts) in members.enumerate() {
        for fact in facts {
            match merged.iter_mut().find(|known| known.name == fact.name) {
                Some(known) => known.value = combine_values(known.value, fact.value, fact.merge),
                None if index == 0 || fact.merge != FactMerge::Worst => merged.push(fact.clone()),
                None => {}
            }
        }
    }
    merged
}

/// Merges the values of one fact of two connections: sum, largest, or the first.
fn combine_values(known: FactValue, other: FactValue, merge: FactMerge) -> FactValue {
    match (merge, known, other) {
        (FactMerge::Sum, FactValue::Whole(a), FactValue::Whole(b)) => {
            FactValue::Whole(a.saturating_add(b))
        }
        (FactMerge::Sum, FactValue::Real(a), FactValue::Real(b)) => FactValue::Real(a + b),
        (FactMerge::Max, FactValue::Whole(a), FactValue::Whole(b)) => FactValue::Whole(a.max(b)),
        (FactMerge::Max, FactValue::Real(a), FactValue::Real(b)) => FactValue::Real(a.max(b)),
        _ => known,
    }
}

/// Below this a win is no estimate: it is within what two runs of the same work differ.
const LEAST_WIN: f64 = 1.05;

/// Returns the error bound of the harm, ns: for each connection the widest bound of its stages.
fn bound_ns(group: &[RuleResult<RuleFinding>]) -> u64 {
    let of_case = |case: &Case| {
        let bounds = case.own.judged.stages.iter().map(|(_, share)| share.bound);
        (bounds.fold(0.0, f64::max) * case.life_ns() as f64) as u64
    };
    group.iter().map(|member| of_case(member.case)).sum()
}

/// Estimates how many times faster the same work gets without the harm. Where the error bound is
/// half of the remaining time or more, only a lower bound is given. `None`: no estimate.
fn estimate_win(
    basis: WinBasis,
    harm_ns: u64,
    bound_ns: u64,
    life_ns: u64,
) -> Option<EstimatedWin> {
    let (sure, least, assumes) = match basis {
        WinBasis::HarmGone(assumes) => (f64::INFINITY, false, assumes),
        WinBasis::AtLeast(ratio, assumes) => (ratio, true, assumes),
        WinBasis::Unknown => return None,
    };
    if harm_ns == 0 || life_ns == 0 {
        return None;
    }
    let (rest, bound) = (
        1.0 - ratio_of(harm_ns, life_ns),
        ratio_of(bound_ns, life_ns),
    );
    let uncertain = bound * 2.0 >= rest;
    let rest = if uncertain { rest + bound } else { rest };
    // A thousandfold is the largest estimate.
    let times_faster = 1.0 / rest.clamp(0.001, 1.0);
    if times_faster.min(sure) < LEAST_WIN {
        return None;
    }
    Some(EstimatedWin {
        times_faster: times_faster.min(sure),
        at_least: uncertain || least,
        at_most: false,
        assumes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::rules::RULES;
    use crate::report::FactUnit;

    fn fact(name: &'static str, value: u64, merge: FactMerge) -> Fact {
        Fact {
            name,
            value: FactValue::Whole(value),
            unit: FactUnit::Count,
            label: "",
            merge,
        }
    }

    #[test]
    fn lack_of_cpu_is_weighed_by_the_period_of_its_connections() {
        let find = |id: RuleId, are_short| {
            let rule = RULES.iter().find(|rule| rule.id() == id).expect("a rule");
            let whole = WeighedTime::find(*rule, are_short, (9_000, 2_000));
            whole.map(|it| it.ns)
        };
        assert_eq!(find(RuleId::CpuContention, false), Some(2_000));
        assert_eq!(find(RuleId::CpuContention, true), Some(9_000));
        assert_eq!(find(RuleId::Incast, false), None);
        assert_eq!(find(RuleId::Incast, true), Some(9_000));
    }

    #[test]
    fn facts_of_many_connections_become_one() {
        let worst = [
            fact("holds", 5, FactMerge::Sum),
            fact("longest", 9, FactMerge::Max),
        ];
        let other = [
            fact("holds", 2, FactMerge::Sum),
            fact("longest", 11, FactMerge::Max),
            fact("size", 3, FactMerge::Worst),
        ];
        let merged = merge([worst.as_slice(), other.as_slice()].into_iter());
        let values: Vec<_> = merged.iter().map(|fact| (fact.name, fact.value)).collect();
        assert_eq!(
            values,
            [
                ("holds", FactValue::Whole(7)),
                ("longest", FactValue::Whole(11))
            ]
        );
    }

    #[test]
    fn estimated_win_is_lifetime_without_harm() {
        let times = |basis, harm| estimate_win(basis, harm, 0, 100).map(|win| win.times_faster);
        assert_eq!(times(WinBasis::HarmGone(""), 75), Some(4.0));
        assert_eq!(times(WinBasis::AtLeast(2.5, ""), 75), Some(2.5));
        assert_eq!(times(WinBasis::HarmGone(""), 100), Some(1_000.0));
        assert_eq!(times(WinBasis::HarmGone(""), 0), None);
        assert_eq!(times(WinBasis::Unknown, 75), None);
    }

    #[test]
    fn estimated_win_with_large_error_is_a_lower_bound() {
        let gone = |bound| estimate_win(WinBasis::HarmGone(""), 750, bound, 1000).expect("a win");
        assert_eq!((gone(124).times_faster, gone(124).at_least), (4.0, false));
        assert_eq!((gone(250).times_faster, gone(250).at_least), (2.0, true));
        let capped = estimate_win(WinBasis::AtLeast(2.0, ""), 900, 100, 1000).expect("a win");
        assert_eq!((capped.times_faster, capped.at_least), (2.0, true));
    }
}
