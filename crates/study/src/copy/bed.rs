//! Where it is measured: two new network namespaces joined by a veth pair, with the published study's addresses; or
//! another machine, on which `whylat lab copy serve` runs.
//!
//! A run is two processes, a server and a client, which end with this one, however it ends; the namespaces have no
//! name, so that they end with the last process in them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::figures::RunFigures;
use super::matrix::RunConfig;
use super::options::RunOptions;
use super::protocol::PORT;
use lab::LabError;
use lab::{LabProcess, Netns};

/// The published study's (section 2.2).
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The two ends.
pub(super) struct TestBed {
    /// This program: its `serve` and `ask` are the ends.
    program: PathBuf,
    ends: EndLocation,
    server: SocketAddr,
}

enum EndLocation {
    Local { server: Netns, client: Netns },
    Remote,
}

/// Outcome of a run: its figures, or why it was skipped.
pub(super) enum RunOutcome {
    Measured(RunFigures),
    Skipped(String),
}

impl TestBed {
    /// Makes the two namespaces of the study. `optmem_bytes`: memory for notifications of a socket,
    /// else the kernel's default.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN`, and without iproute2.
    pub(super) fn local(optmem_bytes: Option<u64>) -> Result<Self, LabError> {
        let (server, client) = (Netns::new()?, Netns::new()?);
        let other = client.path();
        server.run_ip(&format!(
            "link add veth0 type veth peer name veth1 netns {}",
            other.display()
        ))?;
        for (netns, device, address) in [(&server, "veth0", SERVER), (&client, "veth1", CLIENT)] {
            netns.run_ip(&format!("addr add {address}/24 dev {device}"))?;
            netns.run_ip(&format!("link set {device} up"))?;
        }
        if let Some(bytes) = optmem_bytes {
            server.sysctl("net.core.optmem_max", &bytes.to_string())?;
        }
        Ok(Self {
            program: program()?,
            ends: EndLocation::Local { server, client },
            server: SocketAddr::new(IpAddr::V4(SERVER), PORT),
        })
    }

    /// Returns a server that runs already, on another machine.
    pub(super) fn remote(server: SocketAddr) -> Result<Self, LabError> {
        Ok(Self {
            program: program()?,
            ends: EndLocation::Remote,
            server,
        })
    }

    /// Returns whether both ends are on this machine.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.ends, EndLocation::Local { .. })
    }

    /// Makes one run.
    ///
    /// # Errors
    /// When an end fails, or the two do not agree on what they did.
    pub(super) fn run(&self, config: RunConfig, how: &RunOptions) -> Result<RunOutcome, LabError> {
        let server = match &self.ends {
            EndLocation::Local { .. } => Some(self.serve(config.threads)?),
            EndLocation::Remote => None,
        };
        let outcome = self.ask(config, how);
        drop(server);
        outcome
    }

    /// Runs the clients against the server.
    pub(super) fn ask(&self, config: RunConfig, how: &RunOptions) -> Result<RunOutcome, LabError> {
        let mut client = match &self.ends {
            EndLocation::Local { client, .. } => client.command(&self.program),
            EndLocation::Remote => Command::new(&self.program),
        };
        client.args(["lab", "copy", "ask", "--connect", &self.server.to_string()]);
        client.args(["--variant", config.variant.name()]);
        client.args(["--size", &config.size.to_string()]);
        client.args(["--threads", &config.threads.to_string()]);
        client.args(how.arguments());
        let answer = LabProcess::start(client)?.finish()?;
        if let Some(why) = answer["skipped"].as_str() {
            return Ok(RunOutcome::Skipped(why.to_owned()));
        }
        parse_figures(answer).map(RunOutcome::Measured)
    }

    /// Starts a server for `clients` clients, and waits until it listens.
    pub(super) fn serve(&self, clients: usize) -> Result<LabProcess, LabError> {
        let mut server = match &self.ends {
            EndLocation::Local { server, .. } => server.command(&self.program),
            EndLocation::Remote => Command::new(&self.program),
        };
        server.args(["lab", "copy", "serve", "--clients", &clients.to_string()]);
        let mut server = LabProcess::start(server)?;
        server.port()?;
        Ok(server)
    }

    /// Returns the path of this program.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns a command at the server's end; `None`: that is another machine.
    pub(super) fn command_at_server(&self, program: &str) -> Option<Command> {
        match &self.ends {
            EndLocation::Local { server, .. } => Some(server.command(program)),
            EndLocation::Remote => None,
        }
    }

    /// Returns a command that runs a program at the client's end; `None`: that end is another host.
    pub(super) fn command_at_client(&self, program: &str) -> Option<Command> {
        match &self.ends {
            EndLocation::Local { client, .. } => Some(client.command(program)),
            EndLocation::Remote => None,
        }
    }

    /// Returns the server's address.
    pub(super) fn server_address(&self) -> String {
        self.server.ip().to_string()
    }
}

/// Reads the figures that a client printed.
fn parse_figures(answer: Value) -> Result<RunFigures, LabError> {
    serde_json::from_value(answer).map_err(|why| {
        let hint = "both ends have to be of the same version of whylat";
        LabError::os(
            "read",
            "the client's figures",
            std::io::Error::from(why),
            hint,
        )
    })
}

/// Returns the file of this program.
fn program() -> Result<PathBuf, LabError> {
    std::env::current_exe()
        .map_err(|why| LabError::os("find", "this program's file", why, "mount /proc"))
}
