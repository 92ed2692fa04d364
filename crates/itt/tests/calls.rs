//! Each kind of call, from a program built with the real ittnotify sources.

mod support;

use support::{SMALL, Session, bodies, names};
use whylat_itt::{Body, Context, Identifier, Record, Scope, SyncAction, Value, ValueType};

const ONE: Option<Identifier> = Some(Identifier([0x10, 1, 0]));
const TWO: Option<Identifier> = Some(Identifier([0x20, 2, 0]));

/// Runs the test program in this mode; returns its records.
fn record(mode: &str) -> Vec<Record> {
    Session::new(SMALL).record_all([mode])
}

#[test]
fn typed_counters_are_recorded() {
    let records = record("typed");
    let names = names(&records);
    let values: Vec<(&str, Value)> = bodies(&records)
        .into_iter()
        .map(|body| match body {
            Body::CounterValue { counter, value } => (names[counter].as_str(), *value),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        ("receive_ctrl", Value::S32(-10)),
        ("send_header", Value::U64(u64::MAX)),
        ("u32", Value::U32(4_000_000_000)),
        ("u16", Value::U16(65535)),
        ("s16", Value::S16(-7)),
        ("s64", Value::S64(i64::MIN)),
        ("f32", Value::F32(1.5)),
        ("f64", Value::F64(-0.25)),
        ("f64", Value::F64(-0.25)),
        ("f64", Value::F64(-0.25)),
    ];
    assert_eq!(values, expected);
    let ticks: Vec<_> = records
        .iter()
        .filter_map(|record| record.given_ticks)
        .collect();
    assert_eq!(ticks, [7], "7 ns after boot is not of our clock");
    let types: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.body {
            Body::Counter {
                domain, value_type, ..
            } => Some((domain.as_deref(), *value_type)),
            _ => None,
        })
        .collect();
    assert_eq!(types[0], (Some("net.example"), Some(ValueType::U64)));
    assert_eq!(types[2], (None, Some(ValueType::U32)));
    assert_eq!(types.len(), 8, "no counter is defined twice");
}

#[test]
fn times_are_of_the_monotonic_clock_and_in_order() {
    let before_ns = now_ns();
    let records = record("typed");
    let after_ns = now_ns();
    let values = records
        .iter()
        .filter(|record| matches!(record.body, Body::CounterValue { .. }));
    let times: Vec<u64> = values.map(|record| record.time_ns).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(
        times
            .iter()
            .all(|time| (before_ns..after_ns).contains(time))
    );
}

/// Returns the monotonic time, in nanoseconds.
fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills a struct on the stack.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
fn counter_deltas_are_recorded() {
    let records = record("deltas");
    let id = |wanted| id_of(&records, wanted);
    let counter = id("level");
    let level = |delta, is_decrement| Body::CounterDelta {
        counter,
        delta,
        is_decrement,
    };
    let named = |delta, is_decrement| Body::NamedDelta {
        domain: id("d"),
        name: id("named"),
        delta,
        is_decrement,
    };
    let expected = [
        Body::CounterContext {
            counter,
            context_type: 5,
            context: Context::Text("bytes".into()),
        },
        Body::CounterContext {
            counter,
            context_type: 10,
            context: Context::Number(4096),
        },
        level(1, false),
        level(10, false),
        level(1, true),
        level(3, true),
        named(1, false),
        named(40, false),
        named(2, true),
        Body::CounterDestroyed { counter },
    ];
    assert_eq!(bodies(&records), expected.iter().collect::<Vec<_>>());
}

/// Returns the id of a name that was defined once.
fn id_of(records: &[Record], wanted: &str) -> u32 {
    let names = names(records);
    let found = names.iter().find(|(_, name)| *name == wanted);
    *found.expect("named").0
}

#[test]
fn tasks_are_recorded_with_parents() {
    let records = record("spans");
    let (domain, outer) = (id_of(&records, "spans"), id_of(&records, "outer"));
    let task = |name, id, parent, is_overlapped| Body::TaskBegin {
        domain,
        name: Some(name),
        id,
        parent,
        is_overlapped,
    };
    let end = |id| Body::TaskEnd { domain, id };
    let expected = [
        task(outer, ONE, None, false),
        task(id_of(&records, "inner"), None, ONE, false),
        end(None),
        end(None),
        task(outer, ONE, None, true),
        task(outer, TWO, ONE, true),
        end(ONE),
        end(TWO),
        task(outer, ONE, None, false),
        end(None),
    ];
    let is_task = |body: &&Body| matches!(body, Body::TaskBegin { .. } | Body::TaskEnd { .. });
    let bodies: Vec<&Body> = bodies(&records).into_iter().filter(is_task).collect();
    // After these the program switched the domain off.
    assert_eq!(bodies, expected.iter().collect::<Vec<_>>());
}

#[test]
fn regions_frames_markers_and_events_are_recorded() {
    let records = record("spans");
    let (domain, name) = (id_of(&records, "spans"), Some(id_of(&records, "outer")));
    let event = id_of(&records, "event");
    let is_task = |body: &&Body| matches!(body, Body::TaskBegin { .. } | Body::TaskEnd { .. });
    let bodies = bodies(&records).into_iter().filter(|body| !is_task(body));
    let (frames, bodies): (Vec<&Body>, Vec<&Body>) =
        bodies.partition(|body| matches!(body, Body::FrameSubmitted { .. }));
    let expected = [
        Body::RegionBegin {
            domain,
            name,
            id: ONE,
            parent: None,
        },
        Body::RegionEnd { domain, id: ONE },
        Body::FrameBegin { domain, id: None },
        Body::FrameEnd { domain, id: None },
        Body::Marker {
            domain,
            name,
            id: None,
            scope: Scope::Thread,
        },
        Body::EventStart { event },
        Body::EventEnd { event },
    ];
    assert_eq!(bodies, expected.iter().collect::<Vec<_>>());
    assert!(
        matches!(frames[..], [Body::FrameSubmitted { id, begin_ns, end_ns, .. }]
            if *id == TWO && begin_ns < end_ns),
        "{frames:?}"
    );
}

