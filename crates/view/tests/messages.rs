//! From recorded messages to the printed parts of their way: `tests/golden_messages/recording/` is a
//! small recording as text, the files beside it are what `whylat report --messages` answers.
//!
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! WHYLAT_GOLDEN_UPDATE=1 cargo test --release -p whylat-view --test messages
//! ```

mod fixture;

use std::path::{Path, PathBuf};

use diagnose::messages::MessageTable;
use diagnose::messages::report::MessageReport;
use diagnose::report::Recorded;
use diagnose::waits::Names;
use table::tables::{Connection, Message, Process};
use whylat_view as view;
use whylat_view::TextOptions;

use fixture::{Outcome, document, expect, rows};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_messages")
}

fn answer(limit: usize) -> Outcome<MessageReport> {
    let directory = root().join("recording");
    let file = |name: &str| directory.join(name);
    let mut names = Names::default();
    names.add_connections(rows::<Connection>(&directory)?);
    names.add_processes(&rows::<Process>(&directory)?);
    let header = document(&file("header.json"))?.ok_or("header.json is missing")?;
    let mut messages = MessageTable::new(header, names);
    messages.add(&rows::<Message>(&directory)?);
    let recorded = Recorded {
        coverage: document(&file("coverage.json"))?.unwrap_or_default(),
        loss: document(&file("loss.json"))?.unwrap_or_default(),
        cost: document(&file("cost.json"))?,
        closed: document(&file("close.json"))?,
        problems: Vec::new(),
    };
    Ok(messages.report(recorded, limit))
}

#[test]
fn answers_are_as_committed() -> Outcome {
    let report = answer(10)?;
    let text = view::messages_text(&report, &TextOptions::default());
    let mut wrong = Vec::new();
    wrong.extend(expect(&root().join("received.txt"), &text)?);
    let json = view::messages_json(&report);
    wrong.extend(expect(&root().join("received.json"), &json)?);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn the_parts_add_up_to_the_whole() -> Outcome {
    for received in answer(10)?.connections {
        let Some(whole) = received.whole else {
            continue;
        };
        let parts: u64 = received.parts.iter().map(|it| it.spread.sum_ns).sum();
        assert_eq!(parts, whole.sum_ns);
        assert_eq!(
            received.count,
            whole.count + received.unseen + received.disordered
        );
    }
    Ok(())
}

#[test]
fn lines_fit() -> Outcome {
    let report = answer(1)?;
    let text = view::messages_text(&report, &TextOptions::default());
    let long = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
    Ok(())
}
