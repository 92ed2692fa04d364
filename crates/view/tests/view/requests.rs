//! From recorded calls and waits to the printed requests: `tests/golden_requests/recording/` is a small recording of a
//! server as text, the files beside it are what `whylat report --requests` and `--request` answer, as text and as JSON.
//!
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! make golden
//! ```

use std::path::{Path, PathBuf};

use diagnose::recording::{for_each_request, requests};
use diagnose::requests::{RequestFilter, RequestReport};
use whylat_view as view;
use whylat_view::{CsvText, RequestCsv, TextOptions};

use crate::fixture::{Outcome, abridged, document, expect, recording};

/// The request that is shown by itself: it waited behind another, and asked upstream.
const ONE: &str = "101:q40";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_requests")
}

/// Returns the report of requests of the golden recording.
fn answer(filter: RequestFilter) -> Outcome<RequestReport> {
    let (_scratch, recording) = recording(&root().join("recording"))?;
    Ok(requests(&recording, filter, 10))
}

/// Returns the report on one request.
fn one() -> Outcome<RequestReport> {
    answer(RequestFilter {
        id: Some(ONE.parse()?),
        ..RequestFilter::default()
    })
}

/// Returns the requests of the golden recording as CSV.
fn csv() -> Outcome<String> {
    let (_scratch, recording) = recording(&root().join("recording"))?;
    let mut out = Vec::new();
    let mut csv = RequestCsv::new(CsvText::Exact, &mut out)?;
    let mut written = Ok(());
    for_each_request(&recording, RequestFilter::default(), |row| {
        if written.is_ok() {
            written = csv.add(&row);
        }
    });
    written?;
    csv.finish()?;
    Ok(String::from_utf8(out)?)
}

#[test]
fn answers_match_golden_files() -> Outcome {
    let options = TextOptions::default();
    let (all, one) = (answer(RequestFilter::default())?, one()?);
    let request = one.requests.first().ok_or("no such request")?;
    let mut wrong = Vec::new();
    let mut check = |name: &str, text: &str| -> Outcome {
        wrong.extend(expect(&root().join(name), text)?);
        Ok(())
    };
    check("requests.txt", &view::requests_text(&all, &options))?;
    check("requests.json", &abridged(&view::json(&all), 1)?)?;
    check("requests.csv", &csv()?)?;
    check("request.txt", &view::request_text(&one, request, &options))?;
    check("request.json", &abridged(&view::json(&one), 8)?)?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn json_keeps_the_published_schema() -> Outcome {
    let path = root().join("../../docs/requests.schema.json");
    let schema = document(&path)?.ok_or("docs/requests.schema.json is missing")?;
    for report in [answer(RequestFilter::default())?, one()?] {
        let json = serde_json::from_str(&view::json(&report))?;
        let faults = crate::schema::validate(&schema, &json);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
    Ok(())
}

#[test]
fn a_filter_chooses_requests() -> Outcome {
    let all = answer(RequestFilter::default())?;
    let of = |filter: RequestFilter| -> Outcome<u64> { Ok(answer(filter)?.count()) };
    let slow = RequestFilter {
        longer_than_ns: Some(5_000_000),
        ..RequestFilter::default()
    };
    let upstream = RequestFilter {
        object: Some("10.0.0.9:5432".to_owned()),
        ..RequestFilter::default()
    };
    let nobody = RequestFilter {
        pid: Some(1),
        ..RequestFilter::default()
    };
    assert!((1..all.count()).contains(&of(slow)?));
    assert_eq!(of(upstream)?, 1);
    assert_eq!(of(nobody)?, 0);
    Ok(())
}

#[test]
fn long_names_are_whole() -> Outcome {
    let mut all = answer(RequestFilter::default())?;
    let long = "[2001:db8:85a3:8d3:1319:8a2e:370:7348]:45678";
    let service = all.services.first_mut().ok_or("no service")?;
    service.address = long.to_owned();
    let text = view::requests_text(&all, &TextOptions::default());
    let line = format!("  {} {long}\n", "shop");
    assert!(text.contains(&line), "{text}");
    Ok(())
}
