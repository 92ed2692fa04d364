//! Rows in any order and of any kind: parts add up, and no answer depends on how rows come.

use proptest::prelude::*;

use super::*;

/// A call or a wait of any thread at any time.
pub(super) fn any_rows() -> impl Strategy<Value = Rows> {
    let conn = 1..5_u64;
    let tid = prop_oneof![70..73_u32, 80..83_u32];
    let calls = (
        conn.clone(),
        0..10 * MS,
        any::<bool>(),
        -1..5_000_i32,
        tid.clone(),
        0..MS,
    );
    let kinds = prop::sample::select(WaitObject::ALL);
    let wakers = prop::sample::select(Waker::ALL);
    let waits = (
        (0..10 * MS, 0..MS, 0..MS),
        tid.clone(),
        kinds,
        prop::option::of(conn),
        (wakers, tid),
    );
    let calls = prop::collection::vec(calls, 0..80);
    let waits = prop::collection::vec(waits, 0..80);
    let preempted = (
        0..10 * MS,
        0..MS,
        prop_oneof![70..73_u32, 80..83_u32],
        any::<bool>(),
    );
    let preempted = prop::collection::vec(preempted, 0..40);
    (calls, waits, preempted).prop_map(|(calls, waits, preempted)| {
        let roles = [Role::Server, Role::Client, Role::Server, Role::Unknown];
        let mut rows = Rows {
            connections: (1..)
                .zip(roles)
                .map(|(conn, role)| connection(conn, role, 70))
                .collect(),
            ..Rows::default()
        };
        rows.connections[0].peer_conn = Some(2);
        rows.connections[1].peer_conn = Some(1);
        for (conn, end_ns, is_send, bytes, tid, unread_ns) in calls {
            rows.calls.push(Call {
                unread_ns: (!is_send).then_some(unread_ns),
                tcp_ns: (is_send && unread_ns % 2 == 0).then(|| end_ns.saturating_sub(unread_ns)),
                start_ns: (unread_ns % 3 == 0).then(|| end_ns.saturating_sub(unread_ns)),
                ..call(conn, end_ns, is_send, bytes, tid)
            });
        }
        for ((start_ns, blocked_ns, runq_ns), tid, kind, conn, (waker, other)) in waits {
            let woken_ns = start_ns + blocked_ns;
            let row = wait(tid, (start_ns, woken_ns, woken_ns + runq_ns), kind, conn);
            let row = woken_by(row, other);
            rows.waits.push(Wait { waker, ..row });
        }
        for (end_ns, off_ns, tid, is_quota) in preempted {
            let start_ns = end_ns.saturating_sub(off_ns);
            rows.preemptions.push(Preemption {
                quota_used_up: Some(is_quota),
                ..preemption(tid, (start_ns, end_ns), off_ns, 1)
            });
        }
        rows.with_offsets()
    })
}

/// Returns the report as JSON, to compare it.
fn json(report: &RequestReport) -> String {
    serde_json::to_string(report).expect("a report is made of plain values")
}

proptest! {
    #[test]
    fn parts_of_a_request_add_up_to_its_duration(rows in any_rows()) {
        rows.requests().iter().for_each(check);
    }

    #[test]
    fn the_order_of_rows_does_not_matter(
        rows in any_rows(),
        seed in any::<u64>(),
        batch in 1..90_usize,
    ) {
        let mut shuffled = rows.clone();
        let mixed = |number: u64| (number ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        shuffled.calls.sort_by_key(|row| mixed(row.end_ns));
        shuffled.waits.sort_by_key(|row| mixed(row.end_ns));
        shuffled.preemptions.sort_by_key(|row| mixed(row.end_ns));
        prop_assert_eq!(json(&shuffled.report_in(batch)), json(&rows.report()));
    }

    #[test]
    fn a_recording_may_begin_and_end_anywhere(rows in any_rows(), cut in (0..10 * MS, 0..10 * MS)) {
        let mut part = rows;
        let times = cut.0.min(cut.1)..cut.0.max(cut.1);
        part.calls.retain(|row| times.contains(&row.end_ns));
        part.waits.retain(|row| times.contains(&row.end_ns));
        part.preemptions.retain(|row| times.contains(&row.end_ns));
        part.requests().iter().for_each(check);
    }
}
