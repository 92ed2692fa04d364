//! The page of a recording holds its reports and its rows, and says what it leaves out.

use std::io::Read;
use std::path::Path;

use diagnose::waits::{Grouping, Names, WaitFilter, WaitTable};
use diagnose::{Evidence, Report};
use flate2::read::DeflateDecoder;
use serde_json::Value;
use table::tables::{Connection, Process, Wait};
use table::{Recording, write_fixture};
use whylat_view::html::{Answers, Side, html};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn recording(scratch: &Path) -> Outcome<Recording> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_waits/recording");
    let output = scratch.join("r.whylat");
    write_fixture(root, &output)?;
    Ok(Recording::open(output)?)
}

fn report(recording: &Recording) -> Report {
    let (coverage, loss) = (recording.coverage().to_vec(), recording.loss().to_vec());
    let (cost, closed) = (recording.cost().cloned(), recording.closed().cloned());
    let header = recording.header().clone();
    diagnose::diagnose(Evidence::new(
        header,
        coverage,
        loss,
        cost,
        closed,
        Vec::new(),
    ))
}

/// The header of a page's data, and the columns.
fn unpacked(page: &str) -> Outcome<(Value, Vec<u8>)> {
    let begin = "<script type=\"text/plain\" id=\"data\">";
    let rest = page.split_once(begin).ok_or("no data")?.1;
    let text = rest.split_once("</script>").ok_or("no end")?.0;
    let mut data = Vec::new();
    DeflateDecoder::new(decoded(text).as_slice()).read_to_end(&mut data)?;
    let (length, rest) = data.split_at(4);
    let length = u32::from_le_bytes(length.try_into()?) as usize;
    let header = serde_json::from_slice(&rest[..length])?;
    Ok((header, rest[length..].to_vec()))
}

fn decoded(text: &str) -> Vec<u8> {
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = text
        .bytes()
        .filter_map(|byte| digits.bytes().position(|digit| digit == byte));
    let mut out = Vec::new();
    while let Some(first) = bits.next() {
        let rest: Vec<usize> = bits.by_ref().take(3).collect();
        let group = std::iter::once(first).chain(rest.iter().copied());
        let word = group.fold(0, |word, six| word << 6 | six) << (6 * (3 - rest.len()));
        let bytes = [word >> 16, word >> 8, word];
        out.extend(bytes[..rest.len()].iter().map(|byte| *byte as u8));
    }
    out
}

/// Whole numbers as a page keeps them, of a column that is near to the one before.
fn whole(bytes: &[u8]) -> Vec<i64> {
    let (mut out, mut value, mut shift, mut last) = (Vec::new(), 0_u64, 0, 0);
    for byte in bytes {
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            let zigzag = value - 1;
            last += (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            out.push(last);
            (value, shift) = (0, 0);
        }
    }
    out
}

#[test]
fn a_page_of_a_damaged_recording_says_so_before_its_answer() -> Outcome<()> {
    let scratch = tempfile::tempdir()?;
    let recording = recording(scratch.path())?;
    let mut report = report(&recording);
    report.about.problems = vec!["r.whylat/calls/000002.parquet: missing".to_owned()];
    let answers = Answers {
        report,
        waits: None,
        messages: None,
        tail: None,
    };
    let side = Side {
        name: "r".to_owned(),
        recording: &recording,
        answers,
    };
    let (header, _) = unpacked(&html(&[side], None)?)?;
    let answer = header["sides"][0]["answer"].as_str().unwrap_or_default();
    let said = "This recording is damaged, so that the diagnosis may be wrong (see \"Damaged\"). ";
    assert!(answer.starts_with(said), "{answer}");
    Ok(())
}

#[test]
fn a_page_holds_reports_and_rows() -> Outcome<()> {
    let scratch = tempfile::tempdir()?;
    let recording = recording(scratch.path())?;
    let mut names = Names::default();
    recording.scan::<Connection>(|rows| names.add_connections(rows));
    recording.scan::<Process>(|rows| names.add_processes(&rows));
    let header = recording.header().clone();
    let mut waits = WaitTable::new(header, names, Grouping::Object, WaitFilter::default());
    recording.scan::<Wait>(|rows| waits.add(&rows));
    let waits = waits.report(diagnose::report::Recorded::default(), usize::MAX);
    let titles: Vec<String> = waits.groups.iter().map(|it| it.identity.title()).collect();
    let answers = Answers {
        report: report(&recording),
        waits: Some(waits),
        messages: None,
        tail: None,
    };
    let name = "</script><b>".to_owned();
    let page = html(
        &[Side {
            name: name.clone(),
            recording: &recording,
            answers,
        }],
        None,
    )?;
    assert!(!page.contains(&name));
    let (header, columns) = unpacked(&page)?;
    let side = &header["sides"][0];
    assert_eq!(side["name"], name.as_str());
    assert_eq!(side["waits"]["schema"], "whylat.waits/1");
    let tables = side["tables"].as_array().ok_or("no tables")?;
    let table = tables.iter().find(|table| table["name"] == "waits");
    let table = table.ok_or("no waits")?;
    assert_eq!(
        (&table["rows"], &table["all_rows"]),
        (&117.into(), &117.into())
    );
    let of = |name: &str| {
        let columns = table["columns"].as_array().into_iter().flatten();
        columns
            .clone()
            .find(|column| column["name"] == name)
            .cloned()
    };

    let start = of("start_ns").ok_or("no start_ns")?;
    let place = |head: &Value, key: &str| head[key].as_u64().unwrap_or_default() as usize;
    let at = place(&start, "at");
    let starts = whole(&columns[at..at + place(&start, "bytes")]);
    let rows = recording.read_all::<Wait>();
    let since = |ns: &u64| ns.wrapping_sub(recording.header().started_ns) as i64;
    assert_eq!(starts, rows.start_ns.iter().map(since).collect::<Vec<_>>());

    // Waits have the names of the report, but for what a futex is used for.
    let objects = of("object_name").ok_or("no object_name")?;
    let words = objects["words"].as_array().ok_or("no words")?;
    let words = words.iter().filter_map(Value::as_str);
    for word in words {
        assert!(titles.iter().any(|title| title.starts_with(word)), "{word}");
    }
    Ok(())
}
