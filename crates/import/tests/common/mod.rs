//! Where the sample data is, and rows as the tests look at them.

use std::path::PathBuf;

use table::Columns;
use table::tables::Activity;

/// A file of the sample data, which the repository does not hold: below `WHYLAT_TEST_DATA`, or
/// `../shared/data` beside the repository. `None`, said on stderr: it is not here.
pub fn sample(path: &str) -> Option<Vec<u8>> {
    let beside = || {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        Some(root.canonicalize().ok()?.parent()?.join("shared/data"))
    };
    let data = std::env::var_os("WHYLAT_TEST_DATA").map(PathBuf::from);
    let file = data.or_else(beside)?.join(path);
    match std::fs::read(&file) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            eprintln!("skipped: {}: {error}", file.display());
            None
        }
    }
}

/// The rows of an import.
pub fn rows(imported: &whylat_import::Imported) -> Vec<Activity> {
    let activities = &imported.activities;
    (0..activities.len()).map(|at| activities.row(at)).collect()
}

/// Asserts what must hold of every import: rows end after they begin, lie within each other as their
/// depths say, and every line is accounted for.
pub fn check(imported: &whylat_import::Imported) {
    assert_eq!(imported.tally.residual(), 0);
    let mut around: Vec<Activity> = Vec::new();
    for row in rows(imported) {
        assert!(row.begin_ns <= row.end_ns, "{row:?}");
        assert!(usize::from(row.depth) <= around.len(), "{row:?}");
        around.truncate(usize::from(row.depth));
        if let Some(outer) = around.last() {
            assert!(outer.begin_ns <= row.begin_ns, "{outer:?} around {row:?}");
            assert!(row.end_ns <= outer.end_ns, "{outer:?} around {row:?}");
        }
        around.push(row);
    }
}
