//! Requests of an opened recording: reads `calls`, `waits`, `preemptions` and `on_cpu_samples` side by side, so that none
//! runs ahead of the others.

use std::rc::Rc;

use table::Recording;
use table::tables::{Call, OnCpuSample, Preemption, TcpSample, TcpStage, Wait};

use super::{NAMING, recording_state};
use crate::report::Report;
use crate::requests::digests::DigestSet;
use crate::requests::page::RequestPage;
use crate::requests::report::RequestRow;
use crate::requests::{RequestFilter, RequestReport, RequestTable, Source};
use crate::rows::windows::WindowTimes;
use crate::waits::NameTable;

/// Reports the time of the selected requests by part, and the slowest `limit` of them.
pub fn requests(recording: &Recording, filter: RequestFilter, limit: usize) -> RequestReport {
    let mut table = begin(recording, filter, limit);
    feed_requests(recording, &mut table, |_| {});
    table.finish();
    table.report(recording_state(recording))
}

/// Adds what rules on requests find to a report, and the requests themselves. Returns those of a page, if it is wanted.
pub(super) fn add_requests(
    recording: &Recording,
    (names, digests): (Rc<NameTable>, &DigestSet),
    report: &mut Report,
    wants_page: bool,
) -> Option<RequestPage> {
    let mut table = table(recording, names, (RequestFilter::default(), 0));
    if wants_page {
        table = table.keeping_page();
    }
    feed_requests(recording, &mut table, |_| {});
    table.finish();
    report.add_findings(table.judge_requests(digests));
    if recording.rows::<Call>() == 0 {
        return None;
    }
    let (requests, page) = table.page(recording_state(recording));
    report.requests = Some(requests);
    page
}

/// Hands every wanted request to `take`, in about the order in which they ended.
pub fn for_each_request(
    recording: &Recording,
    filter: RequestFilter,
    mut take: impl FnMut(RequestRow),
) {
    let mut table = begin(recording, filter, 0).keeping_all();
    feed_requests(recording, &mut table, |table| {
        table.take_over().into_iter().for_each(&mut take);
    });
    table.finish();
    table.take_over().into_iter().for_each(&mut take);
}

/// Makes the analysis of requests, with names of processes and connections.
fn begin(recording: &Recording, filter: RequestFilter, limit: usize) -> RequestTable {
    let mut names = NameTable::from_header(recording.header()).with_stacks();
    recording.feed(NAMING, &mut [&mut names]);
    table(recording, names.complete(), (filter, limit))
}

/// Makes the analysis of requests with these names, filter and limit of rows.
fn table(
    recording: &Recording,
    names: Rc<NameTable>,
    wanted: (RequestFilter, usize),
) -> RequestTable {
    let manifest = (recording.coverage(), recording.loss());
    RequestTable::new(recording.header().clone(), names, manifest, wanted)
        .with_windows(WindowTimes::read(recording))
}

/// Feeds all rows; `after` each batch the requests that are over may be taken.
fn feed_requests(
    recording: &Recording,
    table: &mut RequestTable,
    mut after: impl FnMut(&mut RequestTable),
) {
    recording.scan::<TcpSample>(|rows| table.add_samples(&rows));
    recording.scan::<TcpStage>(|rows| table.add_stages(&rows));
    table.begin_rows();
    let mut waits = recording.batches::<Wait>();
    let mut calls = recording.batches::<Call>();
    let mut preemptions = recording.batches::<Preemption>();
    let mut samples = recording.batches::<OnCpuSample>();
    while let Some(source) = table.missing_source() {
        match source {
            Source::Waits => table.add_waits(waits.next().as_ref()),
            Source::Calls => table.add_calls(calls.next().as_ref()),
            Source::Preemptions => table.add_preemptions(preemptions.next().as_ref()),
            Source::Samples => table.add_on_cpu_samples(samples.next().as_ref()),
        }
        after(table);
    }
}
