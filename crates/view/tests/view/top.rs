//! The screen of `whylat top`: recordings of known problems go into a window of the last seconds, keys are pressed, and
//! the frame is that of `tests/golden_top/`. To rewrite these after a wanted change, and read the difference:
//!
//! ```text
//! make golden
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diagnose::live::{
    Histories, LiveReport, LiveWindow, ObjectWaits, ProcessWaits, REACH_NS, SnapshotInfo,
    WaitSource,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use table::manifest::{Coverage, Loss};
use table::tables::{Call, Connection, Process, TcpEvent, TcpSample, TcpStage};
use table::{Recording, WaitObject};
use tempfile::TempDir;
use view::TextOptions;
use view::top::{KeyAction, ListOrder, ScreenPage, SortKey, TopState, draw};
use whylat_view as view;

use crate::fixture::{Outcome, document, expect, recording};

/// Golden recordings that happen at the same time.
const CASES: [&str; 5] = [
    "nagle_delayed_ack/fires",
    "receive_buffer_limited/fires",
    "retransmit_timeouts/fires",
    "path_limited/fires",
    "slow_reader/fires",
];

/// Ids and pids of each recording are moved by so much times its place.
const APART: u32 = 10;

/// All of them have ended by then.
const END_NS: u64 = 5_008_000_000_000;

const LARGE: (u16, u16) = (120, 40);
const SMALL: (u16, u16) = (80, 24);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A golden recording.
fn golden(case: &str) -> Outcome<(TempDir, Recording)> {
    recording(&root().join("tests/golden").join(case))
}

/// A window in which all cases happen.
fn window() -> Outcome<LiveWindow> {
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

fn add(window: &mut LiveWindow, recording: &Recording, by: u32) {
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

fn now() -> SnapshotInfo {
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

/// A look at the window, with its histories.
fn look() -> Outcome<(LiveReport, Histories)> {
    let mut window = window()?;
    let live = window.judge(now());
    Ok((live, window.histories()))
}

/// A screen of a size, with a first look.
struct Screen {
    top: TopState,
    histories: Histories,
    terminal: Terminal<TestBackend>,
    width: u16,
}

impl Screen {
    fn new((width, height): (u16, u16)) -> Outcome<Self> {
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
    fn press(&mut self, keys: &str) -> Outcome<KeyAction> {
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
    fn text(&mut self) -> Outcome<String> {
        if let Some(conn) = self.top.wants_history() {
            let bins = view::top::bins(self.width.into());
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

#[test]
fn screens_match_golden_files() -> Outcome {
    let mut wrong = Vec::new();
    let screens = [
        ("connections", "", SMALL),
        ("connections_wide", "", LARGE),
        ("connection", "⟨enter⟩", SMALL),
        ("connection_wide", "⟨down⟩⟨enter⟩", LARGE),
        ("processes", "2", SMALL),
        ("process", "2⟨enter⟩", SMALL),
        ("findings", "3", SMALL),
        ("finding", "3⟨enter⟩", SMALL),
        ("help", "?", SMALL),
        ("filter", "/retransmit", SMALL),
        ("nothing", "/nothing like it⟨enter⟩", SMALL),
    ];
    for (name, keys, size) in screens {
        let mut screen = Screen::new(size)?;
        screen.press(keys)?;
        let path = root().join(format!("tests/golden_top/{name}.txt"));
        wrong.extend(expect(&path, &screen.text()?)?);
    }
    let (live, _) = look()?;
    let text = view::top::text(&live, &ListOrder::default(), 3, &TextOptions::default());
    wrong.extend(expect(&root().join("tests/golden_top/once.txt"), &text)?);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn worst_row_is_first_and_columns_sort() -> Outcome {
    let (live, _) = look()?;
    let first = |sort, reversed| {
        let order = ListOrder {
            sort,
            reversed,
            ..ListOrder::default()
        };
        live.connections[order.connections(&live, None)[0]].clone()
    };
    let worst = first(SortKey::Held, false);
    assert_eq!(worst.severity, Some(diagnose::report::Severity::Critical));
    let most = |of: fn(&diagnose::live::LiveConnection) -> Option<f64>| {
        live.connections
            .iter()
            .filter_map(of)
            .fold(f64::MIN, f64::max)
    };
    let out = first(SortKey::Out, false);
    assert_eq!(out.out_bytes_per_s, Some(most(|it| it.out_bytes_per_s)));
    let rtt = first(SortKey::Rtt, false).srtt_us.map(f64::from);
    assert_eq!(rtt, Some(most(|it| it.srtt_us.map(f64::from))));
    let name = |it: diagnose::live::LiveConnection| it.process.and_then(|process| process.comm);
    let (a, z) = (
        name(first(SortKey::Process, false)),
        name(first(SortKey::Process, true)),
    );
    assert_eq!(
        (a.as_deref(), z.as_deref()),
        (Some("backup"), Some("sleepy"))
    );
    // what is not measured is last both ways
    let least = first(SortKey::Rtt, true).srtt_us;
    assert!(least.is_some());
    Ok(())
}

#[test]
fn keys_open_findings_and_return() -> Outcome {
    let mut screen = Screen::new(SMALL)?;
    assert_eq!(screen.press("⟨down⟩⟨enter⟩")?, KeyAction::Draw);
    assert!(matches!(screen.top.page(), ScreenPage::Connection(_)));
    screen.press("⟨enter⟩")?;
    assert!(
        matches!(screen.top.page(), ScreenPage::Finding(_)),
        "{:?}",
        screen.top.page()
    );
    assert!(screen.text()?.contains("evidence"));
    screen.press("qq")?;
    assert_eq!(screen.top.page(), &ScreenPage::Connections);
    screen.press("⟨tab⟩")?;
    assert_eq!(screen.top.page(), &ScreenPage::Processes);
    screen.press("⟨enter⟩⟨enter⟩")?;
    assert!(matches!(screen.top.page(), ScreenPage::Connection(_)));
    screen.press("⟨esc⟩⟨esc⟩1")?;
    assert_eq!(screen.press("q")?, KeyAction::Quit);
    Ok(())
}

/// Returns waits of the threads of a process: four kinds of objects and one more.
fn waits(measured: WaitSource) -> ProcessWaits {
    let is_recorded = measured == WaitSource::Recorded;
    let object = |object, threads, longest_ms: Option<u64>| ObjectWaits {
        object,
        threads,
        waits: is_recorded.then_some(1_009),
        longest_ns: longest_ms.map(|ms| ms * 1_000_000),
    };
    ProcessWaits {
        measured,
        time_ns: 8_000_000_000,
        objects: vec![
            object(WaitObject::Epoll, 3.0, Some(7_900)),
            object(WaitObject::Futex, 1.25, Some(211)),
            object(WaitObject::Connection, 0.5, Some(30)),
            object(WaitObject::Sleep, 0.2, None),
            object(WaitObject::Pipe, 0.1, None),
        ],
    }
}

#[test]
fn process_screen_shows_thread_waits() -> Outcome {
    let mut screen = Screen::new(SMALL)?;
    assert_eq!(screen.top.wants_waits(), None);
    screen.press("2⟨enter⟩")?;
    let pid = screen.top.wants_waits().ok_or("no process is open")?;
    assert!(screen.text()?.contains("sampling its threads"));
    let sampled = WaitSource::Sampled {
        looks: 157,
        threads: 7,
        running: 1.95,
    };
    // of another process: it was open before
    screen.top.set_waits(pid + 1, Ok(waits(sampled)));
    assert!(screen.text()?.contains("sampling its threads"));
    screen.top.set_waits(pid, Ok(waits(sampled)));
    let golden = |name| root().join(format!("tests/golden_top/{name}.txt"));
    let mut wrong = Vec::new();
    wrong.extend(expect(&golden("process_waits"), &screen.text()?)?);
    screen
        .top
        .set_waits(pid, Err("not shown: \u{1b}[31m".to_owned()));
    let text = screen.text()?;
    assert!(
        text.contains("not shown:") && !text.contains('\u{1b}'),
        "{text}"
    );
    // where every wait is recorded, nobody looks at threads
    let (mut live, _) = look()?;
    live.about.detail = "waits".to_owned();
    for process in &mut live.processes {
        process.waits = Some(waits(WaitSource::Recorded));
    }
    screen.top.update(Arc::new(live.clone()));
    assert_eq!(screen.top.wants_waits(), None);
    wrong.extend(expect(&golden("process_recorded_waits"), &screen.text()?)?);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let json = serde_json::from_str(&view::top::json(live, &ListOrder::default(), 1))?;
    let schema = document(&root().join("docs/top.schema.json"))?.ok_or("docs/top.schema.json")?;
    let faults = crate::schema::validate(&schema, &json);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

#[test]
fn filter_takes_every_letter() -> Outcome {
    let mut screen = Screen::new(SMALL)?;
    assert_eq!(screen.press("/q")?, KeyAction::Draw);
    assert!(screen.text()?.contains("no match for \"q\""));
    screen.press("⟨esc⟩/backup receiver")?;
    let text = screen.text()?;
    assert!(
        text.contains("backup[") && !text.contains("iperf3["),
        "{text}"
    );
    // the list stays filtered after enter, and is whole again after esc
    screen.press("⟨enter⟩")?;
    assert!(!screen.text()?.contains("iperf3["));
    screen.press("⟨esc⟩")?;
    assert!(screen.text()?.contains("iperf3["));
    Ok(())
}

#[test]
fn selection_survives_update_and_pause_freezes() -> Outcome {
    let mut screen = Screen::new(SMALL)?;
    screen.press("P⟨down⟩⟨down⟩⟨down⟩")?;
    let before = screen.text()?;
    let mut window = window()?;
    let mut connections = golden(CASES[0])?.1.read_all::<Connection>();
    connections.closed_ns.fill(None);
    connections.conn.iter_mut().for_each(|conn| *conn += 900);
    connections.pid.fill(None);
    window.add_connections(&connections);
    screen.press("p")?;
    screen.top.update(Arc::new(window.judge(now())));
    assert!(screen.text()?.contains("PAUSED"));
    assert_eq!(screen.text()?.replace("PAUSED", "      "), before);
    screen.press("p")?;
    screen.top.update(Arc::new(window.judge(now())));
    screen.press("⟨enter⟩")?;
    let opened = screen.text()?;
    let name = before
        .lines()
        .nth(7)
        .and_then(|line| line.split_whitespace().next());
    assert!(opened.contains(name.ok_or("a row")?), "{before}{opened}");
    Ok(())
}

#[test]
fn every_size_is_drawn() -> Outcome {
    for (width, height) in [(1, 1), (5, 2), (20, 5), (40, 10), (80, 24), (300, 80)] {
        let mut screen = Screen::new((width, height))?;
        for keys in [
            "⟨enter⟩",
            "⟨enter⟩",
            "⟨end⟩",
            "2⟨enter⟩",
            "3⟨end⟩",
            "?⟨end⟩",
        ] {
            screen.press(keys)?;
        }
    }
    Ok(())
}

#[test]
fn hostile_names_do_not_reach_the_terminal() -> Outcome {
    let (mut live, histories) = look()?;
    let hostile = "e\u{1b}]52;c;ZXZpbA==\u{7}v\u{9b}2Ji\u{202e}l\n";
    for connection in &mut live.connections {
        connection.remote = hostile.to_owned();
        connection.local = hostile.to_owned();
        if let Some(process) = &mut connection.process {
            process.comm = Some(hostile.to_owned());
        }
    }
    for process in live
        .processes
        .iter_mut()
        .filter_map(|it| it.process.as_mut())
    {
        process.comm = Some(hostile.to_owned());
    }
    for finding in &mut live.findings {
        finding.subject.remote = hostile.to_owned();
        finding.headline = hostile.to_owned();
    }
    live.about.host = hostile.to_owned();
    let live = Arc::new(live);
    let bad = |text: &str| {
        text.chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}')
    };
    let mut screen = Screen::new(SMALL)?;
    screen.histories = histories;
    screen.top.update(Arc::clone(&live));
    for keys in ["", "⟨enter⟩", "⟨enter⟩", "2", "⟨enter⟩", "3", "⟨enter⟩"] {
        screen.press(keys)?;
        assert_eq!(bad(&screen.text()?), None, "{keys}");
    }
    let text = view::top::text(&live, &ListOrder::default(), 9, &TextOptions::default());
    assert_eq!(bad(&text), None);
    let json = view::top::json((*live).clone(), &ListOrder::default(), 9);
    assert_eq!(bad(&json), None);
    Ok(())
}

#[test]
fn loss_and_missing_privileges_are_shown() -> Outcome {
    let mut window = window()?;
    let lost = Loss {
        probe: "calls".to_owned(),
        produced: 1_009,
        lost: [("ring_full".to_owned(), 211)].into(),
        ..Loss::default()
    };
    let live = window.judge(SnapshotInfo {
        loss: vec![lost],
        only_own: true,
        ..now()
    });
    let mut screen = Screen::new(LARGE)?;
    screen.top.update(Arc::new(live));
    let text = screen.text()?;
    assert!(
        text.contains("LOST 211 records") && text.contains("sudo"),
        "{text}"
    );
    Ok(())
}

#[test]
fn empty_screen_reports_nothing_seen() -> Outcome {
    let header = golden(CASES[0])?.1.header().clone();
    let mut window = LiveWindow::new(header, 10_000_000_000);
    let cases = [
        (
            Some("--comm nosuch"),
            true,
            "no socket matches --comm nosuch ·",
        ),
        (None, true, "you own no TCP socket here; root sees all ·"),
        (None, false, "no TCP socket here ·"),
    ];
    for (filter, only_own, expected) in cases {
        let mut live = window.judge(SnapshotInfo { only_own, ..now() });
        live.about.filter = filter.map(str::to_owned);
        let text = view::top::text(&live, &ListOrder::default(), 9, &TextOptions::default());
        assert!(text.starts_with(expected), "{text}");
        let mut screen = Screen::new(LARGE)?;
        screen.top.update(Arc::new(live));
        assert!(!screen.text()?.contains("no problem"));
    }
    Ok(())
}

#[test]
fn json_keeps_the_published_schema() -> Outcome {
    let schema: serde_json::Value =
        document(&root().join("docs/top.schema.json"))?.ok_or("docs/top.schema.json is missing")?;
    let (live, _) = look()?;
    let all = live.connections.len();
    let json = serde_json::from_str(&view::top::json(live.clone(), &ListOrder::default(), all))?;
    let faults = crate::schema::validate(&schema, &json);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let first: serde_json::Value =
        serde_json::from_str(&view::top::json(live, &ListOrder::default(), 2))?;
    assert_eq!(first["connections"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["totals"]["connections"], all);
    // what both contracts have is declared the same in both
    let report: serde_json::Value =
        document(&root().join("docs/report.schema.json"))?.ok_or("docs/report.schema.json")?;
    let shared = [
        "coverage",
        "cost",
        "process",
        "stage_share",
        "stages",
        "receive",
        "finding",
        "undecided",
    ];
    for name in shared {
        assert_eq!(schema["$defs"][name], report["$defs"][name], "{name}");
    }
    Ok(())
}

/// The rows of a table are columns: both ends of the fixture's connections are there.
#[test]
fn cases_match_golden_recordings() -> Outcome {
    let (live, _) = look()?;
    let mut number = 0;
    for case in CASES {
        number += golden(case)?.1.rows::<Connection>() as usize;
    }
    assert_eq!(live.connections.len(), number);
    let rules: Vec<&str> = live.findings.iter().map(|it| it.rule.name()).collect();
    for rule in [
        "nagle_delayed_ack",
        "receive_buffer_limited",
        "retransmit_timeouts",
    ] {
        assert!(rules.contains(&rule), "{rules:?}");
    }
    Ok(())
}
