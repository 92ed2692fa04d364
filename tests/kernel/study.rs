//! `whylat lab tail` says what it lacks. What it finds: `tests/replay/claims/study.rs`.

use testbed::{finish, root, whylat};

#[test]
fn the_study_says_what_it_lacks() {
    if !root() {
        return;
    }
    let mut study = whylat("lab tail --app redis --rounds 1 --requests 7");
    let ended = finish(study.env("PATH", "/nonexistent"));
    ended.ended(1);
    assert!(ended.err.contains("hint: "), "{}", ended.err);
}
