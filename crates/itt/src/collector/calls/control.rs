//! What a program says about being recorded.

use crate::collector::pen::{Stamp, recording};
use crate::collector::state::{DETACHED, PAUSED, RUNNING, collector};
use crate::collector::system::now_ns;
use crate::wire::{Code, Head};

pub(super) unsafe extern "C" fn pause() {
    recording(|pen| {
        pen.write(Head::new(Code::Paused, 0), Stamp::Now, []);
        pen.collector.set_state(PAUSED);
    });
}

pub(super) unsafe extern "C" fn resume() {
    let Some(collector) = collector().filter(|collector| collector.is_silent()) else {
        return;
    };
    collector.set_state(RUNNING);
    recording(|pen| pen.write(Head::new(Code::Resumed, 0), Stamp::Now, []));
}

pub(super) unsafe extern "C" fn detach() {
    recording(|pen| pen.write(Head::new(Code::Detached, 0), Stamp::Now, []));
    if let Some(collector) = collector() {
        collector.set_state(DETACHED);
    }
}

pub(super) unsafe extern "C" fn thread_ignore() {
    recording(|pen| {
        pen.write(Head::new(Code::ThreadIgnored, 0), Stamp::Now, []);
        pen.ignore_thread();
    });
}

/// Nanoseconds of the clock of all records.
pub(super) unsafe extern "C" fn get_timestamp() -> u64 {
    now_ns()
}
