//! Rows as the tests look at them.

use table::Columns;
use table::tables::Activity;

/// Returns the rows of an import.
pub fn rows(imported: &whylat_import::TraceImport) -> Vec<Activity> {
    let activities = &imported.activities;
    (0..activities.len()).map(|at| activities.row(at)).collect()
}

/// Checks what holds for every import: rows end after their start, and nest as their depths say.
/// All lines are counted.
pub fn check(imported: &whylat_import::TraceImport) {
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
