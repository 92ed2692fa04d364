//! The agent watches what it is told to watch: what its dataset counts is exact, a planted fault is in its problems and
//! its healthy twin is not, and a kill loses no more than the interval that was under way.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::Netns;
use nix::sys::signal::Signal;
use table::fleet::{
    BIN_NS, FleetConnection, FleetConnections, FleetCoverage, FleetCoverages, FleetDetail,
    FleetDetails, FleetInterval, FleetIntervals, FleetProblem, FleetProblems,
};
use table::{Columns, Table, dataset};
use tempfile::TempDir;

use crate::harness::{Site, Tied, planted, program, root, until, wait, whylat};
use crate::verdicts::wire;

/// The agent's budget of memory, at 10,000 connections; these tests have some hundred.
const RSS_BYTES: i64 = 100 << 20;

/// The rule of the processes of these tests.
pub const TESTS: &str = "[[application]]\nname = \"tests\"\ncommand = '/kernel-[0-9a-f]+ '\n";

/// The port of its endpoint, and what is to be shown there.
pub const METRICS_PORT: u16 = 9464;
pub const METRICS_TOKEN: &str = "3b1d";

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

/// An agent under way in a namespace.
pub struct Agent {
    pub process: Tied,
    scratch: TempDir,
}

impl Agent {
    /// Starts one in `netns` that watches only there, with two seconds an interval.
    pub fn start(netns: &Netns) -> Self {
        Self::start_again(netns, tempfile::tempdir().expect("a directory"), "calls")
    }

    /// The same over the spool and dataset of one that was there before.
    pub fn start_again(netns: &Netns, scratch: TempDir, detail: &str) -> Self {
        configure(scratch.path(), detail, TESTS);
        Self::start_by(&mut netns.command(program()), scratch)
    }

    /// Starts one that is configured, by a command that executes the program with what comes as further arguments.
    pub fn start_by(command: &mut Command, scratch: TempDir) -> Self {
        let (path, ready) = (scratch.path(), scratch.path().join("ready"));
        std::fs::create_dir_all(path.join("dataset")).expect("a directory");
        let _ = std::fs::remove_file(&ready);
        command
            .arg("agent")
            .arg("--config")
            .arg(path.join("agent.toml"));
        command.arg("--ready-file").arg(&ready);
        command.env(::agent::metrics::TOKEN_VARIABLE, METRICS_TOKEN);
        let stderr = std::fs::File::create(path.join("stderr")).expect("a file");
        let process = Tied::start(command.stdout(Stdio::null()).stderr(stderr));
        let mut agent = Agent { process, scratch };
        until("the agent ready", || {
            let ended = agent.process.0.try_wait().expect("wait");
            assert!(ended.is_none(), "the agent ended: {}", agent.said());
            ready.exists().then_some(())
        });
        agent
    }

    /// Where its configuration, dataset and spool are.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// What it said on stderr.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("stderr")).unwrap_or_default()
    }

    /// Waits until it has said this.
    pub fn says(&self, text: &str) -> String {
        until(text, || {
            Some(self.said()).filter(|said| said.contains(text))
        })
    }

    pub fn dataset(&self) -> Dataset {
        Dataset(self.scratch.path().join("dataset"))
    }

    /// Ends it as systemd does.
    pub fn stop(mut self) -> (Dataset, TempDir) {
        self.process.signal(Signal::SIGTERM);
        let status = wait(&mut self.process.0, "the agent");
        assert_eq!(status.code(), Some(0), "{status}");
        (self.dataset(), self.scratch)
    }

    fn kill(mut self) -> TempDir {
        self.process.signal(Signal::SIGKILL);
        wait(&mut self.process.0, "the agent");
        self.scratch
    }
}

pub struct Dataset(PathBuf);

impl Dataset {
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

    pub fn coverage(&self) -> Vec<FleetCoverage> {
        let mut rows = self.rows::<FleetCoverages>();
        rows.sort_by_key(|row| row.begin_ns);
        rows
    }

    pub fn intervals(&self) -> Vec<FleetInterval> {
        self.rows::<FleetIntervals>()
    }

    fn problems(&self) -> Vec<FleetProblem> {
        self.rows::<FleetProblems>()
    }

    fn details(&self) -> Vec<FleetDetail> {
        self.rows::<FleetDetails>()
    }

