//! Checks whether functions in call stacks get names, with the privileges that a recording thread keeps: fewer than
//! those of the doctor.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::thread;

use probe::privileges::{Capability, Privileges};
use record::Detail;
use record::privileges::{Privileges as Kept, RecordingTasks};
use table::manifest::ProbeState;

/// Returns the remedy for a missing capability; `None`: this process has it for the whole kernel.
fn remedy_for(capability: Capability) -> Option<String> {
    let privileges = Privileges::read();
    let is_whole = !privileges.is_in_user_namespace && privileges.has_capability(capability);
    (!is_whole).then(|| privileges.remedy(&[capability]))
}

/// Returns all checks by name.
pub(super) fn check_names() -> [(&'static str, ProbeState); 3] {
    [
        ("stacks.kernel", kernel()),
        ("stacks.programs", programs()),
        ("stacks.private_files", private_files()),
    ]
}

/// Checks whether the kernel shows the addresses of its functions.
fn kernel() -> ProbeState {
    let (why, remedy) = match as_recorder(kernel_start) {
        Ok(Some(1..)) => return ProbeState::On,
        Ok(Some(0)) => {
            let why = "the kernel hides the addresses of its functions (/proc/kallsyms), so they have no names";
            let remedy_for = remedy_for(Capability::Syslog);
            (
                why.to_owned(),
                kallsyms_remedy(is_hidden_from_all(), remedy_for),
            )
        }
        Ok(None) => (
            "this kernel does not list its functions (/proc/kallsyms)".to_owned(),
            "run a kernel built with CONFIG_KALLSYMS=y, as distributions' are".to_owned(),
        ),
        Err(error) => (
            format!("cannot read the kernel's functions (/proc/kallsyms): {error}"),
            Privileges::read().remedy(&[]),
        ),
    };
    ProbeState::Off { why, remedy }
}

/// Returns the address of the first function; 0 if it is hidden.
fn kernel_start() -> io::Result<Option<u64>> {
    let symbols = match File::open("/proc/kallsyms") {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => BufReader::new(opened?),
    };
    for line in symbols.lines() {
        let line = line?;
        let address = line
            .strip_suffix(" _stext")
            .and_then(|it| it.split(' ').next());
        if let Some(address) = address {
            return Ok(u64::from_str_radix(address, 16).ok());
        }
    }
    Ok(None)
}

/// Returns whether no capability helps: `kallsyms_show_value()` in kernel/ksyms_common.c.
fn is_hidden_from_all() -> bool {
    let setting = fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
    setting
        .trim()
        .parse::<i32>()
        .is_ok_and(|setting| setting >= 2)
}

/// Returns the remedy that makes the kernel show its addresses: a setting, a capability, or other privileges.
fn kallsyms_remedy(is_hidden_from_all: bool, remedy_for: Option<String>) -> String {
    const SETTING: &str = "show them to holders of CAP_SYSLOG: sysctl kernel.kptr_restrict=1";
    match (is_hidden_from_all, remedy_for) {
        (true, None) => SETTING.to_owned(),
        (true, Some(remedy_for)) => format!("{SETTING}; and {remedy_for}"),
        (false, remedy_for) => remedy_for.unwrap_or_else(|| Privileges::read().remedy(&[])),
    }
}

/// Checks whether mapped files can be opened.
fn programs() -> ProbeState {
    match as_recorder(open_mapped) {
        Ok(()) => ProbeState::On,
        Err(error) => ProbeState::Off {
            why: format!(
                "cannot open the files of mapped code (/proc/self/map_files): {error}. Functions of programs \
                    have no names."
            ),
            remedy: remedy_for(Capability::CheckpointRestore)
                .unwrap_or_else(|| Privileges::read().remedy(&[])),
        },
    }
}

/// Opens the first mapped file: this program.
fn open_mapped() -> io::Result<()> {
    let first = fs::read_dir("/proc/self/map_files")?.next();
    let first = first.ok_or(ErrorKind::NotFound)??;
    File::open(first.path()).map(drop)
}

/// Checks the capability to read private files of other users. Nothing is opened, as there may be no such file.
fn private_files() -> ProbeState {
    match remedy_for(Capability::DacReadSearch) {
        None => ProbeState::On,
        Some(remedy) => ProbeState::Off {
            why: "cannot read private files and directories of other users. Functions of programs there have no \
                names."
                .to_owned(),
            remedy,
        },
    }
}

/// Runs an attempt on a thread with the privileges of one that records stacks.
fn as_recorder<T: Send + 'static>(
    look: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let tasks = RecordingTasks {
        detail: Some(Detail::Waits),
        ..RecordingTasks::default()
    };
    let attempt = move || {
        let kept = Kept::for_tasks(tasks, None).and_then(|kept| kept.assume());
        kept.map_err(io::Error::other)?;
        look()
    };
    let ended = thread::spawn(attempt).join();
    ended.unwrap_or_else(|_| Err(ErrorKind::Other.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kallsyms_remedy_matches_cause() {
        let remedy_for = || Some("give CAP_SYSLOG".to_owned());
        assert_eq!(kallsyms_remedy(false, remedy_for()), "give CAP_SYSLOG");
        let setting = kallsyms_remedy(true, None);
        assert!(
            setting.ends_with("sysctl kernel.kptr_restrict=1"),
            "{setting}"
        );
        let both = kallsyms_remedy(true, remedy_for());
        assert_eq!(both, format!("{setting}; and give CAP_SYSLOG"));
        // by a security module, if by anything
        assert!(!kallsyms_remedy(false, None).is_empty());
    }

    #[test]
    fn attempts_keep_privileges() {
        let before = Privileges::read();
        assert!(as_recorder(|| Ok(())).is_ok());
        assert_eq!(Privileges::read(), before);
    }
}
