//! Times of rows in, parts out.

use serde_json::{Value, json};
use table::row_of;

use super::*;

/// Makes the breakdown of a received message with these columns.
fn received(given: Value) -> Result<LatencyBreakdown, BreakdownError> {
    LatencyBreakdown::from_received(&row_of(given).expect("a row"))
}

/// Makes the breakdown of a sent message with these columns.
fn sent(given: Value) -> Result<LatencyBreakdown, BreakdownError> {
    LatencyBreakdown::from_sent(&row_of(given).expect("a row"), None)
}

fn parts(breakdown: &LatencyBreakdown) -> Vec<(MessagePart, u64)> {
    breakdown.parts().collect()
}

#[test]
fn the_parts_add_up_to_the_whole() {
    let breakdown = received(json!({
        "first_arrival_ns": 100, "last_arrival_ns": 130, "tcp_ns": 131, "ready_ns": 135,
        "woken_ns": 140, "running_ns": 190, "copy_ns": 200, "done_ns": 207,
    }));
    let breakdown = breakdown.expect("a breakdown");
    assert_eq!((breakdown.start_ns, breakdown.whole_ns), (100, 107));
    let took = MessageDirection::Received.parts().iter().copied();
    let took = took.filter(|part| *part != MessagePart::Udp);
    let took = took.zip([30, 1, 4, 5, 50, 10, 7]).collect::<Vec<_>>();
    assert_eq!(parts(&breakdown), took);
}

#[test]
fn a_thread_that_did_not_wait_was_busy() {
    let breakdown = received(json!({
        "first_arrival_ns": 100, "last_arrival_ns": 100, "tcp_ns": 101, "ready_ns": 102,
        "copy_ns": 200, "done_ns": 210,
    }));
    let took = [
        (MessagePart::Arriving, 0),
        (MessagePart::Softirq, 1),
        (MessagePart::Tcp, 1),
        (MessagePart::Program, 98),
        (MessagePart::Copy, 10),
    ];
    assert_eq!(parts(&breakdown.expect("a breakdown")), took);
}

#[test]
fn data_sent_within_the_call_is_not_held() {
    let within = json!({
        "call_ns": 100, "tcp_ns": 110, "queue_ns": 112, "driver_ns": 113, "acked_ns": 130,
        "done_ns": 120,
    });
    let took = [
        (MessagePart::Call, 10),
        (MessagePart::Output, 2),
        (MessagePart::Qdisc, 1),
        (MessagePart::Network, 17),
    ];
    assert_eq!(parts(&sent(within).expect("a breakdown")), took);
    let held = json!({
        "call_ns": 100, "tcp_ns": 150, "queue_ns": 152, "driver_ns": 153, "acked_ns": 170,
        "done_ns": 120,
    });
    let breakdown = sent(held).expect("a breakdown");
    assert_eq!(
        parts(&breakdown)[..2],
        [(MessagePart::Call, 20), (MessagePart::Held, 30)]
    );
    assert_eq!(breakdown.whole_ns, 70);
}

#[test]
fn a_stamp_of_the_adapter_divides_driver_and_network() {
    let row = json!({
        "call_ns": 100, "tcp_ns": 110, "queue_ns": 112, "driver_ns": 113, "acked_ns": 130, "done_ns": 120,
    });
    let on_wire = WireTime {
        nic_ns: 118,
        error_ns: 4,
    };
    let breakdown = LatencyBreakdown::from_sent(&row_of(row).expect("a row"), Some(on_wire))
        .expect("a breakdown");
    assert_eq!(
        parts(&breakdown)[3..],
        [(MessagePart::Nic, 5), (MessagePart::Network, 12)]
    );
    assert_eq!((breakdown.whole_ns, breakdown.on_wire), (30, Some(on_wire)));
}

#[test]
fn a_datagram_goes_through_udp_and_is_not_acknowledged() {
    let mut given = json!({
        "first_arrival_ns": 100, "last_arrival_ns": 100, "tcp_ns": 101, "ready_ns": 103,
        "woken_ns": 110, "running_ns": 150, "done_ns": 160, "cut_bytes": 0,
    });
    let mut took = vec![
        (MessagePart::Softirq, 1),
        (MessagePart::Udp, 2),
        (MessagePart::Wakeup, 7),
        (MessagePart::RunQueue, 40),
        (MessagePart::Program, 10),
    ];
    assert_eq!(parts(&received(given.clone()).expect("a breakdown")), took);
    given["copy_ns"] = 158.into();
    took[4].1 = 8;
    took.push((MessagePart::Copy, 2));
    assert_eq!(parts(&received(given).expect("a breakdown")), took);
    let given = json!({"queue_ns": 100, "driver_ns": 170, "done_ns": 120, "packets": 1});
    assert_eq!(
        parts(&sent(given).expect("a breakdown")),
        [(MessagePart::Qdisc, 70)]
    );
    let lost = json!({"queue_ns": 100, "done_ns": 120, "packets": 1});
    assert_eq!(sent(lost), Err(BreakdownError::MissingTimestamp));
}

#[test]
fn missing_times_and_disorder_are_distinguished() {
    assert_eq!(
        received(json!({"done_ns": 1})),
        Err(BreakdownError::MissingTimestamp)
    );
    assert_eq!(
        sent(json!({"done_ns": 1})),
        Err(BreakdownError::MissingTimestamp)
    );
    let backwards = json!({
        "first_arrival_ns": 100, "last_arrival_ns": 100, "tcp_ns": 99, "ready_ns": 102,
        "copy_ns": 200, "done_ns": 210,
    });
    assert_eq!(received(backwards), Err(BreakdownError::OutOfOrder));
}
