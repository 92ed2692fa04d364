//! An agent under way, and the dataset that it fills.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::Netns;
use nix::sys::signal::Signal;
use table::fleet::{
    FleetConnection, FleetConnections, FleetCoverage, FleetCoverages, FleetDetail, FleetDetails,
    FleetInterval, FleetIntervals, FleetProblem, FleetProblems,
};
use table::{Columns, Table, dataset};
use tempfile::TempDir;

use crate::process::{ChildGuard, program, until, wait};

/// The agent's budget of memory, at 10,000 connections; these tests have some hundred.
const RSS_BYTES: i64 = 100 << 20;

/// The rule of the processes of these tests.
pub const TESTS: &str = "[[application]]\nname = \"tests\"\ncommand = '/kernel-[0-9a-f]+ '\n";

/// The port of its endpoint.
const METRICS_PORT: u16 = 9464;
/// The token that its endpoint asks for.
const METRICS_TOKEN: &str = "3b1d";

/// Writes the configuration of an agent over a directory, with these rules.
pub fn configure(path: &Path, detail: &str, rules: &str) {
    let config = format!(
        "[host]\nname = \"watched\"\n\
         [watch]\nnetns = \"own\"\ninterval_s = 2\ndetail = \"{detail}\"\n\
         [ship]\ntarget = \"{0}/dataset\"\nspool = \"{0}/spool\"\n\
         [metrics]\nlisten = \"127.0.0.1:{METRICS_PORT}\"\n\
         {rules}",
        path.display()
    );
    std::fs::write(path.join("agent.toml"), config).expect("a configuration");
}

/// Writes the configuration of an agent that writes no files.
pub fn configure_without_files(path: &Path, rules: &str) {
    let config = format!(
        "[host]\nname = \"watched\"\n\
         [watch]\nnetns = \"own\"\ninterval_s = 2\n\
         [metrics]\nlisten = \"127.0.0.1:{METRICS_PORT}\"\n\
         {rules}"
    );
    std::fs::write(path.join("agent.toml"), config).expect("a configuration");
}

/// Returns the page that the agent in a namespace has for Prometheus; `None`: it does not answer yet.
pub fn metrics_page(netns: &Netns) -> Option<String> {
    let ask = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, METRICS_PORT)).ok()?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {METRICS_TOKEN}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok().map(|_| page)
    };
    netns.run(ask).expect("the namespace")
}

/// An agent under way in a namespace.
pub struct Agent {
    /// The agent.
    pub process: ChildGuard,
    scratch: TempDir,
}

impl Agent {
    /// Starts an agent in `netns` that watches only there, with intervals of two seconds.
    pub fn start(netns: &Netns) -> Self {
        Self::start_again(netns, tempfile::tempdir().expect("a directory"), "calls")
    }

    /// Starts an agent with the spool and dataset of an earlier one.
    pub fn start_again(netns: &Netns, scratch: TempDir, detail: &str) -> Self {
        configure(scratch.path(), detail, TESTS);
        Self::start_by(&mut netns.command(program()), scratch)
    }

    /// Starts an agent with a configuration. `command` executes the program with the further arguments that it gets.
    pub fn start_by(command: &mut Command, scratch: TempDir) -> Self {
        let (path, ready) = (scratch.path(), scratch.path().join("ready"));
        std::fs::create_dir_all(path.join("dataset")).expect("a directory");
        let _ = std::fs::remove_file(&ready);
        command
            .arg("agent")
            .arg("--config")
            .arg(path.join("agent.toml"));
        command.arg("--ready-file").arg(&ready);
        command.env("WHYLAT_METRICS_TOKEN", METRICS_TOKEN);
        let stderr = std::fs::File::create(path.join("stderr")).expect("a file");
        let process = ChildGuard::start(command.stdout(Stdio::null()).stderr(stderr));
        let mut agent = Agent { process, scratch };
        until("the agent ready", || {
            let ended = agent.process.0.try_wait().expect("wait");
            assert!(ended.is_none(), "the agent ended: {}", agent.stderr_text());
            ready.exists().then_some(())
        });
        agent
    }

