//! Walks over watched sockets. In: which, and how often who is read. Out: readings in the ring, and counts of what
//! the walks found. Where the hooks see all that happens on a socket, a walk of [`WalkOf::Due`] is over active
//! sockets only (`watch/active.bpf.h`).

use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags};

use super::Hooks;
use crate::interface::HooksError;
use crate::interface::features::Levels;
use crate::skel::OpenHooksSkel;
use crate::wire::types as wire;

/// How long a socket stays active after its last data: some polls of the agent, so that one that is used now and
/// then is not made active again and again by the application's own calls; and more than the 200 ms of the
/// delayed-ACK timer.
pub(super) const ACTIVE_FOR: Duration = Duration::from_secs(4);

/// Says which sockets a walk reads ([`Hooks::walk_watched`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WalkOf {
    /// Those on which hooks saw something happen and that are due: a socket at level `l` has it
    /// at every 2^`l`-th walk.
    Due = 0,
    /// All on which something has happened.
    Changed = 1,
    /// All.
    Every = 2,
}

/// Counts of walks over watched sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalkCounts {
    /// Sockets that were read, or found unchanged.
    pub sockets: u64,
    /// Sockets with news that were not due.
    pub left_out: u64,
    /// Sockets that had no room in the ring.
    pub postponed: u64,
    /// Sockets that were not examined, because no hook had seen anything happen on them: unchanged, too.
    pub resting: u64,
    /// Sockets that are not active any more.
    pub rested: u64,
}

/// Above this share of sockets with news a walk over all costs less: it meets a socket with its storage, which that
/// over active ones looks up, for 0.2 µs beside 0.5 (`watch_speed`).
const MOST: (u64, u64) = (2, 3);

/// So many walks go over all then, before one finds out again, and lets sockets rest.
const OVER_ALL_WALKS: u8 = 7;

/// The most seldom level of a walk.
pub const WALK_LEVEL_MOST: u8 = 7;

/// Sets the constants of walks before the programs are loaded.
pub(super) fn configure(open: &mut OpenHooksSkel<'_>, levels: Levels, active_for: Duration) {
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        return;
    };
    let jiffies = active_for.as_millis() * u128::from(rodata.kernel_hz) / 1_000;
    rodata.watch_active = levels.active;
    rodata.active_jiffies = u32::try_from(jiffies).unwrap_or(u32::MAX / 2);
}

impl Hooks<'_> {
    /// Reads watched sockets, as [`read_sockets`](Self::read_sockets) does. Those without
    /// a level of [`set_level`](Self::set_level) are at `default_level`.
    pub fn walk_watched(
        &self,
        which: WalkOf,
        default_level: u8,
        has_levels: bool,
    ) -> Result<bool, HooksError> {
        let over_active = self.levels.active && which == WalkOf::Due && !self.are_most_active();
        self.over_active.set(over_active);
        let (which, over) = (which as u64, over_active.into());
        self.begin_poll([which, over, default_level.into(), has_levels.into()])?;
        let before = self.walk_counts();
        let more = self.read_more_sockets()?;
        if over_active {
            self.note_active(&before, &self.walk_counts());
        }
        Ok(more)
    }

    /// Keeps how many sockets the last walk of active sockets found.
    fn note_active(&self, before: &wire::walk_counts, after: &wire::walk_counts) {
        let visited =
            |counts: &wire::walk_counts| counts.sockets + counts.left_out + counts.postponed;
        let visits = visited(after) - visited(before);
        let with_news = visits - (after.unchanged - before.unchanged);
        let watched = self.watched_sockets();
        let resting = watched.saturating_sub(visits);
        self.resting.set(self.resting.get() + resting);
        if with_news * MOST.1 > watched * MOST.0 {
            self.over_all.set(OVER_ALL_WALKS);
        }
    }

    /// Returns whether a walk of all sockets is cheaper next time: most were active.
    fn are_most_active(&self) -> bool {
        let left = self.over_all.get();
        self.over_all.set(left.saturating_sub(1));
        left > 0
    }

    /// Returns the sums of all walks over watched sockets so far.
    pub fn count_walks(&self) -> WalkCounts {
        let counts = self.walk_counts();
        WalkCounts {
            sockets: counts.sockets,
            left_out: counts.left_out,
            postponed: counts.postponed,
            resting: self.resting.get(),
            rested: counts.rested,
        }
    }

    /// Returns how many sockets the last walk visited and skipped.
    fn walk_counts(&self) -> wire::walk_counts {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or(wire::walk_counts::default(), |bss| bss.walked)
    }

    /// Returns the number of sockets that are watched now.
    fn watched_sockets(&self) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or(0, |bss| bss.watched_sockets)
    }

    /// Returns how many watched sockets can have a separate level.
    pub fn most_levels(&self) -> usize {
        self.skel.maps.walk_levels.max_entries() as usize
    }

    /// Sets how often a watched socket is read, at most [`WALK_LEVEL_MOST`]; `None`: the default.
    /// Only the caller forgets the socket.
    pub fn set_level(&self, cookie: u64, level: Option<u8>) -> Result<(), HooksError> {
        let levels = &self.skel.maps.walk_levels;
        let key = cookie.to_ne_bytes();
        let done = match level {
            Some(level) => levels.update(&key, &[level.min(WALK_LEVEL_MOST)], MapFlags::ANY),
            None => levels.delete(&key),
        };
        match done {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(HooksError::Use {
                action: "set how often a socket is read",
                error,
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
pub(super) mod tests;
