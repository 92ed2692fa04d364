//! Starts the command to be recorded. Under sudo it runs as the user who called sudo: a profiler
//! needs root, the program under it must not get it by the way.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command as Process};

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::unistd::{Gid, Uid, User, initgroups, setgid, setuid};

use crate::{Command, RecordError};

/// Starts the command with whylat's original signal mask, and with these variables.
pub(crate) fn start(
    command: &Command,
    mask: SigSet,
    environment: &[(&str, &OsStr)],
) -> Result<Child, RecordError> {
    let Some((program, arguments)) = command.argv.split_first() else {
        return Err(RecordError::Start {
            command: String::new(),
            source: io::ErrorKind::InvalidInput.into(),
            hint: "name a command: whylat run -- COMMAND",
        });
    };
    let user = user_of(command)?;
    let mut process = Process::new(program);
    process.args(arguments).envs(environment.iter().copied());
    if let Some(user) = &user {
        process
            .env("HOME", &user.dir)
            .env("USER", &user.name)
            .env("LOGNAME", &user.name);
    }
    let identity = user.map(Identity::from_user).transpose()?;
    // SAFETY: the closure runs between fork and exec and only makes system calls; what it needs
    // was allocated before.
    unsafe {
        process.pre_exec(move || {
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
            identity.as_ref().map_or(Ok(()), Identity::assume)
        });
    }
    process
        .spawn()
        .map_err(|source| cannot_start(program, source))
}

/// Returns why a program cannot be started.
pub(crate) fn cannot_start(program: &OsStr, source: io::Error) -> RecordError {
    RecordError::Start {
        command: program.to_string_lossy().into_owned(),
        hint: match source.kind() {
            io::ErrorKind::NotFound => "check the name, or give the path of the program",
            io::ErrorKind::PermissionDenied => "make it executable: chmod +x FILE",
            _ => "try the command without whylat",
        },
        source,
    }
}

/// Returns the user of the command; `None` if it is whylat's own user.
pub(crate) fn user_of(command: &Command) -> Result<Option<User>, RecordError> {
    if command.as_root {
        return Ok(None);
    }
    invoking_user()
}

struct Identity {
    name: CString,
    uid: Uid,
    gid: Gid,
}

impl Identity {
    /// Takes ids and name of a user; an error if the name has a zero byte.
    fn from_user(user: User) -> Result<Self, RecordError> {
        let uid = user.uid.as_raw();
        let name = CString::new(user.name).map_err(|error| RecordError::User {
            uid,
            why: error.to_string(),
        })?;
        Ok(Self {
            name,
            uid: user.uid,
            gid: user.gid,
        })
    }

    /// Changes this process to the user and their groups.
    fn assume(&self) -> io::Result<()> {
        initgroups(&self.name, self.gid)?;
        setgid(self.gid)?;
        setuid(self.uid)?;
        Ok(())
    }
}

/// Returns the user who called sudo, if whylat runs as root under it.
///
/// # Errors
/// When there is no such user.
pub fn invoking_user() -> Result<Option<User>, RecordError> {
    let sudo_uid = std::env::var("SUDO_UID")
        .ok()
        .and_then(|uid| uid.parse::<u32>().ok());
    let Some(uid) = sudo_uid.filter(|uid| *uid != 0 && Uid::effective().is_root()) else {
        return Ok(None);
    };
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => Ok(Some(user)),
        Ok(None) => Err(RecordError::User {
            uid,
            why: "no such user".to_owned(),
        }),
        Err(error) => Err(RecordError::User {
            uid,
            why: error.to_string(),
        }),
    }
}
