//! From recorded messages to the printed parts of their way: `tests/golden_messages/recording/` is a
//! small recording as text, the files beside it are what `whylat report --messages` answers, and
//! `message_*` what `--message` does.
//!
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! WHYLAT_GOLDEN_UPDATE=1 cargo test --release -p whylat-view --test messages
//! ```

mod fixture;
mod schema;

use std::path::{Path, PathBuf};

use diagnose::messages::MessageTable;
use diagnose::messages::report::{MessageReport, MessageStory};
use diagnose::report::Recorded;
use diagnose::waits::Names;
use table::tables::{Connection, Process, ReceivedMessage, SentMessage};
use whylat_view as view;
use whylat_view::TextOptions;

use fixture::{Outcome, document, expect, rows};

/// Messages whose story is told: the end of each file's name, and the id.
const STORIES: [(&str, &str); 4] = [
    ("received", "1:r50256"),
    ("held", "1:s8400"),
    ("resent", "1:s12950"),
    ("unseen", "1:s24000"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_messages")
}

fn recorded() -> Outcome<Recorded> {
    let file = |name: &str| root().join("recording").join(name);
    Ok(Recorded {
        coverage: document(&file("coverage.json"))?.unwrap_or_default(),
        loss: document(&file("loss.json"))?.unwrap_or_default(),
        cost: document(&file("cost.json"))?,
        closed: document(&file("close.json"))?,
        problems: Vec::new(),
    })
}

fn table(ready: impl FnOnce(MessageTable) -> MessageTable) -> Outcome<MessageTable> {
    let directory = root().join("recording");
    let mut names = Names::default();
    names.add_connections(rows::<Connection>(&directory)?);
    names.add_processes(&rows::<Process>(&directory)?);
    let header = document(&directory.join("header.json"))?.ok_or("header.json is missing")?;
    let mut messages = ready(MessageTable::new(header, names));
    messages.add_received(&rows::<ReceivedMessage>(&directory)?);
    messages.add_sent(&rows::<SentMessage>(&directory)?);
    Ok(messages)
}

fn answer(limit: usize) -> Outcome<MessageReport> {
    Ok(table(|table| table)?.report(recorded()?, limit))
}

fn story(id: &str) -> Outcome<MessageStory> {
    let id = id.parse()?;
    let found = table(|table| table.looking_for(id))?.story(recorded()?);
    Ok(found.ok_or("no such message")?)
}

#[test]
fn answers_are_as_committed() -> Outcome {
    let options = TextOptions::default();
    let report = answer(10)?;
    let mut wrong = Vec::new();
    let mut check = |name: &str, text: &str| -> Outcome {
        wrong.extend(expect(&root().join(name), text)?);
        Ok(())
    };
    check("messages.txt", &view::messages_text(&report, &options))?;
    check("messages.json", &view::messages_json(&report))?;
    for (name, id) in STORIES {
        let story = story(id)?;
        let text = view::message_text(&story, &options);
        check(&format!("message_{name}.txt"), &text)?;
        let json = view::message_json(&story);
        check(&format!("message_{name}.json"), &json)?;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn json_keeps_the_published_schemas() -> Outcome {
    let check = |file: &str, json: &str| -> Outcome {
        let path = root().join("../../docs").join(file);
        let schema = document(&path)?.ok_or("the schema is missing")?;
        let faults = schema::validate(&schema, &serde_json::from_str(json)?);
        assert!(faults.is_empty(), "{file}:\n{}", faults.join("\n"));
        Ok(())
    };
    check("messages.schema.json", &view::messages_json(&answer(10)?))?;
    for (_, id) in STORIES {
        check("message.schema.json", &view::message_json(&story(id)?))?;
    }
    Ok(())
}

#[test]
fn the_parts_add_up_to_the_whole() -> Outcome {
    for group in answer(10)?.groups {
        let Some(whole) = group.whole else {
            continue;
        };
        let parts: u64 = group.parts.iter().map(|it| it.spread.sum_ns).sum();
        assert_eq!(parts, whole.sum_ns);
        assert_eq!(group.count, whole.count + group.unseen + group.disordered);
    }
    Ok(())
}

#[test]
fn a_message_that_is_not_there_is_not_found() -> Outcome {
    for id in ["1:r999999999", "99:r1", "1:s0"] {
        assert!(story(id).is_err(), "{id}");
    }
    Ok(())
}

#[test]
fn lines_fit() -> Outcome {
    let options = TextOptions::default();
    let mut texts = vec![view::messages_text(&answer(1)?, &options)];
    for (_, id) in STORIES {
        texts.push(view::message_text(&story(id)?, &options));
    }
    for text in texts {
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
    }
    Ok(())
}
