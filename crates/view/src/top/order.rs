//! Which rows a list shows, and in which order. In: a look, a filter, a column. Out: places of rows.

use std::cmp::Ordering;

use diagnose::live::{Live, LiveConnection, LiveProcess};
use diagnose::report::Process;

use super::cells::ListColumn;

/// By what a list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKey {
    /// By what was found, then by the share of the time that it is held up: the default.
    Held,
    /// By what it sends.
    Out,
    /// By what it receives.
    In,
    /// By round-trip time.
    Rtt,
    /// By retransmitted segments.
    Retransmits,
    /// By the time that threads were blocked on it.
    Wait,
    /// By the name of the process.
    Process,
    /// By the remote address; processes by the number of connections.
    Remote,
}

impl SortKey {
    /// All, in the order in which `>` goes through them.
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

    /// The name on the command line.
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

    /// The column that shows it.
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

    /// So many further in [`Self::ALL`].
    pub fn step(self, by: isize) -> Self {
        let place = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        let length = Self::ALL.len() as isize;
        Self::ALL[(place as isize + by).rem_euclid(length) as usize]
    }
}

/// What a list shows, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOrder {
    /// By what.
    pub sort: SortKey,
    /// The other way round.
    pub reversed: bool,
    /// Only rows with this text in the process, an address, or what holds them up; words are looked for apart.
    pub filter: String,
    /// Without connections on which nothing happened.
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
    /// Places of the connections that are shown; with `of`, those of one process.
    pub fn connections(&self, live: &Live, of: Option<&Option<Process>>) -> Vec<usize> {
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

    /// Places of the processes that are shown.
    pub fn processes(&self, live: &Live) -> Vec<usize> {
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

    /// Places of the findings that are shown, in their own order: the worst first. Undecided ones follow.
    pub fn findings(&self, live: &Live) -> Vec<usize> {
        let words = self.words();
        let decided = live
            .findings
            .iter()
            .map(|it| (it.rule.to_string(), &it.subject));
        let undecided = live
            .undecided
            .iter()
            .map(|it| (it.join_candidates(" "), &it.subject));
        let shown = |(rule, subject): (String, &diagnose::report::Subject)| {
            let process = super::cells::process(subject.process.as_ref());
            let text = format!("{rule} {process} {} {}", subject.local, subject.remote);
            has_all(&words, &text.to_lowercase())
        };
        let all = decided.chain(undecided).enumerate();
        all.filter_map(|(place, it)| shown(it).then_some(place))
            .collect()
    }

    fn words(&self) -> Vec<String> {
        self.filter
            .split_whitespace()
            .map(str::to_lowercase)
            .collect()
    }

    /// What is not measured comes last, however it is sorted.
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

/// What rows are compared by.
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

fn name(process: Option<&Process>) -> (Option<&str>, Option<u32>) {
    let comm = process.and_then(|process| process.comm.as_deref());
    (comm, process.and_then(|process| process.pid))
}

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

/// All that a filter looks at.
fn text_of(one: &LiveConnection) -> String {
    let process = super::cells::process(one.process.as_ref());
    let held = one.held.map_or("", |held| held.by.name());
    let rules: Vec<_> = one.findings.iter().map(|rule| rule.name()).collect();
    let rules = rules.join(" ");
    format!("{process} {} {} {held} {rules}", one.local, one.remote).to_lowercase()
}

fn has_all(words: &[String], text: &str) -> bool {
    words.iter().all(|word| text.contains(word.as_str()))
}
