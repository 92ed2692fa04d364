//! `whylat demo` shows a real stall and its fix.

use testbed::{finish, whylat};

pub fn names_the_stall_and_shows_the_gain() {
    let scratch = tempfile::tempdir().expect("a directory");
    let output = finish(whylat("demo").env("TMPDIR", scratch.path()));
    output.assert_status(0);
    assert!(output.out.contains("nagle_delayed_ack"), "{}", output.out);
    let measured = output.out.split("speed-up: ").nth(1).unwrap_or_default();
    let times = measured
        .split('×')
        .next()
        .map(|times| times.replace(',', ""));
    let times = times.and_then(|times| times.parse::<f64>().ok());
    assert!(
        times > Some(5.0),
        "no measured speed-up above 5× in: {}",
        output.out
    );
    let left = std::fs::read_dir(scratch.path())
        .expect("the directory")
        .count();
    assert_eq!(left, 0, "the demo left files behind");
}
