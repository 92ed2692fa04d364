//! The plays, a file a topic.

mod delayed_acks;
mod delays;
mod faults;
mod host;
mod listeners;
mod losses;
mod programs;
mod shares;
mod startup;
mod tail;
mod verdicts;
pub mod waits;
mod waits_view;

use crate::play::Play;

/// All of them.
pub fn all() -> Vec<Play> {
    let topics = [
        delayed_acks::plays,
        delays::plays,
        faults::plays,
        host::plays,
        listeners::plays,
        losses::plays,
        programs::plays,
        shares::plays,
        startup::plays,
        tail::plays,
        verdicts::plays,
        waits::plays,
        waits_view::plays,
    ];
    topics.iter().flat_map(|plays| plays()).collect()
}
