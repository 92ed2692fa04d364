//! Two ends between which a server and a client run, each in a namespace.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{LabError, LabProcess, Netns, Wire};

/// Two namespaces, and the program that plays roles in them.
#[derive(Debug, Clone)]
pub struct Site {
    /// Where clients run.
    pub client: Netns,
    /// Where servers run.
    pub server: Netns,
    /// The servers' address.
    pub address: Ipv4Addr,
    program: PathBuf,
    limit_s: u32,
}

impl Site {
    /// The client at `a`, the server at `b`. `program` is a `whylat`.
    pub fn over(wire: &Wire, program: &Path) -> Self {
        Site::between(&wire.a, wire, program)
    }

    /// Makes a site: the client in `client`, with a route to `wire`; the server at its end `b`.
    pub fn between(client: &Netns, wire: &Wire, program: &Path) -> Self {
        Site {
            server: wire.b.clone(),
            address: wire.address_b(),
            ..Site::on_loopback(client, program)
        }
    }

    /// Makes both ends in one namespace, over its loopback device.
    pub fn on_loopback(netns: &Netns, program: &Path) -> Self {
        Site {
            client: netns.clone(),
            server: netns.clone(),
            address: Ipv4Addr::LOCALHOST,
            program: program.to_owned(),
            limit_s: 60,
        }
    }

    /// Makes both ends in one new namespace, over its loopback.
    ///
    /// # Errors
    /// As [`Netns::new`] and [`Netns::set_congctl`].
    pub fn loopback(congctl: &str, program: &Path) -> Result<Self, LabError> {
        let netns = Netns::new()?;
        netns.set_congctl(congctl)?;
        Ok(Site::on_loopback(&netns, program))
    }

    /// The longest that a role may run.
    #[must_use]
    pub fn with_limit(mut self, limit_s: u32) -> Self {
        self.limit_s = limit_s;
        self
    }

    /// Starts a server role, and returns it with its port. Words are separated by white space.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it listens.
    pub fn serve(&self, role: &str) -> Result<(LabProcess, u16), LabError> {
        let mut server =
            self.start(&self.server, &format!("{role} --listen {}:0", self.address))?;
        let port = server.port()?;
        Ok((server, port))
    }

    /// Starts a client role.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn connect(&self, role: &str, port: u16) -> Result<LabProcess, LabError> {
        let address = self.address;
        self.start(&self.client, &format!("{role} --connect {address}:{port}"))
    }

    /// Starts a client role under `whylat run`, which makes the recording.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn connect_recorded(
        &self,
        role: &str,
        port: u16,
        recording: &Path,
    ) -> Result<LabProcess, LabError> {
        let mut command = self.client.command(&self.program);
        // the server of the scene is as if it were on another host
        command.args(["run", "--follow", "none", "--output"]);
        command.arg(recording).arg("--").arg(&self.program);
        let role = format!("{role} --connect {}:{port}", self.address);
        self.start_by(command, &role)
    }

    /// Starts a role beside the clients that forwards to the server at `port`; returns it with its
    /// port.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it listens.
    pub fn pass_on(&self, role: &str, port: u16) -> Result<(LabProcess, u16), LabError> {
        let near = Ipv4Addr::LOCALHOST;
        let role = format!("{role} --listen {near}:0 --connect {}:{port}", self.address);
        let mut proxy = self.start(&self.client, &role)?;
        let port = proxy.port()?;
        Ok((proxy, port))
    }

    /// Starts a client role that connects to a server beside it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn connect_near(&self, role: &str, port: u16) -> Result<LabProcess, LabError> {
        let near = Ipv4Addr::LOCALHOST;
        self.start(&self.client, &format!("{role} --connect {near}:{port}"))
    }

    /// Starts a role that has no connection, and waits until it is at work.
    ///
    /// # Errors
    /// When it cannot be started, or ends before.
    pub fn start_role(&self, role: &str) -> Result<LabProcess, LabError> {
        let mut running = self.start(&self.client, role)?;
        running.port()?;
        Ok(running)
    }

    /// Starts this program in a namespace, in this role.
    fn start(&self, netns: &Netns, role: &str) -> Result<LabProcess, LabError> {
        self.start_by(netns.command(&self.program), role)
    }

    /// Starts a role by a command to which its words are added.
    fn start_by(&self, mut command: Command, role: &str) -> Result<LabProcess, LabError> {
        command.args(["lab", "workload", "--limit-s", &self.limit_s.to_string()]);
        LabProcess::start({
            command.args(role.split_whitespace());
            command
        })
    }
}