    /// Returns the folder with its configuration, dataset and spool.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns what the agent printed on stderr.
    pub fn stderr_text(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("stderr")).unwrap_or_default()
    }

    /// Waits until the agent's stderr has this text; returns all of it.
    pub fn says(&self, text: &str) -> String {
        until(text, || {
            Some(self.stderr_text()).filter(|stderr_text| stderr_text.contains(text))
        })
    }

    /// Returns the agent's dataset.
    pub fn dataset(&self) -> Dataset {
        Dataset(self.scratch.path().join("dataset"))
    }

    /// Ends the agent as systemd does.
    pub fn stop(mut self) -> (Dataset, TempDir) {
        self.process.signal(Signal::SIGTERM);
        let status = wait(&mut self.process.0, "the agent");
        assert_eq!(status.code(), Some(0), "{status}");
        (self.dataset(), self.scratch)
    }

    /// Kills the agent; returns the directory of its spool and dataset.
    pub fn kill(mut self) -> TempDir {
        self.process.signal(Signal::SIGKILL);
        wait(&mut self.process.0, "the agent");
        self.scratch
    }
}

/// The dataset of an agent.
pub struct Dataset(PathBuf);

impl Dataset {
    /// Returns all rows of a table in the dataset.
    fn rows<C: Columns>(&self) -> Vec<C::Row> {
        let mut files = Vec::new();
        parquet_files(&self.0.join(C::Row::NAME), &mut files);
        let mut rows = Vec::new();
        for file in files {
            // one that is renamed at this moment is there under its new name
            if let Ok(columns) = dataset::read::<C>(&file) {
                rows.extend((0..columns.len()).map(|index| columns.row(index)));
            }
        }
        rows
    }

    /// Returns all rows of `fleet_coverage`, in order.
    pub fn coverage(&self) -> Vec<FleetCoverage> {
        let mut rows = self.rows::<FleetCoverages>();
        rows.sort_by_key(|row| row.begin_ns);
        rows
    }

    /// Returns all rows of `fleet_intervals`.
    pub fn intervals(&self) -> Vec<FleetInterval> {
        self.rows::<FleetIntervals>()
    }

    /// Returns all rows of `fleet_problems`.
    pub fn problems(&self) -> Vec<FleetProblem> {
        self.rows::<FleetProblems>()
    }

    /// Returns all rows of `fleet_details`.
    pub fn details(&self) -> Vec<FleetDetail> {
        self.rows::<FleetDetails>()
    }

    /// Returns the latest row of each connection.
    pub fn connections(&self) -> BTreeMap<i64, FleetConnection> {
        let mut rows = self.rows::<FleetConnections>();
        rows.sort_by_key(|row| row.time_ns);
        rows.into_iter().map(|row| (row.conn_id, row)).collect()
    }

    /// Returns the one connection that this port of the peer and this local one name.
    pub fn connection_by_ports(&self, local: u16, peer: u16) -> FleetConnection {
        let is_it = |row: &FleetConnection| {
            row.local_port == i32::from(local) && row.peer_port == i32::from(peer)
        };
        let mut found: Vec<_> = self.connections().into_values().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{local} to {peer}: {found:?}");
        found.remove(0)
    }
}

/// Adds the Parquet files below a directory.
fn parquet_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            parquet_files(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "parquet") {
            files.push(path);
        }
    }
}

/// Every moment between the first and the last interval was watched, and once.
#[track_caller]
pub fn assert_no_gaps(coverage: &[FleetCoverage]) {
    assert!(!coverage.is_empty());
    for pair in coverage.windows(2) {
        let end_ns = pair[0].begin_ns + pair[0].length_us * 1_000;
        assert_eq!(end_ns, pair[1].begin_ns, "{coverage:?}");
    }
    for row in coverage {
        assert_eq!(row.lost, 0, "{row:?}");
        assert!(row.rss_bytes < RSS_BYTES, "{row:?}");
        assert!(row.length_us <= 2_000_000, "{row:?}");
    }
}

/// Returns the sum of a column over all intervals of a connection.
pub fn sum(
    rows: &[FleetInterval],
    conn_id: i64,
    of: impl Fn(&FleetInterval) -> Option<i64>,
) -> i64 {
    let rows = rows.iter().filter(|row| row.conn_id == conn_id);
    rows.map(|row| of(row).expect("measured")).sum()
}
