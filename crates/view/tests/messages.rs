//! From recorded messages to the printed parts of their way: `tests/golden_messages/recording/` is a
//! small recording as text, the files beside it are what `whylat report --messages` answers, and
//! `message_*` what `--message` does.
//!
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! WHYLAT_GOLDEN_UPDATE=1 cargo test --release -p whylat-view --test messages
//! ```

#[path = "fixture/data.rs"]
mod data;
mod fixture;
mod schema;

use std::path::{Path, PathBuf};

use diagnose::messages::MessageTable;
use diagnose::messages::ends::report::EndsReport;
use diagnose::messages::ends::{self, Side};
use diagnose::messages::report::{MessageReport, MessageStory};
use diagnose::report::Recorded;
use diagnose::waits::Names;
use serde_json::{Value, json};
use table::tables::{
    Activity, ClockPair, Connection, Process, ReceivedMessage, ReceivedMessages, SentMessage,
    SentMessages, UdpSocket,
};
use table::{Columns, Recording, row_of, write_fixture};
use whylat_view as view;
use whylat_view::TextOptions;
use whylat_view::html::{Answers, html};

use data::Data;
use fixture::{Outcome, document, expect, rows};

/// Messages whose story is told: the end of each file's name, and the id.
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

fn recorded() -> Outcome<Recorded> {
    let file = |name: &str| root().join("recording").join(name);
    Ok(Recorded {
        coverage: document(&file("coverage.json"))?.unwrap_or_default(),
        loss: document(&file("loss.json"))?.unwrap_or_default(),
        cost: document(&file("cost.json"))?,
        closed: document(&file("close.json"))?,
        ..Recorded::default()
    })
}

fn table(ready: impl FnOnce(MessageTable) -> MessageTable) -> Outcome<MessageTable> {
    let directory = root().join("recording");
    let mut names = Names::default();
    names.add_connections(rows::<Connection>(&directory)?);
    names.add_udp_sockets(&rows::<UdpSocket>(&directory)?);
    names.add_processes(&rows::<Process>(&directory)?);
    let header = document(&directory.join("header.json"))?.ok_or("header.json is missing")?;
    let pairs = rows::<ClockPair>(&directory)?;
    let mut messages = ready(MessageTable::new(header, names).with_clocks(&pairs));
    messages.add_received(&rows::<ReceivedMessage>(&directory)?);
    messages.add_sent(&rows::<SentMessage>(&directory)?);
    Ok(messages)
}

fn answer(limit: usize) -> Outcome<MessageReport> {
    Ok(table(|table| table)?.report(recorded()?, limit))
}

fn story(id: &str) -> Outcome<MessageStory> {
    let id = id.parse()?;
    let mut table = table(|table| table.looking_for(id))?;
    table.add_activities(&rows::<Activity>(&root().join("recording"))?);
    Ok(table.story(recorded()?).ok_or("no such message")?)
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

fn both_ends() -> Outcome<EndsReport> {
    let directory = root().join("recording");
    let side = |boot_id: Option<&str>| -> Outcome<Side> {
        let mut names = Names::default();
        names.add_connections(rows::<Connection>(&directory)?);
        names.add_processes(&rows::<Process>(&directory)?);
        let header = document(&directory.join("header.json"))?;
        let mut header: table::manifest::Header = header.ok_or("header.json is missing")?;
        if let Some(boot_id) = boot_id {
            (header.boot_id, header.host) = (boot_id.to_owned(), "lab2".to_owned());
        }
        Ok(Side::new(header, rows::<Connection>(&directory)?, names))
    };
    let sent = rows::<SentMessage>(&directory)?;
    let (received, answers) = server(&sent)?;
    let mut first = side(None)?;
    first.add_received(&client(&answers)?);
    first.add_sent(&sent);
    let mut other = side(Some("another"))?;
    other.add_received(&received);
    other.add_sent(&answers);
    Ok(ends::report(first, other, recorded()?, 10))
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
    check("messages.json", &view::json(&report))?;
    let ends = both_ends()?;
    check("ends.txt", &view::ends_text(&ends, &options))?;
    check("ends.json", &view::json(&ends))?;
    for (name, id) in STORIES {
        let story = story(id)?;
        let text = view::message_text(&story, &options);
        check(&format!("message_{name}.txt"), &text)?;
        let json = view::json(&story);
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
fn the_clocks_are_told_by_the_messages() -> Outcome {
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
fn a_message_that_is_not_there_is_not_found() -> Outcome {
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

/// The data of a page of the golden recording.
fn page() -> Outcome<Data> {
    let scratch = tempfile::tempdir()?;
    let output = scratch.path().join("r.whylat");
    write_fixture(root().join("recording"), &output)?;
    let recording = Recording::open(output)?;
    let (coverage, loss) = (recording.coverage().to_vec(), recording.loss().to_vec());
    let header = recording.header().clone();
    let evidence = diagnose::Evidence::new(header, coverage, loss, None, None, Vec::new());
    let answers = Answers {
        report: diagnose::diagnose(evidence),
        waits: None,
        messages: None,
        tail: None,
    };
    let side = view::html::Side {
        name: "r".to_owned(),
        recording: &recording,
        answers,
    };
    Data::of(&html(&[side], None)?)
}

/// What a page has of a message: its id, its steps, and its parts.
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
    let data = page()?;
    let received = drawn(&data, "received_messages", 'r')?;
    let sent = drawn(&data, "sent_messages", 's')?;
    assert_eq!((received.len(), sent.len()), (206, 62));
    for (id, steps, parts) in received.into_iter().chain(sent) {
        let story = serde_json::to_value(story(&id)?)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let told = list(&story["steps"]).into_iter();
        let told = told.map(|it| json!([it["after_ns"], it["what"], it["error_ns"]]));
        assert_eq!(steps, told.collect::<Vec<_>>(), "{id}");
        let told = list(&story["lifetime"]["parts"]).into_iter();
        // what arrived at once did not arrive for any time
        let told = told.filter(|it| it["part"] != "arriving" || it["ns"] != 0);
        let told = told.map(|it| json!([it["part"], it["ns"]]));
        assert_eq!(parts, told.collect::<Vec<_>>(), "{id}");
    }
    Ok(())
}
