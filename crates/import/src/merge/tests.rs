use proptest::prelude::*;
use table::{ActivitySource, Columns, row_of};

use super::*;

type Row<'a> = (
    ActivityKind,
    &'a str,
    Option<u16>,
    Option<u32>,
    u64,
    u64,
    u16,
);

/// Makes activities from a source.
fn rows(rows: &[Row<'_>], source: ActivitySource) -> Activities {
    let mut activities = Activities::default();
    for (kind, name, cpu, tid, begin_ns, end_ns, depth) in rows {
        let row = serde_json::json!({
            "cpu": cpu, "tid": tid, "pid": tid, "begin_ns": begin_ns, "end_ns": end_ns, "depth": depth,
            "kind": kind.name(), "name": name, "source": source.name(), "begin_seen": true, "end_seen": true,
        });
        activities.push(row_of(row).expect("a row"));
    }
    activities
}

const TASK: ActivityKind = ActivityKind::Task;
const CALL: ActivityKind = ActivityKind::Syscall;
const IRQ: ActivityKind = ActivityKind::Irq;
const FUNCTION: ActivityKind = ActivityKind::Function;

/// Makes the spans of a thread with one call, an interrupt within it, and another thread.
fn recorded() -> Activities {
    rows(
        &[
            (TASK, "server", Some(0), Some(7), 100, 200, 0),
            (CALL, "read", Some(0), Some(7), 110, 190, 1),
            (IRQ, "eth0", Some(0), Some(7), 140, 160, 2),
            (TASK, "other", Some(0), Some(8), 200, 300, 0),
        ],
        ActivitySource::Tracepoints,
    )
}

/// Returns name, begin, end, depth, and whether begin and end were seen.
fn spans_of(merged: &MergedFunctions) -> Vec<(String, u64, u64, u16, bool, bool)> {
    let all = &merged.activities;
    let one = |row: usize| {
        let name = all.name[row].clone().unwrap_or_default();
        let (begin_ns, end_ns) = (all.begin_ns[row], all.end_ns[row]);
        let seen = (all.begin_seen[row], all.end_seen[row]);
        (name, begin_ns, end_ns, all.depth[row], seen.0, seen.1)
    };
    (0..all.len()).map(one).collect()
}

/// Merges a trace into the recording, with an error of 3 ns.
fn merged(trace: &[Row<'_>]) -> MergedFunctions {
    let trace = rows(trace, ActivitySource::FunctionGraph);
    merge(&recorded(), &trace, |ns| Some((ns, 3)))
}

#[test]
fn functions_lie_in_calls_and_around_interrupts() {
    let merged = merged(&[
        (FUNCTION, "tcp_recvmsg", Some(0), Some(7), 120, 180, 0),
        (FUNCTION, "handle_irq", Some(0), Some(7), 135, 165, 1),
        (FUNCTION, "eth_poll", Some(0), Some(7), 145, 150, 2),
    ]);
    let expected = [
        ("server", 100, 200, 0),
        ("read", 110, 190, 1),
        ("tcp_recvmsg", 120, 180, 2),
        ("handle_irq", 135, 165, 3),
        ("eth0", 140, 160, 4),
        ("eth_poll", 145, 150, 5),
        ("other", 200, 300, 0),
    ];
    let expected =
        expected.map(|(name, begin, end, depth)| (name.to_owned(), begin, end, depth, true, true));
    assert_eq!(spans_of(&merged), expected);
    assert_eq!(
        (merged.functions, merged.outside, merged.error_ns),
        (3, 0, 3)
    );
}

#[test]
fn function_is_split_at_a_crossing() {
    // it begins before the interrupt and ends within it; the other begins within the call and outlasts it
    let merged = merged(&[
        (FUNCTION, "irq_enter", Some(0), Some(7), 135, 145, 0),
        (FUNCTION, "exit_work", Some(0), Some(7), 185, 195, 0),
    ]);
    let functions: Vec<_> = spans_of(&merged)
        .into_iter()
        .filter(|(name, ..)| name == "irq_enter" || name == "exit_work")
        .collect();
    let piece = |name: &str, begin, end, depth, begins, ends| {
        (name.to_owned(), begin, end, depth, begins, ends)
    };
    assert_eq!(
        functions,
        [
            piece("irq_enter", 135, 140, 2, true, false),
            piece("irq_enter", 140, 145, 3, false, true),
            piece("exit_work", 185, 190, 2, true, false),
            piece("exit_work", 190, 195, 1, false, true),
        ]
    );
    assert_eq!(merged.functions, 4);
}

#[test]
fn a_function_belongs_to_its_thread() {
    let merged = merged(&[
        // it goes to sleep, and the next thread has nothing to do with it
        (FUNCTION, "schedule", Some(0), Some(7), 195, 260, 0),
        // nobody knows the CPU
        (FUNCTION, "parse", None, Some(8), 150, 240, 0),
        (FUNCTION, "elsewhere", Some(1), Some(9), 150, 160, 0),
        (
            ActivityKind::DecodeError,
            "lost",
            Some(0),
            None,
            150,
            150,
            0,
        ),
        (TASK, "server", Some(0), Some(7), 100, 200, 0),
    ]);
    let functions: Vec<_> = spans_of(&merged)
        .into_iter()
        .filter(|(name, ..)| name == "schedule" || name == "parse")
        .collect();
    assert_eq!(
        functions,
        [
            ("schedule".to_owned(), 195, 200, 1, true, false),
            ("parse".to_owned(), 200, 240, 1, false, true),
        ]
    );
    assert_eq!((merged.outside, merged.gaps, merged.others), (1, 1, 1));
}

#[test]
fn a_time_that_cannot_be_converted_is_counted() {
    let trace = rows(
        &[(FUNCTION, "f", Some(0), Some(7), 120, 130, 0)],
        ActivitySource::IntelPt,
    );
    let merged = merge(&recorded(), &trace, |_| None);
    assert_eq!((merged.timeless, merged.functions), (1, 0));
    assert_eq!(merged.activities, recorded());
}

/// Generates spans as one thread makes them: each within the span around it.
fn nested(depth_most: u16, from_ns: u64) -> impl Strategy<Value = Vec<(u64, u64, u16)>> {
    prop::collection::vec((0_u64..12, 1_u64..30, 0..=depth_most), 1..40).prop_map(move |parts| {
        let mut rows: Vec<(u64, u64, u16)> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut now = from_ns;
        for (pause, length, depth) in parts {
            now += pause;
            // what follows at its depth ends it
            for ended in open.split_off(usize::from(depth).min(open.len())) {
                rows[ended].1 = rows[ended].1.min(now);
            }
            open.retain(|row| rows[*row].1 > now);
            let end = open
                .last()
                .map_or(now + length, |row| rows[*row].1.min(now + length));
            let depth = u16::try_from(open.len()).unwrap_or(0);
            open.push(rows.len());
            rows.push((now, end, depth));
            now += 1;
        }
        rows
    })
}

proptest! {
    #[test]
    fn spans_are_nested_and_cover_all_time(calls in nested(3, 1000), functions in nested(5, 995)) {
        let last = calls.iter().chain(&functions).map(|(_, end, _)| *end).max().unwrap_or(0);
        let mut known: Vec<Row<'_>> = vec![(TASK, "t", Some(0), Some(1), 1000, last + 10, 0)];
        known.extend(calls.iter().map(|(b, e, d)| (CALL, "c", Some(0), Some(1), *b, *e, d + 1)));
        let known = rows(&known, ActivitySource::Tracepoints);
        let trace: Vec<Row<'_>> =
            functions.iter().map(|(b, e, d)| (FUNCTION, "f", Some(0), Some(1), *b, *e, *d)).collect();
        let trace = rows(&trace, ActivitySource::FunctionGraph);
        let merged = merge(&known, &trace, |ns| Some((ns, 0)));
        let all = &merged.activities;
        let mut around: Vec<(u64, u64)> = Vec::new();
        let (mut own_ns, mut ours) = (0, 0);
        for row in 0..all.len() {
            let (begin, end) = (all.begin_ns[row], all.end_ns[row]);
            around.truncate(usize::from(all.depth[row]));
            prop_assert_eq!(around.len(), usize::from(all.depth[row]));
            prop_assert!(around.iter().all(|(b, e)| *b <= begin && end <= *e), "{begin} {end} in {around:?}");
            around.push((begin, end));
            if all.kind[row] == FUNCTION { own_ns += end - begin } else { ours += 1 }
        }
        let within = |(b, e, _): &(u64, u64, u16)| e.saturating_sub(*b.max(&1000));
        prop_assert_eq!(own_ns, functions.iter().map(within).sum::<u64>());
        prop_assert_eq!(ours, calls.len() + 1);
        let begun = (0..all.len()).filter(|row| all.kind[*row] == FUNCTION && all.begin_seen[*row]).count();
        prop_assert_eq!(begun, functions.iter().filter(|(b, e, _)| *b >= 1000 && e > b).count());
    }
}
