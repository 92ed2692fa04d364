//! A fault that is planted is in an agent's problems, and its healthy twin is not.

use table::fleet::{BIN_NS, FleetDetail, FleetProblem};

use crate::paths::wire;
use testbed::Site;
use testbed::agents::Agent;

/// The rows of problems of the client's end of one exchange over a wire.
fn problems_of(
    server: &str,
    client: &str,
) -> (Vec<FleetProblem>, Vec<FleetDetail>, Option<String>) {
    let wire = wire("cubic", 20_000);
    let site = Site::over(&wire);
    let agent = Agent::start(&site.client);
    let (server, port) = site.serve(server);
    let client = site.connect(client, port);
    client.finish().expect("the client's truth");
    server.finish().expect("the server's truth");
    let (dataset, _scratch) = agent.stop();
    let connections = dataset.connections();
    let ids: Vec<i64> = connections.keys().copied().collect();
    assert_eq!(ids.len(), 1, "{connections:?}");
    let intervals = dataset.intervals();
    let longest = intervals.iter().max_by_key(|row| row.length_us);
    let verdict = longest.and_then(|row| row.verdict.clone());
    (dataset.problems(), dataset.details(), verdict)
}

pub fn a_small_receive_buffer_is_a_problem_and_a_large_one_is_not() {
    let (problems, details, verdict) = problems_of("sink --rcvbuf 4096", "stream --seconds 4");
    let limited_us = |rows: &[FleetProblem]| -> i64 {
        rows.iter()
            .map(|row| i64::from(row.receiver_window_us))
            .sum()
    };
    assert!(limited_us(&problems) > 3_000_000, "{problems:?}");
    assert_eq!(verdict.as_deref(), Some("receiver_window"));
    for row in &problems {
        assert!(row.begin_ns % BIN_NS == 0 && i64::from(row.receiver_window_us) <= BIN_NS / 1_000);
        // a reading covers the time since the one before
        let reaches_in = |detail: &FleetDetail| {
            let from_ns = detail.time_ns - detail.length_us * 1_000;
            from_ns < row.begin_ns + BIN_NS && detail.time_ns > row.begin_ns
        };
        assert!(details.iter().any(reaches_in), "{row:?}");
    }
    assert!(
        details
            .iter()
            .any(|detail| detail.stage.as_deref() == Some("receiver_window"))
    );
    let (problems, details, verdict) =
        problems_of("reply-server", "request-reply --rounds 61 --pause-us 20000");
    assert_eq!(limited_us(&problems), 0, "{problems:?}");
    assert_eq!((details.len(), verdict), (0, None), "{problems:?}");
}

fn delayed_us(rows: &[FleetProblem]) -> i64 {
    let times = rows.iter().map(|row| row.delayed_ack_us.expect("measured"));
    times.map(i64::from).sum()
}

pub fn nagle_and_delayed_acks_are_a_problem() {
    let (problems, details, verdict) = problems_of("reply-server", "write-write-read --rounds 53");
    let is_named = matches!(verdict.as_deref(), Some("nagle" | "delayed_ack"));
    let is_found = delayed_us(&problems) > 1_000_000 && !details.is_empty() && is_named;
    assert!(is_found, "{problems:?} {verdict:?}");
}

/// A machine that stalls for long enough makes ACKs late, too.
pub fn single_writes_are_none() {
    let client = "request-reply --rounds 53 --pause-us 20000";
    let (problems, _, verdict) = problems_of("reply-server", client);
    let is_quiet = delayed_us(&problems) == 0 && verdict.is_none();
    assert!(is_quiet, "{problems:?} {verdict:?}");
}
