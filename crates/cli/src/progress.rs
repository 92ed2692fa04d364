//! What takes long is shown on a terminal: how much of it is done, and how long the rest will take at this rate. One
//! line, so that a crate for bars, with its own of terminals, widths and threads, would be more than is needed.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use table::progress::Step;

/// Nothing is shown of what takes less: whoever waits so long begins to wonder.
const QUIET: Duration = Duration::from_secs(2);

/// Between two drawings.
const REDRAW: Duration = Duration::from_millis(200);

/// The line as it is.
#[derive(Debug)]
struct Line {
    what: String,
    /// When the first work began.
    begun: Instant,
    /// When this work began.
    since: Instant,
    drawn: Option<Instant>,
}

static LINE: Mutex<Option<Line>> = Mutex::new(None);

/// Shows work from now on, if there is a terminal for it.
pub(crate) fn watch() {
    if std::io::stderr().is_terminal() {
        table::progress::observe(show);
    }
}

fn show(step: &Step) {
    let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let line = line.get_or_insert_with(|| Line {
        what: step.what.clone(),
        begun: now,
        since: now,
        drawn: None,
    });
    if line.what != step.what {
        step.what.clone_into(&mut line.what);
        line.since = now;
    }
    let is_early = now - line.begun < QUIET;
    let is_fresh = line.drawn.is_some_and(|drawn| now - drawn < REDRAW);
    if is_early || is_fresh {
        return;
    }
    line.drawn = Some(now);
    let mut stderr = std::io::stderr();
    // a terminal that is gone is no reason to stop
    let _ = write!(stderr, "\r\x1b[K{}", words(step, now - line.since));
    let _ = stderr.flush();
}

/// Takes the line away, before something else is said.
pub(crate) fn clear() {
    let line = LINE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if line.is_some_and(|line| line.drawn.is_some()) {
        eprint!("\r\x1b[K");
    }
}

/// `reading calls: 45 %, 3 s left`.
fn words(step: &Step, took: Duration) -> String {
    let percent = step.done * 100 / step.of.max(1);
    let mut words = format!("{}: {percent} %", step.what);
    if step.done > 0 {
        let left_s = took.as_secs_f64() * (step.of - step.done) as f64 / step.done as f64;
        words += &match left_s.ceil() as u64 {
            seconds @ 0..120 => format!(", {seconds} s left"),
            seconds => format!(", {} min left", seconds.div_ceil(60)),
        };
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_by_what_is_done() {
        let said = |done, of, seconds| {
            let what = "merging".to_owned();
            words(&Step { what, done, of }, Duration::from_secs(seconds))
        };
        assert_eq!(said(0, 11, 5), "merging: 0 %");
        assert_eq!(said(25, 100, 5), "merging: 25 %, 15 s left");
        assert_eq!(said(1, 100, 5), "merging: 1 %, 9 min left");
        assert_eq!(said(100, 100, 9), "merging: 100 %, 0 s left");
        assert_eq!(said(0, 0, 1), "merging: 0 %");
    }
}
