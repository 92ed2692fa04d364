//! Requests as a page shows them: of the digest that was kept while they came.

use serde::Serialize;

use super::id::ServiceId;
use super::page_digest::PageDigest;
use super::part::{PartTimes, RequestPart};
use super::report::{self, PathStep, RequestReport};
use super::request::Request;
use super::request_table::RequestTable;
use crate::answer::RecordingState;

/// Steps in a page: about 10 MB of JSON. The slowest requests have theirs first.
const STEPS: usize = 50_000;

/// Requests as a page shows them.
#[derive(Debug, Clone, Serialize)]
pub struct RequestPage {
    /// Names of all parts, in JSON and in text.
    pub part_names: Vec<(&'static str, &'static str)>,
    /// The requests that the page holds, slowest first.
    pub held: Vec<HeldRequest>,
    /// How many there were, by time and duration.
    pub heat: HeatCells,
}

/// A request that the page holds.
#[derive(Debug, Clone, Serialize)]
pub struct HeldRequest {
    /// Its name.
    pub id: String,
    /// Position of its service in the report.
    pub service: usize,
    /// When it began, ns after the recording.
    pub begin_ns: u64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// Time of each part, ns.
    pub parts: PartTimes,
    /// The same in the order of time.
    pub path: Vec<PathStep>,
    /// Whether steps are missing in `path`, because there are too many.
    pub path_is_cut: bool,
    /// Whether the page leaves its path out because it has no room.
    pub path_is_left_out: bool,
    /// Bytes of the request: offset of the first, and after the last.
    pub request: (u64, u64),
    /// Bytes of the response.
    pub response: (u64, u64),
    /// Send and receive calls.
    pub calls: u64,
    /// Process and thread that sent or took it.
    pub pid: u32,
    /// See `pid`.
    pub tid: u32,
}

/// Counts of requests by service, largest part, begin and duration.
#[derive(Debug, Clone, Serialize)]
pub struct HeatCells {
    /// Width of a column, ns.
    pub bin_ns: u64,
    /// Position of the service in the report, position of the part in `part_names`, column, row, requests. Row r has
    /// durations from 2^(r/4) ns on.
    pub cells: Vec<(usize, usize, u64, u32, u64)>,
}

impl RequestTable {
    /// Returns the report of all rows, after [`RequestTable::finish`], and the data of the page if
    /// it was kept.
    pub fn page(self, recorded: RecordingState) -> (RequestReport, Option<RequestPage>) {
        assemble_page(self, recorded)
    }
}

/// Returns the report of a table that has all rows, and the page if it was kept.
fn assemble_page(
    mut table: RequestTable,
    recorded: RecordingState,
) -> (RequestReport, Option<RequestPage>) {
    let digest = table.listing.take_page();
    let page = digest.map(|digest| page(&table, digest));
    (table.report(recorded), page)
}

/// Makes the requests' part of the page: heat map, slowest requests and a sample.
fn page(table: &RequestTable, mut digest: PageDigest) -> RequestPage {
    let ranks = table.services.ranks();
    let rank = |service: &ServiceId| ranks.get(service).copied().unwrap_or(usize::MAX);
    let mut room = STEPS;
    let requests = digest.take_requests();
    let held = requests
        .iter()
        .map(|(service, request)| held_request(table, request, rank(service), &mut room))
        .collect();
    let mut cells: Vec<_> = digest
        .cells
        .iter()
        .map(|((service, part, bin, row), count)| {
            (rank(service), *part as usize, *bin, *row, *count)
        })
        .collect();
    cells.sort_unstable();
    let parts = RequestPart::ALL.iter();
    RequestPage {
        part_names: parts.map(|part| (part.name(), part.text())).collect(),
        held,
        heat: HeatCells {
            bin_ns: digest.bin_ns,
            cells,
        },
    }
}

/// Makes a request for the page; `room`: how many steps the page can still hold.
fn held_request(
    table: &RequestTable,
    request: &Request,
    service: usize,
    room: &mut usize,
) -> HeldRequest {
    let row = report::request_row(table, request);
    let steps = row.path.len();
    let fits = steps <= *room;
    *room -= if fits { steps } else { 0 };
    let thread = table.history.get(request.thread);
    HeldRequest {
        id: row.id,
        service,
        begin_ns: row.begin_ns.saturating_sub(table.header.started_ns),
        duration_ns: row.duration_ns,
        parts: row.parts,
        path: if fits { row.path } else { Vec::new() },
        path_is_cut: row.path_is_cut,
        path_is_left_out: !fits,
        request: row.request,
        response: row.response,
        calls: row.calls,
        pid: thread.pid,
        tid: thread.tid,
    }
}
