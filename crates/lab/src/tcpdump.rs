//! tcpdump beside a fault: what a packet capture at either end shows of it.
//!
//! In: a namespace and a path. Out: a pcap file with the headers of all TCP segments of the namespace's devices, from when
//! [`Tcpdump::start`] returns to [`Tcpdump::stop`].

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::LabError;
use crate::netns::Netns;

const HINT: &str = "apt-get install tcpdump";

/// Link, IP and TCP headers with all options, and a tunnel's.
const SNAPSHOT_BYTES: &str = "192";

/// A capture under way. Dropped without [`Tcpdump::stop`], it is killed.
#[derive(Debug)]
pub struct Tcpdump(Child);

impl Tcpdump {
    /// Starts tcpdump, and waits until it captures.
    ///
    /// # Errors
    /// When tcpdump is missing or refuses.
    pub fn start(netns: &Netns, file: &Path) -> Result<Self, LabError> {
        let words = [
            "-i",
            "any",
            "-s",
            SNAPSHOT_BYTES,
            "-B",
            "16384",
            "-Z",
            "root",
            "--immediate-mode",
        ];
        let mut command = netns.command("tcpdump");
        command
            .args(words)
            .args(["--time-stamp-precision=nano", "-w"])
            .arg(file)
            .arg("tcp");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let failed = |why| LabError::os("run", "tcpdump", why, HINT);
        let mut child = Self(command.spawn().map_err(failed)?);
        let mut printed = String::new();
        if let Some(stderr) = child.0.stderr.take() {
            let mut lines = BufReader::new(stderr);
            while lines.read_line(&mut printed).map_err(failed)? > 0 {
                if printed.contains("listening on") {
                    // What it says at its end finds a reader, or tcpdump would fail.
                    child.0.stderr = Some(lines.into_inner());
                    return Ok(child);
                }
            }
        }
        Err(LabError::Command {
            command: "tcpdump".to_owned(),
            detail: printed.trim().to_owned(),
            hint: HINT,
        })
    }

    /// Ends tcpdump; the file then has all packets.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn stop(mut self) -> Result<(), LabError> {
        let failed = |why| LabError::os("stop", "tcpdump", why, HINT);
        // SIGINT makes it write out what it holds.
        kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGINT)
            .map_err(|errno| failed(errno.into()))?;
        self.0.wait().map_err(failed)?;
        Ok(())
    }
}

impl Drop for Tcpdump {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
