//! Firings in, rows out; the account adds up.

use super::*;
use crate::usdt::MOST_ARGUMENTS;

const MARKER: usize = 0;
const REQUEST: usize = 1;
const BEGUN: usize = 2;

/// Makes a probe of this name and meaning.
fn probe(name: &str, meaning: Meaning) -> Probe {
    Probe {
        provider: "app".to_owned(),
        name: name.to_owned(),
        path: "/a/program".into(),
        places: 1,
        opened: "/a/program".into(),
        arguments: String::new(),
        meaning,
    }
}

fn assembler() -> Assembler {
    let argument = |index, name: &str, is_signed| Argument {
        index,
        name: name.to_owned(),
        is_signed,
    };
    let arguments = vec![
        argument(0, "request.bytes", false),
        argument(2, "request.left", true),
    ];
    Assembler::new(&[
        probe("work", Meaning::Marker),
        probe("request", Meaning::Values(arguments)),
        probe("begun", Meaning::Moment),
    ])
}

/// Makes a firing of a probe with these first arguments.
fn firing(time_ns: u64, probe: usize, first: &[i64]) -> Firing {
    let mut values = [0; MOST_ARGUMENTS];
    values[..first.len()].copy_from_slice(first);
    Firing {
        time_ns,
        pid: 7,
        tid: 8,
        probe,
        unread: 0,
        values,
    }
}

/// Returns all rows of these firings, if the kernel counted `fired` for each probe, and lost three.
fn assembled(firings: &[Firing], fired: [u64; 3]) -> (RowSet, UsdtCounts) {
    let mut assembler = assembler();
    firings
        .iter()
        .for_each(|firing| assembler.add_firing(firing));
    let rows = assembler.finish();
    let fired = fired.map(|fired| FiringCounts {
        fired: fired + 3,
        lost_ring_full: 3,
    });
    let counts = assembler.counts(&fired);
    let lost = counts.lost_ring_full + counts.lost_unread + counts.lost_no_begin;
    let rows_len = counts.counters + counts.tasks;
    assert_eq!(
        counts.produced,
        rows_len + counts.filtered + lost,
        "{counts:?}"
    );
    (rows, counts)
}

#[test]
fn each_argument_is_a_value_in_the_column_of_its_sign() {
    let (rows, counts) = assembled(&[firing(1, REQUEST, &[-1, 5, -3])], [0, 1, 0]);
    let counters: Vec<Counter> = (0..rows.counters.len())
        .map(|row| rows.counters.row(row))
        .collect();
    let values: Vec<_> = counters
        .iter()
        .map(|row| (row.name.as_deref().unwrap(), row.value_u64, row.value_s64))
        .collect();
    assert_eq!(
        values,
        [
            ("request.bytes", Some(u64::MAX), None),
            ("request.left", None, Some(-3)),
        ]
    );
    assert_eq!(
        (counters[0].pid, counters[0].tid, counters[0].time_ns),
        (7, 8, 1)
    );
    assert_eq!(counts.lost_ring_full, 3 + 6 + 3);
}

#[test]
fn an_argument_that_could_not_be_read_is_absent() {
    let mut one = firing(1, REQUEST, &[4, 0, 0]);
    one.unread = 0b110;
    let (rows, counts) = assembled(&[one], [0, 1, 0]);
    assert_eq!((rows.counters.len(), counts.lost_unread), (1, 1));
    let mut marker = firing(1, MARKER, &[1, 5]);
    marker.unread = 0b10;
    let (rows, counts) = assembled(&[marker], [1, 0, 0]);
    assert_eq!((rows.counters.len(), counts.lost_unread), (0, 1));
}

#[test]
fn tasks_end_with_the_innermost_of_their_thread() {
    let firings = [
        firing(1, MARKER, &[2, 0]),
        firing(2, MARKER, &[2, 0]),
        firing(3, MARKER, &[3, 0]),
        firing(4, MARKER, &[3, 0]),
        firing(5, MARKER, &[3, 0]),
        firing(6, MARKER, &[2, 0]),
    ];
    let (rows, counts) = assembled(&firings, [6, 0, 0]);
    let spans: Vec<_> = (0..rows.tasks.len())
        .map(|row| rows.tasks.row(row))
        .map(|task| (task.begin_ns, task.end_ns, task.kind))
        .collect();
    assert_eq!(
        spans,
        [
            (2, Some(3), TaskKind::Task),
            (1, Some(4), TaskKind::Task),
            (6, None, TaskKind::Task),
        ]
    );
    assert_eq!((counts.filtered, counts.lost_no_begin), (2, 1));
}

#[test]
fn moments_are_markers() {
    let firings = [firing(1, MARKER, &[20, -1]), firing(2, BEGUN, &[])];
    let (rows, _) = assembled(&firings, [1, 0, 1]);
    let tasks: Vec<Task> = (0..rows.tasks.len())
        .map(|row| rows.tasks.row(row))
        .collect();
    assert!(
        tasks
            .iter()
            .all(|task| task.kind == TaskKind::Marker && task.end_ns.is_none())
    );
    let expected = format!(r#"[{{"key":"value","values":[{}]}}]"#, u64::MAX);
    assert_eq!(tasks[0].metadata, Some(expected));
    assert_eq!(
        (tasks[1].metadata.as_deref(), tasks[1].name.as_deref()),
        (None, Some("begun"))
    );
}
