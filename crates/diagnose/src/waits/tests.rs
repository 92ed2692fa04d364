//! Groups, filters and names, from rows to the report.

use serde_json::{Value, json};
use table::row_of;
use table::tables::{Connection, Connections, Process, Processes, Wait};

use super::*;
use crate::report::RecordingState;

const START_NS: u64 = 5_000_000_000;
const MS: u64 = 1_000_000;

fn header() -> Header {
    let header = json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 2,
        "clocksource": "", "detail": "waits", "arguments": [], "started_ns": START_NS,
        "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    });
    serde_json::from_value(header).unwrap()
}

/// Makes names of threads 71 and 72 of process 7, and 81 of process 8.
fn names() -> Rc<NameTable> {
    let mut names = NameTable::default();
    let mut connections = Connections::default();
    let row = json!({"conn": 41, "pid": 7, "local": "10.0.0.1:5000", "remote": "10.0.0.2:80"});
    connections.push(row_of::<Connection>(row).unwrap());
    names.add_connections(&connections);
    let mut processes = Processes::default();
    processes.push(row_of::<Process>(json!({"pid": 7, "comm": "client"})).unwrap());
    names.add_processes(&processes);
    names.complete()
}

/// Makes a wait of a thread that begins `at_ms` after the start; its process is a tenth of `tid`.
fn wait(tid: u64, at_ms: u64, blocked_ms: u64, more: Value) -> Wait {
    let woken_ns = START_NS + (at_ms + blocked_ms) * MS;
    let mut row = json!({
        "tid": tid, "pid": tid / 10, "start_ns": START_NS + at_ms * MS, "woken_ns": woken_ns,
        "end_ns": woken_ns + MS, "kind": "sleep", "waker": "interrupt", "waker_tid": 1,
        "waker_pid": 1, "uninterruptible": false,
    });
    row.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    row_of(row).unwrap()
}

/// Makes waits of three threads for a connection, a lock, a pipe and epoll.
fn rows() -> Waits {
    let on_conn = json!({"kind": "connection", "conn": 41});
    let by_thread = json!({
        "kind": "futex", "object": 0x1000, "waker": "thread", "waker_tid": 72, "waker_pid": 7,
    });
    let unseen = json!({
        "kind": "pipe", "object": 99, "waker": "unseen", "woken_ns": null, "waker_tid": null,
        "waker_pid": null,
    });
    let epoll = json!({"kind": "epoll", "fd": 3, "object": 5, "ready_conn": 41});
    let mut rows = Waits::default();
    for row in [
        wait(71, 0, 10, on_conn.clone()),
        wait(72, 5, 30, on_conn),
        wait(71, 20, 7, by_thread.clone()),
        wait(81, 20, 8, by_thread),
        wait(81, 30, 20, unseen),
        wait(72, 40, 5, epoll),
        wait(72, 50, 2, json!({})),
    ] {
        rows.push(row);
    }
    rows
}

fn report(grouping: Grouping, filter: WaitFilter) -> WaitReport {
    let mut table = WaitTable::new(header(), names(), grouping, filter);
    table.add(&rows());
    table.report(RecordingState::default(), usize::MAX)
}

/// Returns title, number of waits and blocked time of each group.
fn titles(report: &WaitReport) -> Vec<(String, u64, u64)> {
    let counts =
        |group: &report::WaitGroup| (group.identity.title(), group.count, group.blocked_ns / MS);
    report.groups.iter().map(counts).collect()
}

/// Turns expected (title, waits, blocked ms) into the type that [`titles`] returns.
fn expected(groups: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    let owned = |(title, count, ms): &(&str, u64, u64)| ((*title).to_owned(), *count, *ms);
    groups.iter().map(owned).collect()
}

