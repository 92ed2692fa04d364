//! Tests of what distinguishes the slowest requests from the others.

use super::*;
use crate::requests::contrast_report::{Contrast, TraitKind, TraitValue};

/// A server that reads a request at each whole second. `request`: its bytes, its thread, and how long it computes, ms.
fn contrast(count: u64, request: impl Fn(u64) -> (i32, u32, u64)) -> Option<Contrast> {
    let mut rows = Rows::server();
    for turn in 1..=count {
        let (at, (bytes, tid, took)) = (turn * 1_000 * MS, request(turn));
        rows.waits
            .push(wait(tid, (at - 2 * MS, at, at), WaitObject::Epoll, Some(1)));
        rows.calls.push(call(1, at, false, bytes, tid));
        rows.calls.push(call(1, at + took * MS, true, 10, tid));
    }
    let report = rows.with_offsets().report();
    assert_eq!(report.count(), count);
    report.services[0].contrast.clone()
}

#[test]
fn slow_requests_with_large_bodies_are_known_by_them() {
    let every_hundredth = |turn: u64| turn.is_multiple_of(100);
    let contrast = contrast(2_000, |turn| match every_hundredth(turn) {
        true => (9_000 + turn as i32, 71, 50),
        false => (100 + turn as i32 % 50, 70 + (turn % 5) as u32, 1 + turn % 2),
    });
    let contrast = contrast.expect("some are slower");
    assert_eq!((contrast.slow, contrast.others), (20, 1_980));
    assert_eq!((contrast.compared.slow, contrast.extra_ns / MS), (20, 48));
    let [cpu] = contrast.parts.as_slice() else {
        panic!("{:?}", contrast.parts);
    };
    assert_eq!(
        (cpu.part, cpu.requests, cpu.share.share),
        (RequestPart::Cpu, 20, 1.0)
    );
    assert!(cpu.share.low > 0.8, "{:?}", cpu.share);
    let sizes = &contrast.traits[0];
    let value = TraitValue::AtLeast(9_100);
    assert_eq!(
        (sizes.what, &sizes.value),
        (TraitKind::RequestBytes, &value)
    );
    assert_eq!((sizes.with.slow, sizes.with.others), (20, 0));
    let thread = contrast
        .traits
        .iter()
        .find(|it| it.what == TraitKind::Thread);
    let thread = thread.expect("all were of one thread");
    assert_eq!(thread.value, TraitValue::Name("71".to_owned()));
    assert_eq!((thread.with.slow, contrast.why_unknown), (20, None));
}

#[test]
fn slow_requests_that_are_like_others_differ_in_nothing() {
    let contrast = contrast(2_000, |turn| {
        let took = if turn.is_multiple_of(100) { 50 } else { 1 };
        (
            100 + (turn / 100) as i32,
            70 + (turn / 100 % 5) as u32,
            took,
        )
    });
    let contrast = contrast.expect("some are slower");
    assert!(
        contrast.traits.is_empty() && contrast.why_unknown.is_none(),
        "{contrast:?}"
    );
}

#[test]
fn one_slow_request_shows_nothing() {
    let slow = |turn: u64| {
        if turn == 30 {
            (9_000, 71, 50)
        } else {
            (100, 70, 1)
        }
    };
    let contrast = contrast(60, slow).expect("one is slower");
    assert_eq!((contrast.slow, contrast.traits.len()), (1, 0));
    assert!(contrast.why_unknown.is_some());
}

#[test]
fn requests_of_one_length_have_no_contrast() {
    assert!(contrast(60, |_| (100, 70, 1)).is_none());
}
