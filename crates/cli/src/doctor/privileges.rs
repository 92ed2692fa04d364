//! Privileges of whylat on this host, for people and programs.

use std::fmt;

use probe::privileges::Capability;
use serde::Serialize;

/// Capabilities that probes and names need: held and missing ones.
#[derive(Debug, Serialize)]
pub(crate) struct Privileges {
    user_id: u32,
    held: Vec<&'static str>,
    missing: Vec<&'static str>,
    is_in_user_namespace: bool,
    is_in_pid_namespace: bool,
    is_filtered: bool,
    lockdown: Option<String>,
}

impl Privileges {
    /// Reads user and capabilities of this process.
    pub(crate) fn read() -> Self {
        let found = probe::privileges::Privileges::read();
        let (held, missing): (Vec<_>, Vec<_>) = Capability::ALL
            .into_iter()
            .partition(|it| found.has_capability(*it));
        let names = |of: Vec<Capability>| of.into_iter().map(Capability::name).collect();
        Self {
            user_id: found.user_id,
            held: names(held),
            missing: names(missing),
            is_in_user_namespace: found.is_in_user_namespace,
            is_in_pid_namespace: found.is_in_pid_namespace,
            is_filtered: found.is_filtered,
            lockdown: found.lockdown,
        }
    }
}

impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user_id {
            0 => f.write_str("root")?,
            user => write!(f, "user id {user}")?,
        }
        match (self.missing.as_slice(), self.held.as_slice()) {
            ([], _) => f.write_str(" with all that probes need")?,
            (_, []) => f.write_str(" without capabilities")?,
            (missing, _) => write!(f, " without {}", missing.join(", "))?,
        }
        if self.is_in_user_namespace {
            f.write_str(", in a user namespace of its own")?;
        }
        if self.is_in_pid_namespace {
            f.write_str(", in a pid namespace of its own")?;
        }
        if let Some(mode) = self.lockdown.as_deref().filter(|mode| *mode != "none") {
            write!(f, "; the kernel is locked down ({mode})")?;
        }
        Ok(())
    }
}
