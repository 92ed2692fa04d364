//! Records in, rows out.

use table::tables::Tasks;

use super::*;

const DOMAIN: u32 = 1;
const NAME: u32 = 2;
const ID: Identifier = Identifier([0x10, 1, 0]);

/// Makes a record of process 7.
fn record(time_ns: u64, tid: u32, body: Body) -> Record {
    Record {
        time_ns,
        pid: 7,
        tid,
        given_ticks: None,
        body,
    }
}

/// Makes an assembler that knows the names of domain and task.
fn named() -> Assembler {
    let mut assembler = Assembler::default();
    let name = "d".to_owned();
    assembler.add_record(record(1, 7, Body::Domain { id: DOMAIN, name }));
    let text = "work".to_owned();
    assembler.add_record(record(1, 7, Body::Text { id: NAME, text }));
    assembler
}

/// Makes the start of a task.
fn begin(id: Option<Identifier>, is_overlapped: bool) -> Body {
    Body::TaskBegin {
        domain: DOMAIN,
        name: Some(NAME),
        id,
        parent: None,
        is_overlapped,
    }
}

/// Makes the end of a task.
fn end(id: Option<Identifier>) -> Body {
    let domain = DOMAIN;
    Body::TaskEnd { domain, id }
}

/// Ends the recording; the identity must hold.
fn finish(mut assembler: Assembler) -> (Tasks, IttCounts) {
    assembler.finish();
    let rows = assembler.take_rows();
    let counts = assembler.counts(Losses::default());
    let stored = assembler.rows_taken;
    assert_eq!(
        counts.produced,
        stored + counts.filtered + counts.lost_no_begin
    );
    (rows.tasks, counts)
}

#[test]
fn the_innermost_task_of_a_thread_ends_first() {
    let mut assembler = named();
    for (time_ns, tid, body) in [
        (10, 8, begin(None, false)),
        (11, 9, begin(None, false)),
        (12, 8, begin(None, false)),
        (13, 8, end(None)),
        (14, 8, end(None)),
        (15, 8, end(None)),
    ] {
        assembler.add_record(record(time_ns, tid, body));
    }
    let (tasks, counts) = finish(assembler);
    assert_eq!(tasks.begin_ns, [12, 10, 11]);
    assert_eq!(tasks.end_ns, [Some(13), Some(14), None]);
    assert_eq!(tasks.name[0].as_deref(), Some("work"));
    assert_eq!(counts.lost_no_begin, 1);
}

#[test]
fn an_end_that_is_read_before_its_beginning_waits_for_it() {
    let mut assembler = named();
    assembler.add_record(record(20, 9, end(Some(ID))));
    assembler.forget_early_ends();
    assembler.add_record(record(10, 8, begin(Some(ID), true)));
    assembler.add_record(record(30, 8, begin(Some(ID), true)));
    let (tasks, counts) = finish(assembler);
    assert_eq!(tasks.begin_ns, [10, 30]);
    assert_eq!(tasks.end_ns, [Some(20), None]);
    assert_eq!(tasks.end_tid, [Some(9), None]);
    assert_eq!(tasks.id[0].as_deref(), Some("10:1:0"));
    assert_eq!(counts.lost_no_begin, 0);
}

#[test]
fn an_end_without_beginning_is_counted() {
    let mut assembler = named();
    assembler.add_record(record(20, 9, end(Some(ID))));
    for _ in 0..3 {
        assembler.forget_early_ends();
    }
    assembler.add_record(record(10, 8, begin(Some(ID), true)));
    assembler.add_record(record(9, 8, end(Some(ID))));
    let (tasks, counts) = finish(assembler);
    assert_eq!(tasks.end_ns, [None], "no span ends before it begins");
    assert_eq!(counts.lost_no_begin, 2);
}

#[test]
fn more_open_spans_than_are_kept_are_all_stored() {
    const SPANS: u64 = 70_001;
    let mut assembler = named();
    for time_ns in 0..SPANS {
        assembler.add_record(record(time_ns, 8, begin(None, false)));
    }
    assembler.add_record(record(SPANS, 8, end(None)));
    let (tasks, counts) = finish(assembler);
    assert_eq!(tasks.len() as u64, SPANS);
    let ended = tasks.end_ns.iter().flatten().count();
    assert_eq!((ended, counts.lost_no_begin), (1, 0));
}

#[test]
fn a_note_goes_to_an_open_span_or_is_alone() {
    let note = || Body::MetadataText {
        domain: DOMAIN,
        key: Some(NAME),
        id: None,
        text: "x".to_owned(),
        length_bytes: 1,
    };
    let mut assembler = named();
    for (time_ns, body) in [
        (10, begin(Some(ID), false)),
        (11, note()),
        (12, end(None)),
        (13, note()),
    ] {
        assembler.add_record(record(time_ns, 8, body));
    }
    let (tasks, _) = finish(assembler);
    assert_eq!(tasks.kind, [TaskKind::Task, TaskKind::Metadata]);
    let text = Some(r#"[{"key":"work","text":"x"}]"#);
    assert_eq!(tasks.metadata[0].as_deref(), text);
    assert_eq!(tasks.metadata[1].as_deref(), text);
}

#[test]
fn wait_ends_when_the_object_is_acquired_or_abandoned() {
    let address = 0x40;
    let sync = |action| Body::Sync { action, address };
    let mut assembler = named();
    let object = Body::SyncObject {
        address,
        attribute: 2,
        object_type: "queue".to_owned(),
        name: "inbox".to_owned(),
    };
    assembler.add_record(record(1, 8, object));
    for (time_ns, action) in [
        (10, SyncAction::Prepare),
        (11, SyncAction::Cancel),
        (12, SyncAction::Prepare),
        (13, SyncAction::Acquired),
        (14, SyncAction::Releasing),
        (15, SyncAction::Acquired),
        (16, SyncAction::Destroyed),
        (17, SyncAction::Releasing),
    ] {
        assembler.add_record(record(time_ns, 8, sync(action)));
    }
    let (tasks, _) = finish(assembler);
    let kinds = [
        TaskKind::SyncGivenUp,
        TaskKind::SyncWait,
        TaskKind::SyncReleasing,
        TaskKind::SyncAcquired,
        TaskKind::SyncReleasing,
    ];
    assert_eq!(tasks.kind, kinds);
    assert_eq!(tasks.end_ns, [Some(11), Some(13), None, None, None]);
    let name = Some("inbox".to_owned());
    assert_eq!(
        tasks.name,
        [name.clone(), name.clone(), name.clone(), name, None]
    );
}
