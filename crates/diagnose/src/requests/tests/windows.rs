//! Requests of windows: each is a recording of its own.

use proptest::prelude::*;
use table::tables::{Window, Windows};

use super::*;
use crate::rows::windows::WindowTimes;

/// A request to a server: when it had arrived, was read and was answered.
#[derive(Debug, Clone, Copy)]
struct ServedRequest {
    begin_ns: u64,
    read_ns: u64,
    end_ns: u64,
}

/// Makes requests one after the other, with these pauses and lengths.
fn served(lengths: &[(u64, u64, u64)]) -> Vec<ServedRequest> {
    let mut now_ns = MS;
    let one = |&(pause_ns, unread_ns, takes_ns): &(u64, u64, u64)| {
        let begin_ns = now_ns + pause_ns;
        let read_ns = begin_ns + unread_ns;
        now_ns = read_ns + takes_ns;
        ServedRequest {
            begin_ns,
            read_ns,
            end_ns: now_ns,
        }
    };
    lengths.iter().map(one).collect()
}

/// Makes windows with these pauses and lengths.
fn windows(lengths: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut now_ns = 0;
    let one = |&(pause_ns, takes_ns): &(u64, u64)| {
        let begin_ns = now_ns + pause_ns;
        now_ns = begin_ns + takes_ns;
        (begin_ns, now_ns)
    };
    lengths.iter().map(one).collect()
}

/// Rows of the calls that end in windows.
fn rows(served: &[ServedRequest], windows: &[(u64, u64)]) -> Rows {
    let mut rows = Rows::server();
    for it in served {
        rows.calls.push(Call {
            unread_ns: Some(it.read_ns - it.begin_ns),
            ..call(1, it.read_ns, false, 10, 70)
        });
        rows.calls.push(call(1, it.end_ns, true, 20, 70));
    }
    let mut rows = rows.with_offsets();
    let is_seen = |it: &Call| {
        windows
            .iter()
            .any(|(begin_ns, end_ns)| (*begin_ns..=*end_ns).contains(&it.end_ns))
    };
    rows.calls.retain(is_seen);
    rows
}

fn report(rows: &Rows, windows: &[(u64, u64)], batch: usize) -> RequestReport {
    let mut columns = Windows::default();
    for (begin_ns, end_ns) in windows {
        columns.push(Window {
            begin_ns: *begin_ns,
            end_ns: Some(*end_ns),
        });
    }
    let table = rows
        .table(&[])
        .with_windows(WindowTimes::from_rows(&columns, 0));
    rows.fill(table, batch).report(RecordingState::default())
}

/// Returns the requests that lie in one window.
fn whole(served: &[ServedRequest], windows: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let is_whole = |it: &&ServedRequest| {
        windows
            .iter()
            .any(|(begin_ns, end_ns)| *begin_ns <= it.begin_ns && it.end_ns <= *end_ns)
    };
    let whole = served.iter().filter(is_whole);
    whole
        .map(|it| (it.begin_ns, it.end_ns - it.begin_ns))
        .collect()
}

proptest! {
    #[test]
    fn requests_are_those_that_lie_in_one_window(
        lengths in prop::collection::vec((1..20_000_u64, 0..20_000_u64, 1..50_000_u64), 1..60),
        edges in prop::collection::vec((1..300_000_u64, 1..300_000_u64), 1..12),
        batch in 1..50_usize,
    ) {
        // no tie decides
        let lengths: Vec<_> = lengths.iter().map(|it| (it.0 * 2, it.1 * 2, it.2 * 2)).collect();
        let edges: Vec<_> = edges.iter().map(|it| (it.0 * 2, it.1 * 2)).collect();
        let served = served(&lengths);
        let mut windows = windows(&edges);
        windows.iter_mut().for_each(|it| *it = (it.0 + MS + 1, it.1 + MS + 1));
        let report = report(&rows(&served, &windows), &windows, batch);
        let mut found: Vec<_> = report.requests.iter().map(|it| (it.begin_ns, it.duration_ns)).collect();
        found.sort_unstable();
        prop_assert_eq!(found, whole(&served, &windows));
    }
}

/// A thread was seen in two windows. What lies between was not computing, nor a pause of a connection or a thread.
#[test]
fn time_between_windows_is_in_no_sum() {
    let served = served(&[(MS, 0, MS), (MS, 0, MS), (500 * MS, 0, MS), (MS, 0, MS)]);
    let windows = [(0, 10 * MS), (400 * MS, 600 * MS)];
    let mut columns = Windows::default();
    for (begin_ns, end_ns) in windows {
        columns.push(Window {
            begin_ns,
            end_ns: Some(end_ns),
        });
    }
    let rows = rows(&served, &windows);
    let table = rows
        .table(&[])
        .with_windows(WindowTimes::from_rows(&columns, 0));
    let table = rows.fill(table, usize::MAX);
    let (_, digest) = table.services.rank_services().remove(0);
    let series = &digest.series;
    assert_eq!((series.connections, series.threads), (1, 1));
    assert_eq!((series.gaps_ns, series.followed), (2 * MS, 2));
    assert_eq!(digest.requests(), 4);
}

#[test]
fn rules_that_are_not_asked_have_these_names() {
    let known: Vec<_> = crate::REQUEST_RULES
        .iter()
        .map(|it| it.id().name())
        .collect();
    let mut names = crate::windows::RULES_NOT_ASKED.iter();
    assert!(names.all(|name| known.contains(name)));
}
