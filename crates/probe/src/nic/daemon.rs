//! Finds who else wants stamps: a daemon (ptp4l, phc2sys, chronyd) that has an adapter's clock open for writing, to
//! steer it. Many adapters stamp one packet at a time. If that is a message, the daemon's own packet goes without,
//! which ptp4l takes for a fault.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns name, pid and clock of the first process that may steer one of these clocks.
pub(super) fn find(clocks: &[u16]) -> Option<String> {
    let devices: Vec<PathBuf> = clocks
        .iter()
        .map(|ptp| format!("/dev/ptp{ptp}").into())
        .collect();
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.into_iter().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let device = steered_by(&process.path(), &devices)?;
        let comm = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        Some(format!(
            "{}[{pid}] steers {}",
            comm.trim(),
            device.display()
        ))
    })
}

/// Returns which of the devices a process has open for writing: the link in `/proc/PID/fd` has that mode.
fn steered_by(process: &Path, devices: &[PathBuf]) -> Option<PathBuf> {
    const OWNER_WRITES: u32 = 0o200;
    let files = std::fs::read_dir(process.join("fd")).ok()?.flatten();
    files.into_iter().find_map(|file| {
        let device = std::fs::read_link(file.path()).ok()?;
        let mode = std::fs::symlink_metadata(file.path()).ok()?.mode();
        (devices.contains(&device) && mode & OWNER_WRITES != 0).then_some(device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_process_with_write_access_steers_the_clock() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let devices = [file.path().to_owned()];
        let own = Path::new("/proc/self");
        assert_eq!(steered_by(own, &devices).as_deref(), Some(file.path()));
        let read = std::fs::File::open(file.path()).expect("the same");
        let path = file.into_temp_path();
        assert_eq!(steered_by(own, &devices), None);
        drop((read, path));
        assert_eq!(find(&[]), None);
    }
}
