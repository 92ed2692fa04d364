//! The counts of each run: things that the program decides, not the speed of the machine.

use table::tables::{DnsWait, FailedConnect};
use table::{Recording, Role};

use crate::report::connection::Totals;
use crate::report::{Connection, Report};
use crate::requests::Side;

/// Cause of the difference between two runs of the same program in a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountSource {
    /// Nothing but the program itself.
    Program,
    /// The machine as well: when threads run, and how bytes fall into segments and calls.
    Machine,
}

/// A count of one run: how many, of how many others where it is a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountValue {
    /// How many.
    pub events: u64,
    /// The divisor; 1: they are no ratio.
    pub per: u64,
}

impl CountValue {
    /// Returns the number that is compared.
    pub fn value(self) -> f64 {
        self.events as f64 / self.per as f64
    }
}

type ReadCount = fn(&CheckedRecording<'_>) -> Option<CountValue>;

/// A count of a run.
pub struct CheckCount {
    /// The name in baselines and in `--limit`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Cause of differences between runs.
    pub source: CountSource,
    read: ReadCount,
}

impl CheckCount {
    /// Returns the count of a run; `None`: the recording does not have it.
    pub fn read_from(&self, run: &CheckedRecording<'_>) -> Option<CountValue> {
        (self.read)(run)
    }

    /// Finds a count by its name.
    pub fn find(name: &str) -> Option<&'static Self> {
        COUNTS.iter().find(|it| it.name == name)
    }
}

/// A recording of one run, with its diagnosis.
pub struct CheckedRecording<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Its diagnosis.
    pub report: &'a Report,
}

/// Makes a count of the recorded program, such as its calls.
const fn program(name: &'static str, title: &'static str, read: ReadCount) -> CheckCount {
    CheckCount {
        name,
        title,
        source: CountSource::Program,
        read,
    }
}

/// Makes a count that other programs on the machine may change.
const fn machine_count(name: &'static str, title: &'static str, read: ReadCount) -> CheckCount {
    CheckCount {
        source: CountSource::Machine,
        ..program(name, title, read)
    }
}

/// All counts, in the order in which they are shown. A baseline that does not have one of them is compared by the others.
pub static COUNTS: &[CheckCount] = &[
    program("connections", "connections opened", |it| {
        whole_count(it.opened_connections()?)
    }),
    program("requests", "requests sent", |it| {
        whole_count(it.requests(Side::Client)?)
    }),
    program("requests_served", "requests served", |it| {
        whole_count(it.requests(Side::Server)?)
    }),
    machine_count("asked_per_served", "requests sent for each served", |it| {
        count_ratio(it.requests(Side::Client)?, it.requests(Side::Server)?)
    }),
    machine_count("calls", "send and receive calls", |it| {
        whole_count(it.call_count()?)
    }),
    machine_count("calls_per_request", "calls for each request", |it| {
        count_ratio(it.call_count()?, it.all_requests()?)
    }),
    machine_count("bytes", "bytes sent and received", |it| {
        whole_count(it.byte_count()?)
    }),
    machine_count("bytes_per_request", "bytes for each request", |it| {
        count_ratio(it.byte_count()?, it.all_requests()?)
    }),
    machine_count("dns_waits", "waits for name servers", |it| {
        whole_count(it.recording.rows::<DnsWait>())
    }),
    program("failed_connects", "connections that failed", |it| {
        whole_count(it.recording.rows::<FailedConnect>())
    }),
    machine_count("retransmits", "segments retransmitted", |it| {
        whole_count(it.sum(|of| of.retransmits)?)
    }),
    machine_count("timeouts", "retransmission timeouts", |it| {
        whole_count(it.sum(|of| of.timeouts)?)
    }),
    machine_count("nagle_holds", "segments held by Nagle's algorithm", |it| {
        whole_count(it.sum(|of| of.nagle_holds)?)
    }),
    machine_count("delayed_acks", "waits for a delayed ACK", |it| {
        whole_count(it.sum(|of| of.delayed_acks)?)
    }),
    machine_count("zero_windows", "windows that went to zero", |it| {
        whole_count(it.sum(|of| of.zero_windows)?)
    }),
];

/// Makes the value of a count without a divisor.
fn whole_count(events: u64) -> Option<CountValue> {
    Some(CountValue { events, per: 1 })
}

/// Makes the value of a count for each of `per` others; `None`: `per` is 0.
fn count_ratio(events: u64, per: u64) -> Option<CountValue> {
    (per > 0).then_some(CountValue { events, per })
}

impl CheckedRecording<'_> {
    /// Connections that the recorded programs opened meanwhile, at the end that opened each; `None`: not all are known.
    fn opened_connections(&self) -> Option<u64> {
        let is_opened = |it: &&Connection| it.opened_ns.is_some() && it.role == Role::Client;
        let opened = self.report.connections.iter().filter(is_opened);
        self.knows_all().then(|| opened.count() as u64)
    }

    /// Returns whether every connection is judged and listed.
    fn knows_all(&self) -> bool {
        self.report.connections_not_judged + self.report.connections_not_listed == 0
    }

    /// Requests of one side; `None`: no calls were recorded.
    fn requests(&self, side: Side) -> Option<u64> {
        let services = &self.report.requests.as_ref()?.services;
        let of_side = services.iter().filter(|it| it.role == side);
        Some(of_side.map(|it| it.requests).sum())
    }

    /// Returns the number of requests of clients and servers; None if one of them is unknown.
    fn all_requests(&self) -> Option<u64> {
        Some(self.requests(Side::Client)? + self.requests(Side::Server)?)
    }

    /// Returns the number of send and receive calls of all connections; None if unknown.
    fn call_count(&self) -> Option<u64> {
        Some(self.sum(|it| it.send_calls)? + self.sum(|it| it.receive_calls)?)
    }

    /// Returns the bytes that all connections sent and received; None if unknown.
    fn byte_count(&self) -> Option<u64> {
        Some(self.sum(|it| it.bytes_sent)? + self.sum(|it| it.bytes_received)?)
    }

    /// Returns the sum of a total over all connections; `None`: it is unknown for some.
    fn sum(&self, of: impl Fn(&Totals) -> Option<u64>) -> Option<u64> {
        let connections = &self.report.connections;
        let known = connections.iter().filter_map(|it| of(&it.totals));
        let sum = known.fold(None, |sum: Option<u64>, it| Some(sum.unwrap_or(0) + it));
        let sum = sum.or(connections.is_empty().then_some(0));
        sum.filter(|_| self.knows_all())
    }
}