#[test]
fn objects_are_named_and_a_futex_is_of_its_process() {
    let report = report(Grouping::Object, WaitFilter::default());
    let groups = [
        ("client[7] 10.0.0.1:5000 → 10.0.0.2:80", 2, 40),
        // The waking was not seen: the time until it ran again counts as blocked.
        ("pipe 99", 1, 21),
        ("process 8 futex 0x1000", 1, 8),
        ("client[7] futex 0x1000", 1, 7),
        ("client[7] epoll set 3", 1, 5),
        ("client[7] sleep", 1, 2),
    ];
    assert_eq!(titles(&report), expected(&groups));
    assert_eq!(report.groups[1].runq_ns, None);
    assert_eq!(report.groups[0].runq_ns, Some(2 * MS));
    assert_eq!(
        (report.groups[0].first_ns, report.groups[0].last_ns),
        (0, 36 * MS)
    );
    assert_eq!(report.groups[4].ready[0].identity.conn, Some(41));
    assert_eq!(
        (report.total.blocked_ns, report.total.waking_unseen),
        (83 * MS, 1)
    );
    let shares: f64 = report.groups.iter().map(|group| group.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
}

#[test]
fn threads_and_wakers_have_their_own_groups() {
    let by_thread = report(Grouping::Thread, WaitFilter::default());
    let groups = [
        ("client[7] thread 72", 3, 37),
        ("process 8 thread 81", 2, 29),
        ("client[7] thread 71", 2, 17),
    ];
    assert_eq!(titles(&by_thread), expected(&groups));
    let by_waker = report(Grouping::Waker, WaitFilter::default());
    let groups = [
        ("interrupts", 4, 47),
        ("not seen", 1, 21),
        ("client[7] thread 72", 2, 15),
    ];
    assert_eq!(titles(&by_waker), expected(&groups));
}

/// Returns the number of waits that a filter leaves.
fn count(filter: WaitFilter) -> u64 {
    report(Grouping::Object, filter).total.count
}

/// Makes a filter for the title of an object.
fn on(object: &str) -> WaitFilter {
    WaitFilter {
        object: Some(object.to_owned()),
        ..WaitFilter::default()
    }
}

#[test]
fn an_object_has_several_names() {
    for object in ["41", "10.0.0.2:80", "10.0.0.1:5000 -> 10.0.0.2:80"] {
        assert_eq!(count(on(object)), 2, "{object}");
    }
    assert_eq!(count(on("futex 0x1000")), 2);
    assert_eq!(count(on("client[7] futex 0x1000")), 1);
}

#[test]
fn filter_conditions_are_combined() {
    let (pid, tid) = (Some(7), Some(72));
    let longer_than_ns = Some(10 * MS);
    let all = WaitFilter::default;
    assert_eq!(count(WaitFilter { pid, ..all() }), 5);
    assert_eq!(count(WaitFilter { tid, ..on("41") }), 1);
    assert_eq!(
        count(WaitFilter {
            pid,
            ..on("futex 0x1000")
        }),
        1
    );
    let pid = Some(8);
    assert_eq!(count(WaitFilter { pid, ..on("41") }), 0);
    let filter = WaitFilter {
        longer_than_ns,
        ..on("41")
    };
    assert_eq!(count(filter.clone()), 1);
    let tid = Some(71);
    assert_eq!(count(WaitFilter { tid, ..filter }), 0);
}

#[test]
fn a_wait_is_in_one_of_two_neighbouring_spans() {
    for cut_ns in (0..60 * MS).step_by(MS as usize / 2) {
        let before = WaitFilter {
            to_ns: Some(cut_ns),
            ..WaitFilter::default()
        };
        let after = WaitFilter {
            from_ns: Some(cut_ns),
            ..WaitFilter::default()
        };
        let count = |filter| report(Grouping::Object, filter).total.count;
        assert_eq!(count(before) + count(after), 7, "{cut_ns}");
    }
}

#[test]
fn limit_applies_to_groups_not_to_sums() {
    let mut table = WaitTable::new(header(), names(), Grouping::Object, WaitFilter::default());
    table.add(&rows());
    let report = table.report(RecordingState::default(), 2);
    assert_eq!(
        (report.groups.len(), report.total.groups, report.total.count),
        (2, 6, 7)
    );
}

#[test]
fn unknown_object_is_reported_missing() {
    let mut filter = WaitFilter {
        object: Some("pipe 98".to_owned()),
        ..WaitFilter::default()
    };
    for (name, missing) in [("pipe 98", true), ("pipe 99", false)] {
        filter.object = Some(name.to_owned());
        let mut table = WaitTable::new(header(), names(), Grouping::Object, filter.clone());
        table.add(&rows());
        assert_eq!(table.object_is_missing(), missing);
    }
}

/// Returns the report of forty waits of 1 ms, and `slow` waits of 200 ms.
fn with_slow_waits(slow: u64) -> WaitReport {
    let mut rows = Waits::default();
    for nth in 0..40 {
        rows.push(wait(71, nth * 10, 1, json!({})));
    }
    for nth in 0..slow {
        rows.push(wait(71, 1_000 + nth * 300, 200, json!({})));
    }
    let filter = WaitFilter::default();
    let mut table = WaitTable::new(header(), names(), Grouping::Object, filter);
    table.add(&rows);
    table.report(RecordingState::default(), usize::MAX)
}

#[test]
fn slow_waits_that_are_too_few_for_a_population_are_listed() {
    for (slow, is_listed) in [(0, false), (1, true), (2, true), (40, false)] {
        let report = with_slow_waits(slow);
        let group = &report.groups[0];
        assert_eq!(group.few_slow.is_some(), is_listed, "{slow}");
        let both = group.few_slow.is_some() && group.populations.is_some();
        assert!(!both, "{slow}");
        let Some(few) = &group.few_slow else { continue };
        let near = |ns: u64, of: u64| ns.abs_diff(of) as f64 <= report.relative_error * of as f64;
        assert_eq!(few.durations_ns.len() as u64, slow);
        assert!(few.durations_ns.iter().all(|ns| near(*ns, 200 * MS)));
        assert!(near(few.others_max_ns, MS), "{few:?}");
    }
    assert!(with_slow_waits(40).groups[0].populations.is_some());
}

#[test]
fn system_calls_are_named_by_the_hosts_architecture() {
    let named = |architecture: Option<&str>, number: i32| {
        let header = Header {
            architecture: architecture.map(str::to_owned),
            ..header()
        };
        let names = Rc::new(NameTable::from_header(&header));
        let all = WaitFilter::default();
        let mut table = WaitTable::new(header, names, Grouping::Object, all);
        let mut rows = Waits::default();
        let other = json!({"kind": "other", "syscall": number});
        rows.push(wait(71, 0, 10, other));
        table.add(&rows);
        let report = table.report(RecordingState::default(), usize::MAX);
        report.groups[0].identity.name.clone()
    };
    // `__NR_execve`: 59 in syscall_64.tbl, 221 in asm-generic/unistd.h.
    assert_eq!(named(Some("x86_64"), 59), "system call execve");
    assert_eq!(named(Some("aarch64"), 221), "system call execve");
    assert_eq!(named(Some("aarch64"), 59), "system call pipe2");
    assert_eq!(named(Some("riscv64"), 59), "system call 59");
    assert_eq!(named(None, 59), "system call 59");
    assert_eq!(named(Some("x86_64"), 100_000), "system call 100000");
}