    /// The latest row of each connection.
    pub fn connections(&self) -> BTreeMap<i64, FleetConnection> {
        let mut rows = self.rows::<FleetConnections>();
        rows.sort_by_key(|row| row.time_ns);
        rows.into_iter().map(|row| (row.conn_id, row)).collect()
    }

    /// The one connection that this port of the peer and this local one name.
    pub fn of_ports(&self, local: u16, peer: u16) -> FleetConnection {
        let is_it = |row: &FleetConnection| {
            row.local_port == i32::from(local) && row.peer_port == i32::from(peer)
        };
        let mut found: Vec<_> = self.connections().into_values().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{local} to {peer}: {found:?}");
        found.remove(0)
    }
}

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

pub fn sum(
    rows: &[FleetInterval],
    conn_id: i64,
    of: impl Fn(&FleetInterval) -> Option<i64>,
) -> i64 {
    let rows = rows.iter().filter(|row| row.conn_id == conn_id);
    rows.map(|row| of(row).expect("measured")).sum()
}

/// A server that reads all that comes, on each connection.
fn serve(listener: TcpListener, connections: usize) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut all = 0;
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a connection");
            all += std::io::copy(&mut stream, &mut std::io::sink()).expect("bytes");
        }
        all
    })
}

const SHORT: u64 = 211;
const WRITES: usize = 1_009;
/// Two of each class, at its bounds; those of the last class are one.
const SIZES: [usize; 11] = [
    1, 64, 65, 512, 513, 4_096, 4_097, 32_768, 32_769, 262_144, 262_145,
];

/// What the client did: ports of the long connection, and bytes.
struct Did {
    long: (u16, u16),
    bytes: u64,
    read: u64,
}

fn write_known() -> Did {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = serve(listener, 1 + SHORT as usize);
    let mut long = TcpStream::connect(address).expect("a connection");
    let buffer = vec![7; 262_145];
    let mut bytes = 0;
    for size in SIZES.iter().cycle().take(WRITES) {
        // a blocking send takes all, in one call
        assert_eq!(long.write(&buffer[..*size]).expect("a write"), *size);
        bytes += *size as u64;
    }
    let port = long.local_addr().expect("an address").port();
    drop(long);
    for _ in 0..SHORT {
        let mut short = TcpStream::connect(address).expect("a connection");
        short.write_all(b"once").expect("a write");
    }
    Did {
        long: (port, address.port()),
        bytes,
        read: server.join().expect("the server"),
    }
}

#[test]
fn calls_connections_and_intervals_are_counted_exactly_and_only_here() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let elsewhere = Netns::new().expect("a namespace");
    let agent = Agent::start(&netns);
    let did = netns.run(write_known).expect("the client");
    let other = elsewhere.run(write_known).expect("a client elsewhere");
    assert_eq!(did.read, did.bytes + SHORT * 4);
    assert_eq!(other.bytes, did.bytes);
    let (dataset, _scratch) = agent.stop();
    let intervals = dataset.intervals();
    let long = dataset.of_ports(did.long.0, did.long.1);
    let of_class = |class: usize| {
        let sizes = SIZES.iter().cycle().take(WRITES);
        let bounds = [64, 512, 4_096, 32_768, 262_144, usize::MAX];
        let is_of = |size: &&usize| bounds.iter().position(|most| *size <= most) == Some(class);
        sizes.filter(is_of).count() as i64
    };
    let counted = |of: &dyn Fn(&FleetInterval) -> Option<i64>| sum(&intervals, long.conn_id, of);
    assert_eq!(counted(&|row| row.writes), WRITES as i64);
    assert_eq!(counted(&|row| row.written_bytes), did.bytes as i64);
    assert_eq!(counted(&|row| row.writes_to_64), of_class(0));
    assert_eq!(counted(&|row| row.writes_to_512), of_class(1));
    assert_eq!(counted(&|row| row.writes_to_4k), of_class(2));
    assert_eq!(counted(&|row| row.writes_to_32k), of_class(3));
    assert_eq!(counted(&|row| row.writes_to_256k), of_class(4));
    assert_eq!(counted(&|row| row.writes_over_256k), of_class(5));
    let peer = dataset.of_ports(did.long.1, did.long.0);
    let read = sum(&intervals, peer.conn_id, |row| row.read_bytes);
    assert_eq!(read, did.bytes as i64);
    let connections = dataset.connections();
    assert_eq!(
        connections.len() as u64,
        2 * (1 + SHORT),
        "two ends of each, and none elsewhere"
    );
    let comm = std::fs::read_to_string("/proc/self/comm").expect("a name");
    let inode = i64::try_from(netns.inode()).expect("small");
    for (conn_id, row) in &connections {
        assert_eq!(i64::from(row.netns), inode);
        assert!(
            row.opened_ns.is_some() && row.closed_ns > row.opened_ns,
            "{row:?}"
        );
        assert!(
            intervals
                .iter()
                .any(|interval| interval.conn_id == *conn_id),
            "{row:?}"
        );
        if row.peer_port == i32::from(did.long.1) {
            assert_eq!(row.process.as_deref(), Some(comm.trim()), "{row:?}");
            assert_eq!(row.app.as_deref(), Some("tests"), "{row:?}");
            let written = sum(&intervals, *conn_id, |row| row.written_bytes);
            assert!(
                *conn_id == long.conn_id || written == 4,
                "{row:?}: {written}"
            );
        }
    }
    assert_no_gaps(&dataset.coverage());
    let ids: BTreeSet<_> = intervals
        .iter()
        .map(|row| (row.conn_id, row.begin_ns))
        .collect();
    assert_eq!(ids.len(), intervals.len(), "a row is there twice");
}

