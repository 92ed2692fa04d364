//! Filters and sorts the rows of a list. In: a snapshot, a filter, a column. Out: indices of rows.

use std::cmp::Ordering;

use diagnose::live::{LiveConnection, LiveProcess, LiveReport};
use diagnose::report::Process;

use super::cells::ListColumn;

/// Sort key of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKey {
    /// Severity, then the share of time held up: the default.
    Held,
    /// Bytes sent.
    Out,
    /// Bytes received.
    In,
    /// Round-trip time.
    Rtt,
    /// Retransmitted segments.
    Retransmits,
    /// Time with threads blocked on it.
    Wait,
    /// Name of the process.
    Process,
    /// Remote address; of processes the number of connections.
    Remote,
}

impl SortKey {
    /// All keys, in the order of the key `>`.
    pub const ALL: [Self; 8] = [
        Self::Process,
        Self::Remote,
        Self::Held,
        Self::Out,
        Self::In,
        Self::Rtt,
        Self::Retransmits,
        Self::Wait,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Out => "out",
            Self::In => "in",
            Self::Rtt => "rtt",
            Self::Retransmits => "retr",
            Self::Wait => "wait",
            Self::Process => "process",
            Self::Remote => "remote",
        }
    }

    /// Returns the column that shows this key's value.
    pub const fn column(self) -> ListColumn {
        match self {
            Self::Held => ListColumn::Held,
            Self::Out => ListColumn::Out,
            Self::In => ListColumn::In,
            Self::Rtt => ListColumn::Rtt,
            Self::Retransmits => ListColumn::Retransmits,
            Self::Wait => ListColumn::Wait,
            Self::Process => ListColumn::Process,
            Self::Remote => ListColumn::Remote,
        }
    }

    /// Returns the key `by` places further in [`Self::ALL`].
    pub fn step(self, by: isize) -> Self {
        let place = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        let length = Self::ALL.len() as isize;
        Self::ALL[(place as isize + by).rem_euclid(length) as usize]
    }
}

/// Filter and order of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOrder {
    /// Sort key.
    pub sort: SortKey,
    /// Reverse the order.
    pub reversed: bool,
    /// Only rows with all of these words in the process, an address, a stage or a finding.
    pub filter: String,
    /// Hide idle connections.
    pub hide_idle: bool,
}

impl Default for ListOrder {
    fn default() -> Self {
        Self {
            sort: SortKey::Held,
            reversed: false,
            filter: String::new(),
            hide_idle: false,
        }
    }
}

impl ListOrder {
    /// Returns the indices of the shown connections; with `of`, those of one process.
    pub fn connections(&self, live: &LiveReport, of: Option<&Option<Process>>) -> Vec<usize> {
        let words = self.words();
        let shown = |one: &LiveConnection| {
            of.is_none_or(|process| *process == one.process)
                && !(self.hide_idle && one.idle)
                && (words.is_empty() || has_all(&words, &text_of(one)))
        };
        let all = live.connections.iter().enumerate();
        let mut places: Vec<usize> = all
            .filter(|(_, one)| shown(one))
            .map(|(place, _)| place)
            .collect();
        let at = |place: usize| &live.connections[place];
        places.sort_by(|a, b| {
            let order = self.compare(&key(at(*a)), &key(at(*b)));
            order.then_with(|| at(*a).id.cmp(&at(*b).id))
        });
        places
    }

    /// Returns the indices of the shown processes.
    pub fn processes(&self, live: &LiveReport) -> Vec<usize> {
        let words = self.words();
        let shown = |one: &LiveProcess| {
            let held = one.held.map_or("", |held| held.by.name());
            let text = format!("{} {held}", super::cells::process(one.process.as_ref()));
            !(self.hide_idle && one.sums.active == 0)
                && (words.is_empty() || has_all(&words, &text.to_lowercase()))
        };
        let all = live.processes.iter().enumerate();
        let mut places: Vec<usize> = all
            .filter(|(_, one)| shown(one))
            .map(|(place, _)| place)
            .collect();
        let at = |place: usize| &live.processes[place];
        let pid = |place: usize| at(place).process.as_ref().and_then(|process| process.pid);
        places.sort_by(|a, b| {
            let order = self.compare(&key_of_process(at(*a)), &key_of_process(at(*b)));
            order.then_with(|| pid(*a).cmp(&pid(*b)))
        });
        places
    }

