//! A recording as one HTML file that a browser opens from disk, without a network. Comes in: an opened recording
//! and what was concluded of it; goes out: the viewer (`web/`, built into `assets/viewer.html`) with the data in it.
//!
//! ```text
//! life    from when to when the host had each message
//! steps   what happened to it, and the parts of its way
//! calls   the call that each wait was in
//! causes  which spans of CPUs explain it
//! column  cells → bytes
//! encode  the same of a table, batch by batch
//! pack    tables → columns, and which
//! thin    which rows, if all would be too many
//! base64  bytes → text
//! ```
//!
//! The data is a raw DEFLATE stream in base64: four bytes with the length of the header (little-endian), the header
//! (JSON, [`SCHEMA`]), then the columns.

mod base64;
mod calls;
mod causes;
mod column;
mod encode;
mod life;
mod pack;
mod steps;
mod thin;

use std::io::Write;

use diagnose::Report;
pub use diagnose::recording::RecordingAnswers;
use diagnose::requests::RequestReport;
use diagnose::tail::report::TailReport;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use table::{Recording, Stage};

use crate::text::{answer_sentence, requests_headline};
use pack::TableHead;
use steps::StepHead;
use thin::Thinning;

/// Name and version of the data in a page.
const SCHEMA: &str = "whylat.view/2";

/// The viewer; `make viewer` builds it.
const VIEWER: &str = include_str!("../../assets/viewer.html");

/// Placeholder of the data in the viewer.
const PLACE: &str = "@whylat-data@";

/// Largest page, bytes: a browser opens it in about two seconds.
const LARGEST: usize = 25_000_000;

/// A recording in a page.
#[derive(Debug)]
pub struct PageSide<'a> {
    /// Its name.
    pub name: String,
    /// The recording.
    pub recording: &'a Recording,
    /// Its diagnosis.
    pub answers: RecordingAnswers,
}

#[derive(Serialize)]
struct PageHeader<'a> {
    schema: &'static str,
    whylat: &'static str,
    /// Descriptions of the stages, in order of decision.
    stages: Vec<(&'static str, &'static str)>,
    sides: Vec<SideHead<'a>>,
    difference: Option<&'a TailReport>,
}

#[derive(Serialize)]
struct SideHead<'a> {
    name: &'a str,
    /// The answer.
    answer: String,
    /// The answer about requests; `None`: none was seen.
    requests_answer: Option<String>,
    /// Services, as the contract `whylat.requests/1` has them.
    requests_report: Option<&'a RequestReport>,
    #[serde(flatten)]
    answers: &'a RecordingAnswers,
    tables: &'a [TableHead],
    /// Lists of steps of messages, by number.
    step_lists: &'a [Vec<StepHead>],
    /// Offset of its columns.
    at: usize,
}

/// Returns the page of one recording, or of two side by side. `difference`: why messages of the second take longer than
/// those of the first.
///
/// # Errors
/// Errors of writing to memory.
pub fn html(sides: &[PageSide], difference: Option<&TailReport>) -> std::io::Result<String> {
    let mut nth = 1;
    loop {
        let data = page_data(sides, difference, nth)?;
        let size = VIEWER.len() + data.len().div_ceil(3) * 4;
        // A page of a thousandth of the rows that is still too large is so by its reports.
        if size <= LARGEST || nth > 1_000 {
            return Ok(fill_template(&data));
        }
        nth = (nth * size.div_ceil(LARGEST)).max(nth + 1);
    }
}

/// Returns the page with the packed data in it.
fn fill_template(data: &[u8]) -> String {
    let (before, after) = VIEWER
        .split_once(PLACE)
        .expect("the viewer has a place for data");
    let mut page = String::with_capacity(VIEWER.len() + data.len() * 3 / 2);
    page.push_str(before);
    base64::encode(data, &mut page);
    page.push_str(after);
    page
}

/// Returns the answer, after the warnings about the recording.
fn answer_text(report: &Report) -> String {
    let before = [
        report.about.damage_warning("Damaged"),
        report.unjudged_text(),
    ];
    let sentences = before
        .into_iter()
        .flatten()
        .chain([answer_sentence(report)]);
    sentences.collect::<Vec<_>>().join(" ")
}

/// Returns the headline of requests; None if the recording has none.
fn requests_answer(report: &Report) -> Option<String> {
    let requests = report.requests.as_ref()?;
    (requests.count() > 0).then(|| requests_headline(requests))
}

/// Packs the data of one or two recordings for the page.
fn page_data(
    sides: &[PageSide],
    difference: Option<&TailReport>,
    nth: usize,
) -> std::io::Result<Vec<u8>> {
    let packed: Vec<_> = sides
        .iter()
        .map(|side| {
            let started_ns = side.recording.header().started_ns;
            let tail = side.answers.tail.as_ref();
            let thinning = Thinning::new(nth, tail, started_ns);
            pack::pack(side.recording, tail, &thinning)
        })
        .collect();
    let mut at = 0;
    let heads = sides.iter().zip(&packed).map(|(side, packed)| {
        let head = SideHead {
            name: &side.name,
            answer: answer_text(&side.answers.report),
            requests_answer: requests_answer(&side.answers.report),
            requests_report: side.answers.report.requests.as_ref(),
            answers: &side.answers,
            tables: &packed.heads,
            step_lists: &packed.step_lists,
            at,
        };
        at += packed.bytes.len();
        head
    });
    let header = PageHeader {
        schema: SCHEMA,
        whylat: env!("CARGO_PKG_VERSION"),
        stages: Stage::ALL
            .iter()
            .map(|stage| (stage.name(), stage.doc()))
            .collect(),
        sides: heads.collect(),
        difference,
    };
    let header = serde_json::to_vec(&header)?;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let length = u32::try_from(header.len()).map_err(std::io::Error::other)?;
    encoder.write_all(&length.to_le_bytes())?;
    encoder.write_all(&header)?;
    for side in &packed {
        encoder.write_all(&side.bytes)?;
    }
    encoder.finish()
}
