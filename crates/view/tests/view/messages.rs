//! From recorded messages to the printed parts of their way: `tests/golden_messages/recording/` is a
//! small recording as text, the files beside it are what `whylat report --messages` answers, and
//! `message_*` what `--message` does.
//!
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! make golden
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use diagnose::messages::ends::report::EndsReport;
use diagnose::messages::report::{MessageReport, MessageStory};
use diagnose::recording::{DiagnosisOptions, TailOptions};
use serde_json::{Value, json};
use table::manifest::Header;
use table::tables::{ReceivedMessage, ReceivedMessages, SentMessage, SentMessages};
use table::{Columns, Recording, row_of};
use tempfile::TempDir;
use whylat_view as view;
use whylat_view::TextOptions;
use whylat_view::html::html;

use crate::fixture::data::Data;
use crate::fixture::{Outcome, abridged, document, expect, recording, write_rows};

/// Messages with a golden story: the end of each file's name, and the id.
const STORIES: [(&str, &str); 7] = [
    ("received", "1:r50256"),
    ("held", "1:s8400"),
    ("resent", "1:s12950"),
    ("stamped", "1:s8200"),
    ("unseen", "1:s24000"),
    ("udp_received", "5:r200"),
    ("udp_sent", "5:s9000"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_messages")
}

/// Returns the report of messages of the golden recording.
fn answer(limit: usize) -> Outcome<MessageReport> {
    let (_scratch, recording) = recording(&root().join("recording"))?;
    Ok(diagnose::recording::messages(&recording, limit))
}

/// Returns the report on one message.
fn story(id: &str) -> Outcome<MessageStory> {
    let (_scratch, recording) = recording(&root().join("recording"))?;
    let story = diagnose::recording::message(&recording, id.parse()?);
    Ok(story.ok_or("no such message")?)
}

/// The server's end of what the client sent, by a clock that is 5 s ahead: each message takes 40 µs, is read
/// 3 µs later, and its call ends after 2 µs; the server answers every fourth after 10 µs.
fn server(sent: &SentMessages) -> Outcome<(ReceivedMessages, SentMessages)> {
    const AHEAD_NS: u64 = 5_000_000_000;
    let (mut received, mut answers) = (ReceivedMessages::default(), SentMessages::default());
    for row in (0..sent.len()).filter(|row| sent.conn[*row] == 1) {
        let arrived_ns = sent.driver_ns[row].ok_or("it went out")? + AHEAD_NS + 40_000;
        received.push(row_of(serde_json::json!({
            "conn": 2, "bytes": sent.bytes[row], "offset_end": sent.offset_end[row],
            "first_arrival_ns": arrived_ns, "last_arrival_ns": arrived_ns, "segments": 1,
            "ready_ns": arrived_ns + 1_000, "running_ns": arrived_ns + 3_000,
            "done_ns": arrived_ns + 5_000,
        }))?);
        if row % 4 == 0 {
            let call_ns = arrived_ns + 15_000;
            answers.push(row_of(serde_json::json!({
                "conn": 2, "bytes": 7, "offset_end": 7 * (row as u64 / 4 + 1),
                "call_ns": call_ns, "driver_ns": call_ns + 2_000, "done_ns": call_ns + 4_000,
            }))?);
        }
    }
    Ok((received, answers))
}

/// The client's end of that: answers take 60 µs.
fn client(answers: &SentMessages) -> Outcome<ReceivedMessages> {
    let mut received = ReceivedMessages::default();
    for row in 0..answers.len() {
        let arrived_ns = answers.driver_ns[row].ok_or("it went out")? - 5_000_000_000 + 60_000;
        received.push(row_of(serde_json::json!({
            "conn": 1, "bytes": 7, "offset_end": answers.offset_end[row],
            "first_arrival_ns": arrived_ns, "last_arrival_ns": arrived_ns, "segments": 1,
            "ready_ns": arrived_ns + 1_000, "done_ns": arrived_ns + 2_000,
        }))?);
    }
    Ok(received)
}

/// Returns a recording with these messages, of the given host.
fn end(
    received: &ReceivedMessages,
    sent: &SentMessages,
    boot_id: Option<&str>,
) -> Outcome<(TempDir, Recording)> {
    let (golden, text) = (root().join("recording"), tempfile::tempdir()?);
    let inherits = format!("{}\n", golden.canonicalize()?.display());
    fs::write(text.path().join("inherits.txt"), inherits)?;
    write_rows::<ReceivedMessage>(text.path(), received)?;
    write_rows::<SentMessage>(text.path(), sent)?;
    if let Some(boot_id) = boot_id {
        let header = &table::text_files(&golden)?["header.json"];
        let mut header: Header = document(header)?.ok_or("header.json is missing")?;
        (header.boot_id, header.host) = (boot_id.to_owned(), "lab2".to_owned());
        let header = serde_json::to_string(&header)?;
        fs::write(text.path().join("header.json"), header)?;
    }
    recording(text.path())
}

/// Returns the report of messages at both ends.
fn both_ends() -> Outcome<EndsReport> {
    let (_scratch, golden) = recording(&root().join("recording"))?;
    let sent = golden.read_all::<SentMessage>();
    let (received, answers) = server(&sent)?;
    let (_first, first) = end(&client(&answers)?, &sent, None)?;
    let (_other, other) = end(&received, &answers, Some("another"))?;
    Ok(diagnose::recording::join_ends(&first, &other, 10))
}

#[test]
fn answers_match_golden_files() -> Outcome {
    let options = TextOptions::default();
    let report = answer(10)?;
    let mut wrong = Vec::new();
    let mut check = |name: &str, text: &str| -> Outcome {
        wrong.extend(expect(&root().join(name), text)?);
        Ok(())
    };
    check("messages.txt", &view::messages_text(&report, &options))?;
    check("messages.json", &abridged(&view::json(&report), 1)?)?;
    let ends = both_ends()?;
    check("ends.txt", &view::ends_text(&ends, &options))?;
    check("ends.json", &abridged(&view::json(&ends), 2)?)?;
    for (name, id) in STORIES {
        let story = story(id)?;
        let text = view::message_text(&story, &options);
        check(&format!("message_{name}.txt"), &text)?;
        let json = abridged(&view::json(&story), 8)?;
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
        let faults = crate::schema::validate(&schema, &serde_json::from_str(json)?);
        assert!(faults.is_empty(), "{file}:\n{}", faults.join("\n"));
        Ok(())
    };
    check("messages.schema.json", &view::json(&answer(10)?))?;
    check("ends.schema.json", &view::json(&both_ends()?))?;
    for (_, id) in STORIES {
        check("message.schema.json", &view::json(&story(id)?))?;
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

/// Known to be 5 s, with half of the quickest round trip's 100 µs as its error.
#[test]
fn clock_offset_follows_from_messages() -> Outcome {
    let report = serde_json::to_value(both_ends()?)?;
    let offsets = report["clocks"]["offsets"]
        .as_array()
        .ok_or("clocks apart")?;
    assert_eq!(offsets.len(), 1);
    let offset_ns = offsets[0]["offset_ns"].as_i64().ok_or("an offset")?;
    assert_eq!(offset_ns, 5_000_000_000 - 10_000);
    assert_eq!(offsets[0]["error_ns"], 50_000);
    Ok(())
}

#[test]
fn unknown_message_is_not_found() -> Outcome {
    for id in ["1:r999999999", "99:r1", "1:s0"] {
        assert!(story(id).is_err(), "{id}");
    }
    Ok(())
}

#[test]
fn lines_fit() -> Outcome {
    let options = TextOptions::default();
    let mut texts = vec![
        view::messages_text(&answer(1)?, &options),
        view::ends_text(&both_ends()?, &options),
    ];
    for (_, id) in STORIES {
        texts.push(view::message_text(&story(id)?, &options));
    }
    for text in texts {
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
    }
    Ok(())
}

/// The data of a page of a recording.
fn page(recording: &Recording) -> Outcome<Data> {
    let side = view::html::PageSide {
        name: "r".to_owned(),
        recording,
        answers: diagnose::recording::page(
            recording,
            DiagnosisOptions::default(),
            &TailOptions::default(),
        )?,
    };
    Data::from_page(&html(&[side], None)?)
}

/// Returns a page's data of a message: its id, its steps, and its parts.
type Drawn = (String, Vec<Value>, Vec<Value>);

/// The messages of a table of a page. A step is its time after the first, what happened, and how; a part its name, and
/// how long it took.
fn drawn(data: &Data, table: &str, letter: char) -> Outcome<Vec<Drawn>> {
    let table = data.table(table)?;
    let (conns, ends) = (table.words("conn")?, table.whole("offset_end")?);
    let (lists, errors) = (table.whole("step_list")?, table.whole("on_wire_error_ns")?);
    let times: Outcome<Vec<_>> = (0..8)
        .map(|step| table.whole(&format!("step_{step}_ns")))
        .collect();
    let times = times?;
    let mut all = Vec::new();
    for row in 0..conns.len() {
        let list = lists[row].ok_or("a list")?;
        let list = &data.header["sides"][0]["step_lists"][usize::try_from(list)?];
        let list = list.as_array().ok_or("its steps")?;
        let ns = |step: usize| times[step][row].unwrap_or_default();
        let (mut steps, mut parts) = (Vec::new(), Vec::new());
        for (place, step) in list.iter().enumerate() {
            let error = errors[row].filter(|_| step["what"] == "on_wire");
            steps.push(json!([ns(place) - ns(0), step["what"], error]));
            if let Some(from) = step["ends"]["from"].as_u64() {
                let length_ns = ns(place) - ns(usize::try_from(from)?);
                parts.push(json!([step["ends"]["part"], length_ns]));
            }
        }
        assert!(times.get(list.len()).is_none_or(|it| it[row].is_none()));
        let conn = conns[row].clone().unwrap_or_default();
        let end = ends[row].ok_or("an end")?;
        all.push((format!("{conn}:{letter}{end}"), steps, parts));
    }
    Ok(all)
}

#[test]
fn a_page_has_the_steps_and_parts_of_the_report() -> Outcome {
    let (_scratch, recording) = recording(&root().join("recording"))?;
    let data = page(&recording)?;
    let received = drawn(&data, "received_messages", 'r')?;
    let sent = drawn(&data, "sent_messages", 's')?;
    assert_eq!((received.len(), sent.len()), (206, 62));
    for (id, steps, parts) in received.into_iter().chain(sent) {
        let story =
            diagnose::recording::message(&recording, id.parse()?).ok_or("no such message")?;
        let story = serde_json::to_value(story)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let expected = list(&story["steps"]).into_iter();
        let expected = expected.map(|it| json!([it["after_ns"], it["what"], it["error_ns"]]));
        assert_eq!(steps, expected.collect::<Vec<_>>(), "{id}");
        let expected = list(&story["lifetime"]["parts"]).into_iter();
        // what arrived at once did not arrive for any time
        let expected = expected.filter(|it| it["part"] != "arriving" || it["ns"] != 0);
        let expected = expected.map(|it| json!([it["part"], it["ns"]]));
        assert_eq!(parts, expected.collect::<Vec<_>>(), "{id}");
    }
    Ok(())
}
