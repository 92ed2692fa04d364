//! Messages to the service manager (systemd's `sd_notify`) and to people on stderr. Without systemd the former
//! does nothing.

use std::io::Write;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Priority of a line, as syslog and the journal number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPriority {
    /// Something is lost or does not work.
    Error,
    /// Something will be lost if it stays so.
    Warning,
    /// Something that one may want to know later.
    Info,
}

/// Says one line on stderr, with its priority in front where stderr is the journal (`SD_WARNING` and others of
/// sd-daemon.h).
pub fn say(priority: LogPriority, text: &str) {
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let prefix = match (journal, priority) {
        (false, _) => "whylat agent: ",
        (true, LogPriority::Error) => "<3>",
        (true, LogPriority::Warning) => "<4>",
        (true, LogPriority::Info) => "<6>",
    };
    let mut stderr = std::io::stderr().lock();
    for line in text.lines() {
        // an stderr that cannot be written cannot be reported
        let _ = writeln!(stderr, "{prefix}{line}");
    }
}

/// The service manager.
#[derive(Debug)]
pub struct ServiceNotifier {
    watchdog: Option<Duration>,
    petted: Option<Instant>,
    status: String,
}

impl ServiceNotifier {
    /// Reads from the environment how the manager wants to be notified.
    pub fn from_environment() -> Self {
        Self {
            watchdog: sd_notify::watchdog_enabled(),
            petted: None,
            status: String::new(),
        }
    }

    /// Reports to systemd that the agent is ready.
    pub fn ready(&self) {
        send(&[NotifyState::Ready]);
    }

    /// Reports that the configuration is read again; [`ServiceNotifier::ready`] ends it.
    pub fn reloading(&self) {
        // Type=notify-reload demands the time with it
        match NotifyState::monotonic_usec_now() {
            Ok(now) => send(&[NotifyState::Reloading, now]),
            Err(_) => send(&[NotifyState::Reloading]),
        }
    }

    /// Reports that the agent ends.
    pub fn stopping(&self) {
        send(&[NotifyState::Stopping]);
    }

    /// Sends one line for `systemctl status`, if it has changed.
    pub fn status(&mut self, status: &str) {
        if self.status != status {
            send(&[NotifyState::Status(status)]);
            status.clone_into(&mut self.status);
        }
    }

    /// Returns the longest pause between two calls of [`ServiceNotifier::alive`]; `None` when nobody waits for it.
    pub fn watchdog(&self) -> Option<Duration> {
        // half of the limit, as sd_watchdog_enabled(3) recommends
        self.watchdog.map(|limit| limit / 2)
    }

    /// Reports that the collecting loop goes on, as often as the watchdog demands. Call it from
    /// that loop only.
    pub fn alive(&mut self) {
        let Some(every) = self.watchdog().map(|half| half / 2) else {
            return;
        };
        if self.petted.is_none_or(|at| at.elapsed() >= every) {
            send(&[NotifyState::Watchdog]);
            self.petted = Some(Instant::now());
        }
    }
}

/// Sends a message, and does not wait for a manager that does not listen.
fn send(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
