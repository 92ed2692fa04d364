//! How far work is that reads many rows: reading a table, merging, checking. Reported a batch at a time to whoever has a
//! terminal to show it on, and to nobody otherwise.

use std::sync::{Mutex, OnceLock, PoisonError};

/// A piece of work, and how much of it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressStep {
    /// In words: `reading calls`.
    pub what: String,
    /// Rows so far.
    pub done: u64,
    /// Rows in all.
    pub of: u64,
}

/// The observer, once for the process.
static OBSERVER: OnceLock<fn(&ProgressStep)> = OnceLock::new();

/// The kind of work.
static CURRENT: Mutex<Option<ProgressStep>> = Mutex::new(None);

/// Calls `observer` for every batch that is read from now on; the first observer stays.
pub fn set_observer(observer: fn(&ProgressStep)) {
    OBSERVER.get_or_init(|| observer);
}

/// Begins work on this many rows, in place of earlier work.
pub(crate) fn begin(what: impl FnOnce() -> String, of: u64) {
    if OBSERVER.get().is_some() {
        let step = ProgressStep {
            what: what(),
            done: 0,
            of,
        };
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(step);
    }
}

/// Adds rows to the progress.
pub(crate) fn advance_rows(rows: usize) {
    let Some(observer) = OBSERVER.get() else {
        return;
    };
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(step) = current.as_mut() {
        // a table that is read beside another counts for that one, too
        step.done = step.of.min(step.done + rows as u64);
        observer(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static REPORTED: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn work_is_reported_up_to_its_end() {
        set_observer(|step| {
            if step.what == "counting" {
                assert_eq!(step.of, 11);
                REPORTED.fetch_max(step.done, Ordering::Relaxed);
            }
        });
        // other tests read tables meanwhile, in threads of their own
        for _ in 0..100 {
            begin(|| "counting".to_owned(), 11);
            advance_rows(7);
            advance_rows(7);
        }
        assert_eq!(REPORTED.load(Ordering::Relaxed), 11);
    }
}
