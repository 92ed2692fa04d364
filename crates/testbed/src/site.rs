//! Roles of the lab, run by the program under test, and what a recording says of them.

use std::ops::Deref;

use lab::{LabProcess, Netns, Wire};
use serde_json::Value;

use crate::process::program;
use crate::recorder::Recorder;
use crate::report::Report;

/// A role takes no longer: a little less than a test waits, so that the role says itself that its time is up.
const LIMIT_S: u32 = 220;

/// Starts a workload role. `arguments` are separated by white space.
pub fn role(netns: &Netns, arguments: &str) -> LabProcess {
    role_as(netns, program(), arguments)
}

/// Starts a role by another name of the program.
pub fn role_as(netns: &Netns, name: &str, arguments: &str) -> LabProcess {
    let mut command = netns.command(name);
    command.args(["lab", "workload", "--limit-s", &LIMIT_S.to_string()]);
    command.args(arguments.split_whitespace());
    LabProcess::start(command).expect("start a workload")
}

/// A site of the lab at which the program under test runs; what fails there fails the test.
#[derive(Debug, Clone)]
pub struct Site(lab::Site);

impl Deref for Site {
    type Target = lab::Site;

    fn deref(&self) -> &lab::Site {
        &self.0
    }
}

impl Site {
    /// Makes the client at `a`, the server at `b`.
    pub fn over(wire: &Wire) -> Self {
        Site(lab::Site::over(wire, program().as_ref()).with_limit(LIMIT_S))
    }

    /// Makes both ends in one new namespace.
    pub fn loopback(congctl: &str) -> Self {
        let site = lab::Site::loopback(congctl, program().as_ref());
        Site(site.expect("a namespace").with_limit(LIMIT_S))
    }

    /// Starts a server role; returns it with its port.
    pub fn serve(&self, role: &str) -> (LabProcess, u16) {
        self.0.serve(role).expect("a server")
    }

    /// Starts a client role.
    pub fn connect(&self, role: &str, port: u16) -> LabProcess {
        self.0.connect(role, port).expect("a client")
    }

    /// Records a server and a client by the server's port, from before the client starts
    /// until both have ended.
    pub fn record(&self, server: &str, client: &str) -> RecordedExchange {
        self.record_with("", server, client, || ())
    }

    /// Records an exchange as [`Site::record`], with more options, and calls `meanwhile` after the
    /// client's start.
    pub fn record_with(
        &self,
        options: &str,
        server: &str,
        client: &str,
        meanwhile: impl FnOnce(),
    ) -> RecordedExchange {
        let (server, port) = self.serve(server);
        let recorder = Recorder::start(&format!("--port {port} {options}"));
        let client = self.connect(client, port);
        meanwhile();
        let client = client.finish().expect("the client's truth");
        let server = server.finish().expect("the server's truth");
        RecordedExchange {
            report: recorder.stop(),
            client,
            server,
        }
    }
}

/// A recorded exchange and what the two programs know of it.
#[derive(Debug)]
pub struct RecordedExchange {
    /// The report of the recording.
    pub report: Report,
    /// The client's truth.
    pub client: Value,
    /// The server's truth.
    pub server: Value,
}
