//! From recorded drops to the printed report: `tests/golden_drops/recording/` is a small recording as text, the files beside
//! it are the answers of `whylat report --drops`, as text, JSON and CSV.
//!
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! make golden
//! ```

use std::path::{Path, PathBuf};

use diagnose::drops::DropReport;
use whylat_view as view;
use whylat_view::{CsvText, TextOptions};

use crate::fixture::{Outcome, abridged, document, expect, recording};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_drops")
}

/// Returns the report of drops of the golden recording.
fn answer() -> Outcome<DropReport> {
    let (_scratch, recording) = recording(&root().join("recording"))?;
    Ok(diagnose::recording::report_drops(&recording, 10))
}

#[test]
fn answers_match_golden_files() -> Outcome {
    let report = answer()?;
    let mut csv = Vec::new();
    view::drop_csv(&report, CsvText::Exact, &mut csv)?;
    let mut wrong = Vec::new();
    let mut check = |name: &str, text: &str| -> Outcome {
        wrong.extend(expect(&root().join(name), text)?);
        Ok(())
    };
    check(
        "drops.txt",
        &view::drops_text(&report, &TextOptions::default()),
    )?;
    check("drops.json", &abridged(&view::json(&report), 1)?)?;
    check("drops.csv", &String::from_utf8(csv)?)?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn json_keeps_the_published_schema() -> Outcome {
    let path = root().join("../../docs/drops.schema.json");
    let schema = document(&path)?.ok_or("docs/drops.schema.json is missing")?;
    let json = serde_json::from_str(&view::json(&answer()?))?;
    let faults = crate::schema::validate(&schema, &json);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

#[test]
fn lines_fit() -> Outcome {
    let report = answer()?;
    for width in [40, 64, 80, 200] {
        let options = TextOptions {
            width,
            ..TextOptions::default()
        };
        let text = view::drops_text(&report, &options);
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{width}:\n{text}");
    }
    Ok(())
}

/// Retransmissions that were dropped here, and one that was not; some drops are not stored, so that it is not known.
#[test]
fn retransmissions_are_joined() -> Outcome {
    let causes = answer()?.retransmissions.ok_or("none")?;
    assert_eq!(
        (causes.dropped_here, causes.not_dropped_here, causes.unknown),
        (2, 0, 1)
    );
    Ok(())
}
