//! The screen of `whylat top`: recordings of known problems go into a window of the last seconds, keys are pressed, and
//! the frame is that of `tests/golden_top/`. To rewrite these after a wanted change, and read the difference:
//!
//! ```text
//! make golden
//! ```

use std::sync::Arc;

use diagnose::live::{LiveWindow, ObjectWaits, ProcessWaits, SnapshotInfo, WaitSource};
use table::WaitObject;
use table::manifest::Loss;
use table::tables::Connection;
use view::TextOptions;
use view::top::{KeyAction, ListOrder, ScreenPage, SortKey};
use whylat_view as view;

use crate::fixture::{Outcome, document, expect};
use screen::{CASES, LARGE, SMALL, Screen, golden, look, now, root, window};

mod screen;

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

/// Makes waits of a process's threads for five kinds of objects.
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
    assert_eq!(screen.top.process_to_sample(), None);
    screen.press("2⟨enter⟩")?;
    let pid = screen.top.process_to_sample().ok_or("no process is open")?;
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
    assert_eq!(screen.top.process_to_sample(), None);
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
    screen.top.update(Arc::new(window.judge_window(now())));
    assert!(screen.text()?.contains("PAUSED"));
    assert_eq!(screen.text()?.replace("PAUSED", "      "), before);
    screen.press("p")?;
    screen.top.update(Arc::new(window.judge_window(now())));
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
    let live = window.judge_window(SnapshotInfo {
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
        let mut live = window.judge_window(SnapshotInfo { only_own, ..now() });
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
