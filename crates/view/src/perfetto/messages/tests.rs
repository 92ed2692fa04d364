//! The parts in a trace are those of `whylat report --message`, of every golden message.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use diagnose::messages::message::MessageId;
use diagnose::waits::NameTable;

use super::super::trace::TraceWriter;
use super::super::wire::read::{Value, fields, messages};
use super::*;

/// Name, begin and end.
type Part = (String, u64, u64);

/// Makes the recording of the golden messages.
fn golden(scratch: &Path) -> Recording {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_messages/recording");
    let output = scratch.join("r.whylat");
    table::write_fixture(folder, &output).expect("written");
    Recording::open(output).expect("opened")
}

/// Returns the number of a field of the wire format.
fn number(fields: &[(u32, Value<'_>)], wanted: u32) -> Option<u64> {
    fields.iter().find_map(|(field, value)| match value {
        Value::Number(number) if *field == wanted => Some(*number),
        _ => None,
    })
}

/// Returns the text of a field of the wire format.
fn text(fields: &[(u32, Value<'_>)], wanted: u32) -> Option<String> {
    fields.iter().find_map(|(field, value)| match value {
        Value::Bytes(bytes) if *field == wanted => Some(String::from_utf8_lossy(bytes).into()),
        _ => None,
    })
}

/// Returns the drawn parts of each message, from the spans within its own. A span and what lies in
/// it follow each other in the file.
fn drawn(trace: &[u8]) -> BTreeMap<String, Vec<Part>> {
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut open: Vec<(String, u64)> = Vec::new();
    let mut id = String::new();
    let mut all: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for packet in messages(trace, 1) {
        for (field, value) in &packet {
            let (12, Value::Bytes(interned)) = (field, value) else {
                continue;
            };
            for name in messages(interned, 2) {
                let text = text(&name, 2).expect("a text");
                names.insert(number(&name, 1).expect("a number"), text);
            }
        }
        let event = packet.iter().find_map(|(field, value)| match value {
            Value::Bytes(bytes) if *field == 11 => Some(*bytes),
            _ => None,
        });
        let Some((ns, event)) = number(&packet, 8).zip(event) else {
            continue;
        };
        match number(&fields(event), 9) {
            Some(1) => {
                let notes = messages(event, 4);
                if let Some(first) = notes.first() {
                    id = text(first, 6).expect("its id comes first");
                    all.entry(id.clone()).or_default();
                }
                let name = number(&fields(event), 10).expect("a name");
                open.push((names[&name].clone(), ns));
            }
            Some(2) => {
                let (name, begin_ns) = open.pop().expect("it began");
                if !open.is_empty() {
                    all.entry(id.clone())
                        .or_default()
                        .push((name, begin_ns, ns));
                }
            }
            _ => {}
        }
    }
    all
}

/// Returns the parts of a message in the report, without empty ones.
fn report_parts(recording: &Recording, id: MessageId) -> Vec<Part> {
    let story = diagnose::recording::message(recording, id).expect("it is there");
    let lifetime = story.lifetime.into_iter();
    let parts = lifetime.flat_map(|it| {
        let mut at_ns = recording.header().started_ns + it.since_start_ns;
        it.parts.into_iter().map(move |took| {
            at_ns += took.ns;
            (took.part.name().to_owned(), at_ns - took.ns, at_ns)
        })
    });
    parts
        .filter(|(_, begin_ns, end_ns)| end_ns > begin_ns)
        .collect()
}

#[test]
fn trace_parts_match_report() {
    let scratch = tempfile::tempdir().expect("a directory");
    let recording = golden(scratch.path());
    let mut out = Vec::new();
    let names = NameTable::default();
    let mut drawing = TraceDrawing::new(TraceWriter::begin(&mut out).expect("memory"), &names);
    draw(&mut drawing, &recording).expect("memory");
    drawing.trace.finish().expect("memory");
    let all = drawn(&out);
    let rows = recording.rows::<ReceivedMessage>() + recording.rows::<SentMessage>();
    assert_eq!(all.len() as u64, rows);
    for (id, parts) in all {
        assert_eq!(
            parts,
            report_parts(&recording, id.parse().expect("an id")),
            "{id}"
        );
    }
}
