//! How far a recording of a given time is, on a terminal.

use table::Recording;

use crate::terminal::Terminal;
use testbed::{program, root, until};

#[test]
fn progress_line_does_not_block_recording() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("r.whylat");
    let recorder = format!("{} record -p $$ -d 4 -o {}", program(), path.display());
    let terminal = Terminal::run(&format!("{recorder}; echo ended $?; read wait"));
    terminal.shows(&["recording to", " %, ", "s left"], &["recorded to"]);
    // from now on whoever writes to it waits
    terminal.press(&["C-s"]);
    until("a closed recording", || {
        let recording = Recording::open(&path).ok()?;
        recording.closed().is_some().then_some(())
    });
    assert!(!terminal.shows(&["s left"], &[]).contains("recorded to"));
    terminal.press(&["C-q"]);
    terminal.shows(
        &["recorded to", "hint: whylat report", "ended 0"],
        &["left"],
    );
}
