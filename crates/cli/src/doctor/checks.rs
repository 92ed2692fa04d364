//! Checks of what is no probe but needed, by trying it where possible.

use std::fs::File;
use std::io;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use probe::privileges::{Capability, Privileges};
use probe::processes;
use table::manifest::{Coverage, ProbeState};

use super::names;

/// Runs all checks of the doctor.
pub(super) fn run_checks() -> Vec<Coverage> {
    let others = [
        ("netns", netns()),
        ("view", check_view()),
        ("lab", check_lab()),
    ];
    [("stacks", stacks())]
        .into_iter()
        .chain(names::check_names())
        .chain(others)
        .map(|(name, state)| Coverage {
            probe: name.to_owned(),
            state,
        })
        .chain([processes::coverage()])
        .collect()
}

/// Checks whether the memory maps of other users' processes can be read: stacks need them. Not
/// tried on any: some sandboxes hide single processes even from who may read all.
fn stacks() -> ProbeState {
    let privileges = Privileges::read();
    if privileges.has_capability(Capability::SysPtrace) {
        return ProbeState::On;
    }
    if privileges.user_id != 0 {
        return ProbeState::Fallback {
            which: "your own processes only".to_owned(),
            why: "whylat is not running as root".to_owned(),
        };
    }
    ProbeState::Off {
        why: "the memory maps of other users' processes cannot be read".to_owned(),
        remedy: privileges.remedy(&[Capability::SysPtrace]),
    }
}

/// Checks whether network namespaces can be entered, with this one.
fn netns() -> ProbeState {
    let enter = || {
        let file = File::open("/proc/thread-self/ns/net")?;
        setns(file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    };
    on_a_thread(
        enter,
        "cannot enter other network namespaces",
        "their connections are not seen",
    )
}

/// Checks whether namespaces can be made, for the lab.
fn check_lab() -> ProbeState {
    let make = || unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
    on_a_thread(
        make,
        "cannot make network namespaces",
        "whylat lab does not run",
    )
}

/// Tries something on a thread of its own; the state says whether it worked.
fn on_a_thread(
    attempt: impl FnOnce() -> io::Result<()> + Send + 'static,
    what: &str,
    so: &str,
) -> ProbeState {
    let ended = thread::spawn(attempt).join();
    match ended.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())) {
        Ok(()) => ProbeState::On,
        Err(error) => ProbeState::Off {
            why: format!("{what}: {error}; {so}"),
            remedy: Privileges::read().remedy(&[Capability::SysAdmin]),
        },
    }
}

/// Checks whether there is a desktop to show pages on.
fn check_view() -> ProbeState {
    let is_there = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_desktop = is_there("DISPLAY") || is_there("WAYLAND_DISPLAY");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_opener = std::env::split_paths(&path).any(|dir| dir.join("xdg-open").is_file());
    let why = match (has_desktop, has_opener) {
        (true, true) => return ProbeState::On,
        (false, _) => "there is no desktop here (DISPLAY and WAYLAND_DISPLAY are not set)",
        (true, false) => "there is no xdg-open (Debian and Fedora: xdg-utils)",
    };
    ProbeState::Fallback {
        which: "whylat view --no-open writes the page; open it in a browser on another host"
            .to_owned(),
        why: why.to_owned(),
    }
}