#[test]
fn metadata_is_recorded() {
    let records = record("attached");
    let bodies = bodies(&records);
    let Body::Metadata {
        id, values, count, ..
    } = bodies[0]
    else {
        panic!("{:?}", bodies[0]);
    };
    assert_eq!((*id, *count, values.len()), (ONE, 300, 256));
    assert_eq!(values[255], Value::S16(-255));
    let texts: Vec<(usize, u64)> = bodies[1..3]
        .iter()
        .map(|body| match body {
            Body::MetadataText {
                text, length_bytes, ..
            } => (text.len(), *length_bytes),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, [(5, 5), (4000, 5000)]);
    assert!(
        matches!(bodies[3], Body::Relation { head, relation: 3, tail, .. }
        if *head == ONE && *tail == TWO)
    );
    assert!(matches!(
        bodies[4],
        Body::Relation {
            head: None,
            relation: 5,
            ..
        }
    ));
    let batches: Vec<(u64, usize, usize)> = bodies[5..]
        .iter()
        .map(|body| match body {
            Body::HistogramBatch { first, y, x, .. } => (*first, y.len(), x.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(batches, [(0, 128, 128), (128, 72, 72), (0, 2, 0)]);
    let Body::HistogramBatch { y, x, .. } = bodies[6] else {
        panic!("{:?}", bodies[6]);
    };
    assert_eq!((x[71], y[71]), (Value::F64(199.0), Value::F64(99.5)));
}

#[test]
fn sync_objects_are_recorded() {
    let records = record("sync");
    let bodies = bodies(&records);
    assert!(matches!(bodies[0], Body::ThreadName { name } if name == "worker of the test"));
    assert!(
        matches!(bodies[1], Body::SyncObject { object_type, name, attribute: 2, .. }
            if object_type == "queue" && name == "inbox"),
        "{:?}",
        bodies[1]
    );
    assert!(matches!(bodies[2], Body::SyncRenamed { name, .. } if name == "outbox"));
    let actions: Vec<SyncAction> = bodies[3..]
        .iter()
        .map(|body| match body {
            Body::Sync { action, .. } => *action,
            other => panic!("{other:?}"),
        })
        .collect();
    use SyncAction::{Acquired, Cancel, Destroyed, Prepare, Releasing};
    assert_eq!(
        actions,
        [Prepare, Cancel, Prepare, Acquired, Releasing, Destroyed]
    );
}

#[test]
fn paused_and_disabled_counters_are_silent() {
    let records = record("silence");
    let names = names(&records);
    let bodies = bodies(&records);
    assert!(matches!(
        bodies[0],
        Body::CounterValue {
            value: Value::U64(1),
            ..
        }
    ));
    assert!(matches!(bodies[1..3], [Body::Paused, Body::Resumed]));
    assert!(
        matches!(bodies[3], Body::CounterValue { counter, value: Value::U64(3) }
        if names[counter] == "later")
    );
    assert_eq!(bodies[4..], [&Body::Detached]);
}

#[test]
fn ignored_thread_is_not_recorded() {
    let records = record("ignore");
    let bodies = bodies(&records);
    let count_of = |wanted: u64| {
        let is_it = |body: &&&Body| matches!(body, Body::CounterValue { value, .. } if *value == Value::U64(wanted));
        bodies.iter().filter(is_it).count()
    };
    // 2 was set by the thread after it had asked to be ignored.
    assert_eq!([1, 2, 3].map(count_of), [1, 0, 1]);
    assert!(bodies.contains(&&Body::ThreadIgnored));
}

#[test]
fn invalid_arguments_are_counted() {
    let mut session = Session::new(SMALL);
    session.record(["garbage"]);
    assert_eq!(bodies(&session.records), Vec::<&Body>::new());
    assert_eq!(session.ring.losses().invalid, 5);
}

#[test]
fn cpp_objects_are_recorded() {
    let mut session = Session::new(SMALL);
    let status = session.command("objects").status().expect("it runs");
    assert!(status.success());
    session.read();
    let names = names(&session.records);
    let bodies = bodies(&session.records);
    assert!(matches!(bodies[..], [
        Body::TaskBegin { domain, name: Some(name), .. },
        Body::CounterValue { value, .. },
        Body::TaskEnd { .. },
    ] if names[domain] == "cpp.example" && names[name] == "guarded" && *value == Value::F64(2.5)));
    let main_thread = session
        .records
        .iter()
        .filter(|record| record.pid == record.tid);
    assert_eq!(main_thread.count(), 0, "the first call came from a thread");
}

#[test]
fn unchosen_groups_are_not_recorded() {
    let mut session = Session::new(SMALL);
    let mut command = session.command("program");
    command.arg("spans").env("INTEL_ITTNOTIFY_GROUPS", "mark");
    // Without handles of ours the program finds no events of one name to be the same domain.
    command.status().expect("it runs");
    session.read();
    let bodies = bodies(&session.records);
    assert!(
        bodies
            .iter()
            .all(|body| matches!(body, Body::EventStart { .. } | Body::EventEnd { .. })),
        "{bodies:?}"
    );
    assert_eq!(bodies.len(), 2);
}
