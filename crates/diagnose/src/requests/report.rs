//! The contract `whylat.requests/1`: what `whylat report --requests` and `--request` say. A part that is absent took no
//! time; the parts of a request add up to its duration.

use serde::Serialize;

use super::class::ConnectionClass;
use super::contrast;
use super::contrast_report::Contrast;
use super::functions::{FunctionShares, ServiceFunctions};
use super::part::{PartShares, PartTimes, RequestPart};
use super::request::Request;
use super::request_table::RequestTable;
use super::service::{ServiceDigest, ServiceKey, Side};
use super::trail::{RequestStep, StepSubject};
use super::turns::StreamRange;
use crate::answer::{About, Process, RecordingState};
use crate::histogram::RELATIVE_ERROR;

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.requests/1";

/// Requests of a recording.
#[derive(Debug, Clone, Serialize)]
pub struct RequestReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Of what recording.
    #[serde(flatten)]
    pub about: About,
    /// Largest relative error of p50, p90 and p99.
    pub relative_error: f64,
    /// The services, those with the most time first.
    pub services: Vec<Service>,
    /// The slowest requests, slowest first.
    pub requests: Vec<RequestRow>,
    /// Connections without requests, and why.
    pub not_requests: Vec<NotRequests>,
    /// Requests that are not judged, because rows of their calls were lost.
    pub broken: u64,
    /// Requests that no response was seen of.
    pub unanswered: u64,
    /// Requests with a response that may go on after the recording.
    pub unfinished: u64,
    /// Requests that the filter excluded; for the text.
    #[serde(skip)]
    pub excluded: u64,
}

/// Requests of one process, one address and one side.
#[derive(Debug, Clone, Serialize)]
pub struct Service {
    /// Command name of the process.
    pub name: String,
    /// Side of the connection on which the process is.
    pub role: Side,
    /// Address at which it listens, or that it asks.
    pub address: String,
    /// The process that most of its time was with at the other end; absent: it is of another host, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_end: Option<Process>,
    /// How many requests.
    pub requests: u64,
    /// How long they took.
    pub duration_ns: DurationSpread,
    /// Time of the requests, by part.
    pub parts: ServiceParts,
    /// Share of the time of all of them that is unknown.
    pub unknown: f64,
    /// Most requests that one waited behind; 0: none was seen to wait.
    pub queue_most: u64,
    /// Functions that ran while they computed; absent: nothing was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<ServiceFunctions>,
    /// Differences between the slowest and the others; absent: all took about as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contrast: Option<Contrast>,
}

impl Service {
    /// Returns the service's title, as reports print it.
    pub fn title(&self) -> String {
        title(&self.name, self.role, &self.address)
    }
}

/// How long requests took, ns.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DurationSpread {
    /// Half were no longer.
    pub p50: u64,
    /// 90 % were no longer.
    pub p90: u64,
    /// 99 % were no longer.
    pub p99: u64,
    /// The longest; exact.
    pub max: u64,
}

/// Parts of requests as shares of their time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ServiceParts {
    /// Of all.
    pub all: PartShares,
    /// Of the slowest 1 %.
    pub slowest: PartShares,
}

/// One request.
#[derive(Debug, Clone, Serialize)]
pub struct RequestRow {
    /// Id of the request, which option `--request` takes.
    pub id: String,
    /// Its service: process, direction and address.
    pub service: String,
    /// When its first byte was there, `CLOCK_MONOTONIC` ns.
    pub begin_ns: u64,
    /// How long until the last byte of its response, ns.
    pub duration_ns: u64,
    /// Time by part, ns.
    pub parts: PartTimes,
    /// Steps of the request, in the order of time.
    pub path: Vec<PathStep>,
    /// Whether steps are missing in `path`, because there are too many.
    pub path_is_cut: bool,
    /// Bytes of the request: offset of the first, and after the last.
    pub request: (u64, u64),
    /// Bytes of the response.
    pub response: (u64, u64),
    /// Send and receive calls.
    pub calls: u64,
    /// Functions that ran while it computed; absent: no sample hit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<FunctionShares>,
}

