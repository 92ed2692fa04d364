//! A window in which several recordings happen, and a screen that shows it and takes keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diagnose::live::{Histories, LiveReport, LiveWindow, REACH_NS, SnapshotInfo};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use table::Recording;
use table::manifest::Coverage;
use table::tables::{Call, Connection, Process, TcpEvent, TcpSample, TcpStage};
use tempfile::TempDir;
use view::top::{KeyAction, ListOrder, TopState, draw};
use whylat_view as view;

use crate::fixture::{Outcome, recording};

/// Golden recordings that happen at the same time.
pub const CASES: [&str; 5] = [
    "nagle_delayed_ack/fires",
    "receive_buffer_limited/fires",
    "retransmit_timeouts/fires",
    "path_limited/fires",
    "slow_reader/fires",
];

/// Ids and pids of each recording are moved by so much times its place.
pub const APART: u32 = 10;

/// All of them have ended by then.
pub const END_NS: u64 = 5_008_000_000_000;

pub const LARGE: (u16, u16) = (120, 40);
pub const SMALL: (u16, u16) = (80, 24);

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Makes the recording of a golden case.
pub fn golden(case: &str) -> Outcome<(TempDir, Recording)> {
    recording(&root().join("tests/golden").join(case))
}

/// A window in which all cases happen.
pub fn window() -> Outcome<LiveWindow> {
    let header = golden(CASES[0])?.1.header().clone();
    let mut window = LiveWindow::new(header, 10_000_000_000);
    window.add_polls(&[5_000_000_000_000]);
    for (place, case) in (0..).zip(CASES) {
        let (_scratch, recording) = golden(case)?;
        add(&mut window, &recording, place * APART);
    }
    window.add_polls(&[END_NS]);
    Ok(window)
}

/// Adds the rows of a recording; ids and pids grow by `by`.
pub fn add(window: &mut LiveWindow, recording: &Recording, by: u32) {
    let ids = |conns: &mut Vec<u64>| conns.iter_mut().for_each(|conn| *conn += u64::from(by));
    let mut connections = recording.read_all::<Connection>();
    ids(&mut connections.conn);
    connections
        .pid
        .iter_mut()
        .flatten()
        .for_each(|pid| *pid += by);
    connections
        .peer_conn
        .iter_mut()
        .flatten()
        .for_each(|conn| *conn += u64::from(by));
    connections.closed_ns.fill(None);
    window.add_connections(&connections);
    let mut processes = recording.read_all::<Process>();
    processes.pid.iter_mut().for_each(|pid| *pid += by);
    window.add_processes(&processes);
    let mut samples = recording.read_all::<TcpSample>();
    ids(&mut samples.conn);
    window.add_samples(&samples);
    let mut stages = recording.read_all::<TcpStage>();
    ids(&mut stages.conn);
    window.add_stages(&stages);
    let mut events = recording.read_all::<TcpEvent>();
    ids(&mut events.conn);
    window.add_events(events);
    let mut calls = recording.read_all::<Call>();
    ids(&mut calls.conn);
    calls.pid.iter_mut().for_each(|pid| *pid += by);
    window.add_calls(calls);
}

/// Makes the snapshot's costs and losses.
pub fn now() -> SnapshotInfo {
    SnapshotInfo {
        now_ns: END_NS,
        interval_ns: 2_000_000_000,
        poll_mean_ns: 500_000_000,
        coverage: vec![Coverage {
            probe: "tcp_stats".to_owned(),
            state: table::manifest::ProbeState::On,
        }],
        ..SnapshotInfo::default()
    }
}

/// Returns the live report of the window, and the histories.
pub fn look() -> Outcome<(LiveReport, Histories)> {
    let mut window = window()?;
    let live = window.judge_window(now());
    Ok((live, window.histories()))
}

/// A screen of a size, with a first look.
pub struct Screen {
    pub top: TopState,
    pub histories: Histories,
    terminal: Terminal<TestBackend>,
    width: u16,
}

impl Screen {
    /// Makes a screen of this size with a golden recording on it.
    pub fn new((width, height): (u16, u16)) -> Outcome<Self> {
        let (live, histories) = look()?;
        let mut screen = Self {
            top: TopState::new(ListOrder::default()),
            histories,
            terminal: Terminal::new(TestBackend::new(width, height))?,
            width,
        };
        screen.top.update(Arc::new(live));
        screen.text()?;
        Ok(screen)
    }

    /// Presses keys: letters as they are, others by name in angle brackets.
    pub fn press(&mut self, keys: &str) -> Outcome<KeyAction> {
        let mut act = KeyAction::Draw;
        let mut rest = keys;
        while let Some(first) = rest.chars().next() {
            let named = rest
                .strip_prefix('⟨')
                .and_then(|named| named.split_once('⟩'));
            let code = match named {
                Some(("enter", _)) => KeyCode::Enter,
                Some(("esc", _)) => KeyCode::Esc,
                Some(("tab", _)) => KeyCode::Tab,
                Some(("down", _)) => KeyCode::Down,
                Some(("end", _)) => KeyCode::End,
                Some((other, _)) => return Err(format!("no key {other}").into()),
                None => KeyCode::Char(first),
            };
            rest = named.map_or(&rest[first.len_utf8()..], |(_, rest)| rest);
            act = self.top.key(KeyEvent::new(code, KeyModifiers::NONE));
            self.text()?;
        }
        Ok(act)
    }

    /// Returns the text on the screen.
    pub fn text(&mut self) -> Outcome<String> {
        if let Some(conn) = self.top.connection_with_history() {
            let bins = view::top::history_columns(self.width.into());
            self.top
                .set_history(self.histories.bins(conn, bins, REACH_NS, END_NS));
        }
        let top = &mut self.top;
        self.terminal.draw(|frame| draw(frame, top, false))?;
        let buffer = self.terminal.backend().buffer();
        let area = buffer.area;
        let line = |y: u16| {
            let cells = (0..area.width).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned() + "\n"
        };
        Ok((0..area.height).map(line).collect())
    }
}