/// The rows of problems of the client's end of one exchange over a wire.
fn problems_of(
    server: &str,
    client: &str,
) -> (Vec<FleetProblem>, Vec<FleetDetail>, Option<String>) {
    let wire = wire("cubic", 20_000);
    let site = Site::over(&wire);
    let agent = Agent::start(&site.client);
    let (server, port) = site.serve(server);
    let client = site.connect(client, port);
    client.finish().expect("the client's truth");
    server.finish().expect("the server's truth");
    let (dataset, _scratch) = agent.stop();
    let connections = dataset.connections();
    let ids: Vec<i64> = connections.keys().copied().collect();
    assert_eq!(ids.len(), 1, "{connections:?}");
    let intervals = dataset.intervals();
    let longest = intervals.iter().max_by_key(|row| row.length_us);
    let verdict = longest.and_then(|row| row.verdict.clone());
    (dataset.problems(), dataset.details(), verdict)
}

#[test]
fn a_small_receive_buffer_is_a_problem_and_a_large_one_is_not() {
    if !root() {
        return;
    }
    let (problems, details, verdict) = problems_of("sink --rcvbuf 4096", "stream --seconds 4");
    let limited_us = |rows: &[FleetProblem]| -> i64 {
        rows.iter()
            .map(|row| i64::from(row.receiver_window_us))
            .sum()
    };
    assert!(limited_us(&problems) > 3_000_000, "{problems:?}");
    assert_eq!(verdict.as_deref(), Some("receiver_window"));
    for row in &problems {
        assert!(row.begin_ns % BIN_NS == 0 && i64::from(row.receiver_window_us) <= BIN_NS / 1_000);
        // a reading tells of the time since the one before
        let reaches_in = |detail: &FleetDetail| {
            let from_ns = detail.time_ns - detail.length_us * 1_000;
            from_ns < row.begin_ns + BIN_NS && detail.time_ns > row.begin_ns
        };
        assert!(details.iter().any(reaches_in), "{row:?}");
    }
    assert!(
        details
            .iter()
            .any(|detail| detail.stage.as_deref() == Some("receiver_window"))
    );
    let (problems, details, verdict) =
        problems_of("reply-server", "request-reply --rounds 61 --pause-us 20000");
    assert_eq!(limited_us(&problems), 0, "{problems:?}");
    assert_eq!((details.len(), verdict), (0, None), "{problems:?}");
}