    /// Returns the indices of the shown findings, worst first. Undecided ones follow.
    pub fn findings(&self, live: &LiveReport) -> Vec<usize> {
        let words = self.words();
        let decided = live
            .findings
            .iter()
            .map(|it| (it.rule.to_string(), &it.subject));
        let undecided = live
            .undecided
            .iter()
            .map(|it| (it.join_candidates(" "), &it.subject));
        let shown = |(rule, subject): (String, &diagnose::report::FindingSubject)| {
            let process = super::cells::process(subject.process.as_ref());
            let text = format!("{rule} {process} {} {}", subject.local, subject.remote);
            has_all(&words, &text.to_lowercase())
        };
        let all = decided.chain(undecided).enumerate();
        all.filter_map(|(place, it)| shown(it).then_some(place))
            .collect()
    }

    /// Returns the indices of the shown services, those with the most time first.
    pub fn services(&self, live: &LiveReport) -> Vec<usize> {
        let words = self.words();
        let all = live.services.iter().enumerate();
        let shown = all.filter(|(_, it)| {
            let part = it.first_part.map_or("", |part| part.text());
            let text = format!("{} {} {} {part}", it.name, it.address, it.role.name());
            has_all(&words, &text.to_lowercase())
        });
        shown.map(|(place, _)| place).collect()
    }

    /// Returns the words of the filter, in small letters.
    fn words(&self) -> Vec<String> {
        self.filter
            .split_whitespace()
            .map(str::to_lowercase)
            .collect()
    }

    /// Sorts missing values last, in either order.
    fn compare(&self, a: &Key, b: &Key) -> Ordering {
        let turn = |order: Ordering| {
            if self.reversed {
                order.reverse()
            } else {
                order
            }
        };
        let numbers = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => turn(b.total_cmp(&a)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        match self.sort {
            SortKey::Held => {
                let order = turn(b.severity.cmp(&a.severity));
                let order = order.then_with(|| numbers(a.limited, b.limited));
                order.then_with(|| numbers(a.out, b.out))
            }
            SortKey::Out => numbers(a.out, b.out),
            SortKey::In => numbers(a.into, b.into),
            SortKey::Rtt => numbers(a.rtt, b.rtt),
            SortKey::Retransmits => numbers(a.retransmits, b.retransmits),
            SortKey::Wait => numbers(a.wait, b.wait),
            SortKey::Process => turn(a.process.cmp(&b.process)),
            SortKey::Remote => {
                turn(a.remote.cmp(b.remote)).then_with(|| numbers(a.number, b.number))
            }
        }
    }
}

/// Value that rows are compared by.
struct Key<'a> {
    severity: Option<diagnose::report::Severity>,
    limited: Option<f64>,
    out: Option<f64>,
    into: Option<f64>,
    rtt: Option<f64>,
    retransmits: Option<f64>,
    wait: Option<f64>,
    number: Option<f64>,
    process: (Option<&'a str>, Option<u32>),
    remote: &'a str,
}

/// Returns name and pid of a process; both None if it is unknown.
fn name(process: Option<&Process>) -> (Option<&str>, Option<u32>) {
    let comm = process.and_then(|process| process.comm.as_deref());
    (comm, process.and_then(|process| process.pid))
}

/// Returns the values by which a connection is sorted.
fn key(one: &LiveConnection) -> Key<'_> {
    Key {
        severity: one.severity,
        limited: one.limited_share,
        out: one.out_bytes_per_s,
        into: one.in_bytes_per_s,
        rtt: one.srtt_us.map(f64::from),
        retransmits: one.retransmits.map(|number| number as f64),
        wait: one.blocked_share,
        number: None,
        process: name(one.process.as_ref()),
        remote: &one.remote,
    }
}

/// Returns the values by which a process is sorted.
fn key_of_process(one: &LiveProcess) -> Key<'_> {
    Key {
        severity: one.severity,
        limited: one.limited_share,
        out: Some(one.sums.out_bytes_per_s),
        into: Some(one.sums.in_bytes_per_s),
        rtt: one.srtt_us.map(f64::from),
        retransmits: Some(one.sums.retransmits as f64),
        wait: one.blocked_share,
        number: Some(one.sums.connections as f64),
        process: name(one.process.as_ref()),
        remote: "",
    }
}

/// Returns the text that a filter searches.
fn text_of(one: &LiveConnection) -> String {
    let process = super::cells::process(one.process.as_ref());
    let held = one.held.map_or("", |held| held.by.name());
    let rules: Vec<_> = one.findings.iter().map(|rule| rule.name()).collect();
    let rules = rules.join(" ");
    format!("{process} {} {} {held} {rules}", one.local, one.remote).to_lowercase()
}

/// Returns whether a text contains all words.
fn has_all(words: &[String], text: &str) -> bool {
    words.iter().all(|word| text.contains(word.as_str()))
}
