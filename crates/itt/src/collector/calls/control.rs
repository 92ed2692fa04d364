//! Calls that start and stop recording.

use crate::collector::record_writer::{RecordTime, with_writer};
use crate::collector::state::{DETACHED, PAUSED, RUNNING, current_collector};
use crate::collector::system::now_ns;
use crate::wire::{RecordCode, RecordHead};

/// Stops recording until the program resumes it.
pub(super) extern "C" fn pause() {
    with_writer(|writer| {
        writer.write(RecordHead::new(RecordCode::Paused, 0), RecordTime::Now, []);
        writer.collector.set_state(PAUSED);
    });
}

/// Goes on recording after a pause.
pub(super) extern "C" fn resume() {
    let Some(collector) = current_collector().filter(|collector| collector.is_silent()) else {
        return;
    };
    collector.set_state(RUNNING);
    with_writer(|writer| {
        writer.write(RecordHead::new(RecordCode::Resumed, 0), RecordTime::Now, [])
    });
}

/// Stops recording for good.
pub(super) extern "C" fn detach() {
    with_writer(|writer| {
        writer.write(
            RecordHead::new(RecordCode::Detached, 0),
            RecordTime::Now,
            [],
        )
    });
    if let Some(collector) = current_collector() {
        collector.set_state(DETACHED);
    }
}

/// Records nothing more of this thread.
pub(super) extern "C" fn thread_ignore() {
    with_writer(|writer| {
        writer.write(
            RecordHead::new(RecordCode::ThreadIgnored, 0),
            RecordTime::Now,
            [],
        );
        writer.ignore_thread();
    });
}

/// Returns nanoseconds of the clock of all records.
pub(super) extern "C" fn get_timestamp() -> u64 {
    now_ns()
}
