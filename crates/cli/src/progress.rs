//! Shows long work on a terminal: how much is done, and how long the rest will take at this rate. One
//! line, so that a crate for bars, with its own of terminals, widths and threads, would be more than is needed.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use record::privileges::Privileges;
use table::progress::ProgressStep;

/// Nothing is shown of what takes less: whoever waits so long begins to wonder.
const QUIET: Duration = Duration::from_secs(2);

/// Between two drawings.
const REDRAW: Duration = Duration::from_millis(200);

/// The line as it is.
#[derive(Debug)]
struct ProgressLine {
    what: String,
    /// When the first work began.
    begun: Instant,
    /// When this work began.
    since: Instant,
    drawn: Option<Instant>,
}

static LINE: Mutex<Option<ProgressLine>> = Mutex::new(None);

/// Shows progress from now on, if stderr is a terminal.
pub(crate) fn watch() {
    if std::io::stderr().is_terminal() {
        table::progress::set_observer(show_step);
    }
}

/// Draws the progress on the terminal.
fn show_step(step: &ProgressStep) {
    // who holds it may be held by the terminal
    let Ok(mut line) = LINE.try_lock() else {
        return;
    };
    let now = Instant::now();
    let line = line.get_or_insert_with(|| ProgressLine {
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
    let _ = write!(stderr, "\r\x1b[K{}", step_text(step, now - line.since));
    let _ = stderr.flush();
}

/// Shows how much of a given time is over, until it is dropped or other work is shown: by a thread of its own, as a
/// terminal that is held (Ctrl-S) holds whoever writes to it.
pub(crate) struct ProgressClock {
    ends: Arc<AtomicBool>,
}

impl ProgressClock {
    /// Starts the display; `None`: there is no terminal for it, or no thread.
    pub(crate) fn start(what: String, of: Duration) -> Option<Self> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let tick = move || {
            // who only writes needs nothing; without that it does not write
            if Privileges::none(None)
                .and_then(|none| none.assume())
                .is_ok()
            {
                run(&what, of, &ended);
            }
        };
        thread::Builder::new().spawn(tick).ok()?;
        Some(Self { ends })
    }
}

impl Drop for ProgressClock {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Draws progress by time until it ends.
fn run(what: &str, of: Duration, ended: &AtomicBool) {
    let begun = Instant::now();
    let count_ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    while begun.elapsed() < of && !ended.load(Ordering::Relaxed) && is_shown(what) {
        show_step(&ProgressStep {
            what: what.to_owned(),
            done: count_ms(begun.elapsed()),
            of: count_ms(of),
        });
        thread::park_timeout(REDRAW);
    }
}

/// Returns whether this work's progress is on the line, or no other's.
fn is_shown(what: &str) -> bool {
    let line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    line.as_ref().is_none_or(|line| line.what == what)
}

/// Clears the line before other text is printed.
pub(crate) fn clear() {
    let line = LINE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if line.is_some_and(|line| line.drawn.is_some()) {
        eprint!("\r\x1b[K");
    }
}

/// Returns the progress as text: `reading calls: 45 %, 3 s left`.
fn step_text(step: &ProgressStep, took: Duration) -> String {
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
    fn remaining_time_follows_progress() {
        let text = |done, of, seconds| {
            let what = "merging".to_owned();
            step_text(
                &ProgressStep { what, done, of },
                Duration::from_secs(seconds),
            )
        };
        assert_eq!(text(0, 11, 5), "merging: 0 %");
        assert_eq!(text(25, 100, 5), "merging: 25 %, 15 s left");
        assert_eq!(text(1, 100, 5), "merging: 1 %, 9 min left");
        assert_eq!(text(100, 100, 9), "merging: 100 %, 0 s left");
        assert_eq!(text(0, 0, 1), "merging: 0 %");
    }
}