/// A step of a request.
#[derive(Debug, Clone, Serialize)]
pub struct PathStep {
    /// When it began, ns after the request.
    pub after_ns: u64,
    /// How long it took, ns.
    pub ns: u64,
    /// Part of the request to which the time belongs.
    pub part: RequestPart,
    /// The process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// The thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// The connection that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The process of this host at its other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_end: Option<Process>,
    /// Requests that it waited behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Thread or interrupt that ended the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<Waker>,
    /// Where in the program it waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}

/// A thread that ended a wait.
#[derive(Debug, Clone, Serialize)]
pub struct Waker {
    /// Its process.
    pub process: Process,
    /// Its id.
    pub tid: u32,
}

/// Connections of a service that have no requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotRequests {
    /// Address at which the service listens, or that it asks.
    pub address: String,
    /// Why.
    pub why: &'static str,
    /// Command name of the process.
    pub name: String,
    /// How many connections.
    pub connections: u64,
}

impl ConnectionClass {
    /// Returns why connections of this class have no requests; `None`: they have.
    const fn no_requests_reason(self) -> Option<&'static str> {
        match self {
            Self::TurnTaking => None,
            Self::OneSided => Some("one_way: only one end sent"),
            Self::Interleaved => Some(
                "interleaved: both ends sent at once, as with pipelined or multiplexed requests",
            ),
            Self::Pushed => Some(
                "pushed: one end sends without a request, as with subscriptions and replication",
            ),
            Self::Unanswered => Some("unanswered: no response was seen"),
        }
    }
}

impl NotRequests {
    /// Returns whether these connections may carry requests that nothing separates.
    pub fn may_have_requests(&self) -> bool {
        ConnectionClass::Interleaved.no_requests_reason() == Some(self.why)
    }
}

impl RequestReport {
    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.services.iter().map(|it| it.requests).sum()
    }
}

impl RequestTable {
    /// Returns the requests that ended since the last call, in about the order of their ends.
    pub fn take_over(&mut self) -> Vec<RequestRow> {
        let over = self.listing.take_over();
        let rows = over.iter().map(|it| request_row(self, it));
        rows.collect()
    }

    /// Returns the report of all rows added, after [`RequestTable::finish`].
    pub fn report(self, recorded: RecordingState) -> RequestReport {
        assemble_report(self, recorded)
    }
}

/// Returns the report of a table that has all rows.
fn assemble_report(mut table: RequestTable, recorded: RecordingState) -> RequestReport {
    let slowest = table.listing.take_slowest();
    let requests = slowest.iter().map(|it| request_row(&table, it)).collect();
    let services = table.services.rank_services();
    let services = services
        .into_iter()
        .filter_map(|(key, digest)| assemble_service(&table, key, digest));
    RequestReport {
        schema: SCHEMA,
        relative_error: RELATIVE_ERROR,
        services: services.collect(),
        requests,
        not_requests: not_requests(&table),
        broken: table.broken,
        unanswered: table.unanswered,
        unfinished: table.unfinished,
        excluded: table.excluded,
        about: About::new(&table.header, recorded, table.latest_ns, (0, u64::MAX)),
    }
}

/// Makes the report of a service; None if it had no request.
fn assemble_service(
    table: &RequestTable,
    key: &ServiceKey,
    digest: &ServiceDigest,
) -> Option<Service> {
    let durations = digest.durations();
    let quantile = |share| durations.quantile_ns(share);
    let all = digest.all();
    let functions = digest.functions();
    Some(Service {
        name: key.name.clone(),
        role: key.side,
        address: key.address.clone(),
        other_end: other_end(table, key, digest),
        requests: digest.requests(),
        duration_ns: DurationSpread {
            p50: quantile(0.5)?,
            p90: quantile(0.9)?,
            p99: quantile(0.99)?,
            max: durations.range_ns()?.1,
        },
        unknown: all.share(RequestPart::Unknown),
        parts: ServiceParts {
            all,
            slowest: PartShares(digest.slowest().all),
        },
        queue_most: digest.queue_most,
        functions: (!functions.is_empty()).then(|| ServiceFunctions {
            all: functions.report(&table.functions),
            slowest: digest.slowest_functions().report(&table.functions),
        }),
        contrast: contrast::compare(table, digest),
    })
}

