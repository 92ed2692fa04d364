//! The page of a recording holds its reports and its rows, and says what it leaves out.

#[path = "fixture/data.rs"]
mod data;

use std::path::Path;

use diagnose::waits::{Grouping, Names, WaitFilter, WaitTable};
use diagnose::{Evidence, Report};
use table::tables::{Connection, Process, Wait};
use table::{Recording, write_fixture};
use whylat_view::html::{Answers, Side, html};

use data::Data;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

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
    let data = Data::of(&html(&[side], None)?)?;
    let answer = data.header["sides"][0]["answer"]
        .as_str()
        .unwrap_or_default();
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
    let data = Data::of(&page)?;
    let side = &data.header["sides"][0];
    assert_eq!(side["name"], name.as_str());
    assert_eq!(side["waits"]["schema"], "whylat.waits/1");
    let table = data.table("waits")?;
    let rows = (&table.head["rows"], &table.head["all_rows"]);
    assert_eq!(rows, (&117.into(), &117.into()));
    let starts = table.whole("start_ns")?;
    let rows = recording.read_all::<Wait>();
    let since = |ns: &u64| Some(ns.wrapping_sub(recording.header().started_ns) as i64);
    assert_eq!(starts, rows.start_ns.iter().map(since).collect::<Vec<_>>());

    // Waits have the names of the report, but for what a futex is used for.
    for word in table.words("object_name")?.into_iter().flatten() {
        assert!(
            titles.iter().any(|title| title.starts_with(&word)),
            "{word}"
        );
    }
    Ok(())
}