#[test]
fn nagle_and_delayed_acks_are_a_problem_and_single_writes_are_not() {
    if !root() {
        return;
    }
    let delayed_us = |rows: &[FleetProblem]| -> i64 {
        let times = rows.iter().map(|row| row.delayed_ack_us.expect("measured"));
        times.map(i64::from).sum()
    };
    planted(|| {
        let (problems, details, verdict) =
            problems_of("reply-server", "write-write-read --rounds 53");
        let found = delayed_us(&problems) > 1_000_000
            && !details.is_empty()
            && matches!(verdict.as_deref(), Some("nagle" | "delayed_ack"));
        found
            .then_some(())
            .ok_or(format!("{problems:?} {verdict:?}"))
    });
    // a machine that stands still for long enough makes ACKs late, too
    planted(|| {
        let (problems, _, verdict) =
            problems_of("reply-server", "request-reply --rounds 53 --pause-us 20000");
        let found = delayed_us(&problems) == 0 && verdict.is_none();
        found
            .then_some(())
            .ok_or(format!("{problems:?} {verdict:?}"))
    });
}

/// A client that writes once for each byte on its input, and says how often it did.
struct Writes {
    stream: TcpStream,
    number: i64,
}

impl Writes {
    fn more(&mut self, times: i64) {
        for _ in 0..times {
            self.stream.write_all(&[1; 100]).expect("a write");
        }
        self.number += times;
    }
}

#[test]
fn a_kill_loses_the_open_interval_at_most_and_nothing_counts_twice() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let (stream, server) = netns
        .run(|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let address = listener.local_addr().expect("an address");
            let server = serve(listener, 1);
            (TcpStream::connect(address).expect("a connection"), server)
        })
        .expect("a client");
    let mut writes = Writes { stream, number: 0 };
    let agent = Agent::start(&netns);
    writes.more(101);
    let told = |dataset: &Dataset| -> i64 {
        dataset
            .intervals()
            .iter()
            .filter_map(|row| row.writes)
            .sum()
    };
    let dataset = agent.dataset();
    until("the writes told of", || {
        (told(&dataset) == 101).then_some(())
    });
    let before = dataset.coverage();
    writes.more(103);
    let scratch = agent.kill();
    let kept = dataset.coverage();
    assert!(kept.len() >= before.len());
    let second = Agent::start_again(&netns, scratch, "calls");
    writes.more(107);
    drop(writes.stream);
    let (dataset, _scratch) = second.stop();
    assert_eq!(server.join().expect("the server"), 311 * 100);
    let coverage = dataset.coverage();
    for pair in coverage.windows(2) {
        let end_ns = pair[0].begin_ns + pair[0].length_us * 1_000;
        assert!(end_ns <= pair[1].begin_ns, "{coverage:?}");
    }
    let intervals = dataset.intervals();
    let ids: BTreeSet<_> = intervals
        .iter()
        .map(|row| (row.conn_id, row.begin_ns))
        .collect();
    assert_eq!(ids.len(), intervals.len(), "a row is there twice");
    // what the first had not told of was under way in the kernel or in its open interval
    let told = told(&dataset);
    assert!((101 + 107..=311).contains(&told), "{told} of 311");
    assert_eq!(
        dataset.connections().len(),
        2,
        "the same socket under one id"
    );
}

#[test]
fn statistics_alone_leave_null_what_only_calls_tell() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let scratch = tempfile::tempdir().expect("a directory");
    let agent = Agent::start_again(&netns, scratch, "stats");
    let did = netns.run(write_known).expect("the client");
    let (dataset, _scratch) = agent.stop();
    let long = dataset.of_ports(did.long.0, did.long.1);
    let rows = dataset.intervals();
    let acked = sum(&rows, long.conn_id, |row| Some(row.acked_bytes));
    // the kernel counts SYN and FIN, too
    assert!(
        acked.abs_diff(did.bytes as i64) <= 2,
        "{acked} of {}",
        did.bytes
    );
    assert!(
        rows.iter()
            .all(|row| row.writes.is_none() && row.delayed_ack_us.is_none())
    );
    assert!(dataset.coverage().iter().all(|row| row.detail == "stats"));
    assert_no_gaps(&dataset.coverage());
}

#[test]
fn what_an_agent_cannot_use_is_said_with_a_hint() {
    let scratch = tempfile::tempdir().expect("a directory");
    let config = scratch.path().join("agent.toml");
    let mut command = whylat("agent --config");
    crate::harness::finish(command.arg(&config))
        .ended(1)
        .explains("agent.toml");
    std::fs::write(&config, "[watch]\ninterval_s = 7\n").expect("a file");
    let mut command = whylat("agent --check --config");
    crate::harness::finish(command.arg(&config))
        .ended(1)
        .explains("interval_s");
}