/// Returns the process on this host that serves a client's requests; `None` if it is elsewhere.
fn other_end(table: &RequestTable, key: &ServiceKey, digest: &ServiceDigest) -> Option<Process> {
    let is_client = key.side == Side::Client;
    let most = digest.others.worst(1).into_iter().next();
    let pid = most.filter(|it| is_client && it.number != 0)?.number;
    Some(table.names.process(pid))
}

/// Makes the row of a request for reports.
pub(super) fn request_row(table: &RequestTable, request: &Request) -> RequestRow {
    let endpoint = table.endpoints.get(request.endpoint);
    let key = table.services.key(endpoint.service);
    let range = |range: StreamRange| (range.first, range.end);
    let steps = request.breakdown.steps.iter();
    RequestRow {
        id: request.id.to_string(),
        service: title(&key.name, key.side, &key.address),
        begin_ns: request.begin_ns,
        duration_ns: request.duration_ns(),
        parts: request.breakdown.parts,
        path: steps.map(|step| path_step(table, request, step)).collect(),
        path_is_cut: request.breakdown.is_cut,
        request: range(request.request),
        response: range(request.response),
        calls: request.calls,
        functions: Some(&request.breakdown.functions)
            .filter(|it| !it.is_empty())
            .map(|it| it.report(&table.functions)),
    }
}

/// Returns the title of a service: `client → address`, `server at its own address`.
fn title(name: &str, side: Side, address: &str) -> String {
    let arrow = match side {
        Side::Client => "→",
        Side::Server => "at",
    };
    format!("{name} {arrow} {address}")
}

/// Makes the report's entry of a step: thread, part, time and what it waited for.
fn path_step(table: &RequestTable, request: &Request, step: &RequestStep) -> PathStep {
    let thread = step.thread.map(|thread| table.history.get(thread));
    let StepSubject {
        endpoint,
        behind,
        waker,
        stack,
    } = step.subject;
    let connection = endpoint.map(|it| table.endpoints.get(it).conn);
    let peer = endpoint.and_then(|it| table.endpoints.get(it).peer);
    let peer = peer.map(|it| table.endpoints.get(it).pid);
    let waker = waker.map(|waker| table.history.get(waker));
    PathStep {
        after_ns: step.begin_ns.saturating_sub(request.begin_ns),
        ns: step.length_ns(),
        part: step.part,
        process: thread.map(|thread| table.names.process(thread.pid)),
        tid: thread.map(|thread| thread.tid),
        connection: connection.map(|conn| table.names.connection(conn).name),
        other_end: peer
            .filter(|pid| *pid != 0)
            .map(|pid| table.names.process(pid)),
        behind: (behind > 0).then_some(behind),
        woken_by: waker.map(|waker| Waker {
            process: table.names.process(waker.pid),
            tid: waker.tid,
        }),
        stack: stack.and_then(|stack| table.names.stack_title(stack)),
    }
}

/// Returns connections without requests, by service, and why.
fn not_requests(table: &RequestTable) -> Vec<NotRequests> {
    let classes = table.classes.iter();
    let mut all: Vec<_> = classes
        .filter_map(|((service, class), connections)| {
            let key = table.services.key(*service);
            Some(NotRequests {
                address: key.address.clone(),
                why: class.no_requests_reason()?,
                name: key.name.clone(),
                connections: *connections,
            })
        })
        .collect();
    all.sort_by(|a, b| {
        let key = |it: &NotRequests| (it.address.clone(), it.name.clone(), it.why, it.connections);
        key(a).cmp(&key(b))
    });
    all
}
