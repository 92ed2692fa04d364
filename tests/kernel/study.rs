//! `whylat lab tail` says what it does not have. What it finds: `tests/replay/claims/study.rs`.

use testbed::{finish, root, whylat};

#[test]
fn study_reports_missing_programs() {
    if !root() {
        return;
    }
    let mut study = whylat("lab tail --app redis --rounds 1 --requests 7");
    let ended = finish(study.env("PATH", "/nonexistent"));
    ended.assert_status(1);
    assert!(ended.err.contains("hint: "), "{}", ended.err);
}
