//! A control group with a CPU quota around a role, and `remove-group`, which removes it when the role has ended, however it
//! ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;
use serde::Serialize;

use super::cpu::wait_for_end;
use super::peer::pause_us;
use crate::error::{HINT_ROOT, LabError};

/// Roots of the CPU controller, version 1 and 2, and the file with the quota in µs of each period of 100 ms, the kernel's
/// default.
const ROOTS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup", "cpu.max"),
];

/// CPU time of a period for each percent, µs.
const PERCENT_US: u64 = 1_000;

/// Pause between two attempts to remove a group with a process in it.
const LOOK_US: u64 = 5_000;

/// Moves the calling process into a new control group, and starts the process that removes it.
pub(super) fn enter_group(percent: u64) -> Result<(), LabError> {
    let is_root = |(root, _): &&(&str, &str)| Path::new(root).join("cgroup.procs").exists();
    let Some((root, file)) = ROOTS.iter().find(is_root) else {
        let why = io::Error::from(io::ErrorKind::NotFound);
        return Err(LabError::os(
            "find",
            "the CPU controller",
            why,
            "mount it: mount -t cgroup2 none /sys/fs/cgroup",
        ));
    };
    let group = Path::new(root).join(format!("whylat-lab-{}", std::process::id()));
    let failed = |why| LabError::os("set up", group.display().to_string(), why, HINT_ROOT);
    let remover = start_remover(&group)?;
    fs::create_dir(&group).map_err(failed)?;
    fs::write(group.join(file), (percent * PERCENT_US).to_string()).map_err(failed)?;
    fs::write(group.join("cgroup.procs"), std::process::id().to_string()).map_err(failed)?;
    // Its stdin closes when this process ends.
    std::mem::forget(remover);
    Ok(())
}

/// Starts `remove-group`. It is not tied to this process, which it survives.
fn start_remover(group: &Path) -> Result<std::process::Child, LabError> {
    let hint = "free processes";
    let program = std::env::current_exe()
        .map_err(|why| LabError::os("find", "this program's file", why, "mount /proc"))?;
    let mut command = std::process::Command::new(program);
    command.args(["lab", "workload", "remove-group", "--group"]);
    command.arg(group).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let started = command.spawn();
    started.map_err(|why| LabError::os("start", "remove-group", why, hint))
}

/// Options of `remove-group`.
#[derive(Debug, Args)]
pub(crate) struct RemoveGroup {
    /// The group's directory.
    #[arg(long)]
    group: PathBuf,
}

/// Holds whether it was there.
#[derive(Debug, Serialize)]
pub(crate) struct RemovedGroup {
    is_removed: bool,
}

impl RemoveGroup {
    /// Waits for the end, then removes the control group.
    pub(crate) fn run(&self) -> Result<RemovedGroup, LabError> {
        wait_for_end();
        loop {
            match fs::remove_dir(&self.group) {
                Ok(()) => return Ok(RemovedGroup { is_removed: true }),
                Err(why) if why.kind() == io::ErrorKind::ResourceBusy => pause_us(LOOK_US),
                Err(why) if why.kind() == io::ErrorKind::NotFound => {
                    return Ok(RemovedGroup { is_removed: false });
                }
                Err(why) => {
                    let group = self.group.display().to_string();
                    return Err(LabError::os("remove", group, why, HINT_ROOT));
                }
            }
        }
    }
}
