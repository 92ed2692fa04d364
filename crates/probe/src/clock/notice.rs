//! Whether `CLOCK_REALTIME` was set. In: a timer that never ends and that the kernel cancels
//! when the clock is set (`TFD_TIMER_CANCEL_ON_SET`, `clock_was_set` in kernel/time/hrtimer.c): steps of
//! any size, there and back too, but no slew.

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// A time of the clock that does not come: in 2255.
const NEVER_S: i64 = 9_000_000_000;

/// Notices changes of the settings.
#[derive(Debug)]
pub(super) struct SetNotice(TimerFd);

impl SetNotice {
    /// Opens a notice of clock changes from now on; `None`: the kernel has no such timers.
    pub(super) fn open() -> Option<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_REALTIME, flags).ok()?;
        let never = Expiration::OneShot(TimeSpec::new(NEVER_S, 0));
        let until =
            TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        timer.set(never, until).ok()?;
        Some(Self(timer))
    }

    /// Returns whether the clock was set since the last question. A cancelled timer answers with an error that `wait`
    /// takes for the end; it then waits for the next time, as it was.
    pub(super) fn was_set(&self) -> bool {
        self.0.wait().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_sets_was_not_set() {
        let notice = SetNotice::open().unwrap();
        assert!(!notice.was_set() && !notice.was_set());
    }
}
