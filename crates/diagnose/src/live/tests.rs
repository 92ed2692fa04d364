//! Windows over connections with a known story.

use table::tables::{Connection, Connections, TcpSample, TcpSamples};
use table::{Columns, Role, Stage};

use super::*;
use crate::connections::gather::samples::tests::sample;

const S: u64 = 1_000_000_000;

fn header() -> Header {
    Header {
        format: table::manifest::FORMAT,
        whylat: "0".to_owned(),
        host: "h".to_owned(),
        boot_id: "b".to_owned(),
        kernel: "6".to_owned(),
        cpus: 1,
        architecture: None,
        clocksource: String::new(),
        detail: "stats".to_owned(),
        arguments: Vec::new(),
        started_ns: 0,
        started_realtime_ns: 0,
        jiffy_ns: Some(1_000_000),
    }
}

fn window() -> LiveWindow {
    LiveWindow::new(header(), 10 * S)
}

/// Makes the row of a connection that is open, or was closed at this time.
fn known(conn: u64, closed_ns: Option<u64>) -> Connections {
    let mut rows = Connections::default();
    rows.push(Connection {
        time_ns: 1,
        netns: 1,
        role: Role::Client,
        closed_ns,
        ..Connection::with_addresses(conn, "10.0.0.1:5000", format!("10.0.0.2:{conn}"))
    });
    rows
}

/// A reading with so much sent and, of that time, with data outstanding and with a closed window.
fn reading(conn: u64, time_ns: u64, sent: u64, busy_us: u64, window_us: u64) -> TcpSample {
    TcpSample {
        conn,
        bytes_sent: Some(sent),
        bytes_acked: sent + 1,
        data_segs_out: Some((sent / 1_000) as u32),
        busy_us: Some(busy_us),
        rwnd_limited_us: Some(window_us),
        ..sample(time_ns)
    }
}

fn add(window: &mut LiveWindow, readings: &[TcpSample]) {
    for reading in readings {
        window.add_polls(&[reading.time_ns]);
        let mut rows = TcpSamples::default();
        rows.push(reading.clone());
        window.add_samples(&rows);
    }
}

/// Makes a snapshot at this time.
fn at(now_ns: u64) -> SnapshotInfo {
    SnapshotInfo {
        now_ns,
        ..SnapshotInfo::default()
    }
}

#[test]
fn a_connection_held_by_its_receiver_is_reported() {
    let mut window = window();
    window.add_connections(&known(1, None));
    let readings: Vec<_> = (1..=5)
        .map(|n| reading(1, n * S, n * 1_000_000, n * 1_000_000, n * 800_000))
        .collect();
    add(&mut window, &readings);
    let live = window.judge_window(at(5 * S));
    let [connection] = &live.connections[..] else {
        panic!("{:?}", live.connections);
    };
    let held = connection.held.expect("held");
    assert_eq!(held.by, HoldReason::Stage(Stage::ReceiverWindow));
    assert!((held.share - 0.8).abs() < 0.01, "{held:?}");
    assert_eq!(connection.out_bytes_per_s, Some(1e6));
    assert_eq!(live.totals.active, 1);
    assert_eq!(live.about.window_ns, 4 * S);
}

#[test]
fn unchanged_polls_mean_idle() {
    let mut window = window();
    window.add_connections(&known(1, None));
    // busy for a second, then nothing for nine
    add(
        &mut window,
        &[
            reading(1, S, 0, 0, 0),
            reading(1, 2 * S, 1_000_000, 1_000_000, 0),
        ],
    );
    window.add_polls(&[6 * S, 11 * S]);
    let live = window.judge_window(at(11 * S));
    let connection = &live.connections[0];
    let idle = connection.stages.get(Stage::SenderApp).expect("measured");
    assert!((idle.share - 0.9).abs() < 0.01, "{idle:?}");
    assert_eq!(connection.out_bytes_per_s, Some(1e5));
}

#[test]
fn rows_outside_the_window_do_not_count() {
    let mut window = window();
    window.add_connections(&known(1, None));
    add(
        &mut window,
        &[
            reading(1, S, 0, 0, 0),
            reading(1, 2 * S, 1_000_000, 1_000_000, 0),
        ],
    );
    window.add_polls(&[12 * S, 18 * S, 24 * S]);
    // one more second after a long pause: the pause before the window is not in its time
    add(&mut window, &[reading(1, 25 * S, 2_000_000, 2_000_000, 0)]);
    let live = window.judge_window(at(25 * S));
    assert_eq!(live.connections[0].judged_ns, 13 * S);
    assert_eq!(live.connections[0].out_bytes_per_s, Some(1e6 / 13.0));
    window.add_polls(&[40 * S, 50 * S]);
    let live = window.judge_window(at(50 * S));
    let idle = &live.connections[0];
    assert!(idle.idle && idle.held.is_none() && idle.stages.is_empty());
    assert_eq!((live.totals.connections, live.totals.active), (1, 0));
    assert_eq!(idle.out_bytes_per_s, Some(0.0));
}

#[test]
fn closed_connections_stay_as_long_as_the_window_shows_them() {
    let mut window = window();
    window.add_connections(&known(1, None));
    window.add_connections(&known(2, None));
    add(
        &mut window,
        &[reading(1, S, 0, 0, 0), reading(2, S, 0, 0, 0)],
    );
    window.add_connections(&known(1, Some(2 * S)));
    window.add_polls(&[3 * S]);
    let live = window.judge_window(at(3 * S));
    let closed = |live: &LiveReport| live.connections.iter().filter(|it| it.closed).count();
    assert_eq!((live.connections.len(), closed(&live)), (2, 1));
    window.add_polls(&[14 * S, 15 * S]);
    let live = window.judge_window(at(15 * S));
    assert_eq!((live.connections.len(), closed(&live)), (1, 0));
    window.forget_connections(&[2]);
    assert!(window.judge_window(at(15 * S)).connections.is_empty());
}

#[test]
fn memory_is_bounded_by_a_shorter_window() {
    let mut window = window();
    for poll in 1..=4 {
        window.add_polls(&[poll * S]);
        let mut rows = TcpSamples::default();
        for conn in 0..40_000 {
            rows.push(reading(conn, poll * S + 1, poll * 1_000, poll * 1_000, 0));
        }
        window.add_samples(&rows);
    }
    let live = window.judge_window(at(4 * S + 2));
    assert_eq!(live.about.window_ns, S);
    let kept: usize = window.kept.values().map(RecentRows::reading_count).sum();
    assert!(kept <= MOST_READINGS + 40_000, "{kept}");
    // it grows again from there, and never back over what was let go
    window.add_polls(&[5 * S]);
    assert_eq!(window.judge_window(at(5 * S)).about.window_ns, 2 * S);
}
