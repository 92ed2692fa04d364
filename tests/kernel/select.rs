//! Each option that selects connections chooses exactly those: with the other end of
//! each beside it, and nothing of a second pair of programs that runs at the same time.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use lab::{LabProcess, Netns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use table::SampleKind;
use table::manifest::ProbeState;
use table::tables::{Connection, TcpSample, TcpStage};

use crate::doctor::other_netns_limit;
use testbed::report::{Report, number};
use testbed::{Recorder, Site, finish, program, role, root, until};

const ROUNDS: u64 = 101;

/// A client that is connected and waits for the word to start, and its server.
pub(crate) struct Pair {
    pub(crate) client: LabProcess,
    server: LabProcess,
    port: u16,
}

/// Cookies of both ends.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) client: u64,
    pub(crate) server: u64,
}

impl Pair {
    pub(crate) fn start(netns: &Netns) -> Self {
        Self::start_as(netns, |port| role(netns, &client_words(port)))
    }

    /// With a client that is started in a way of its own, connecting to this port.
    pub(crate) fn start_as(netns: &Netns, start: impl FnOnce(u16) -> LabProcess) -> Self {
        let mut server = role(netns, "reply-server");
        let port = server.port().expect("port");
        let mut client = start(port);
        client.port().expect("the client is connected");
        Pair {
            client,
            server,
            port,
        }
    }

    pub(crate) fn go(&mut self) {
        self.client.go().expect("start the client");
    }

    pub(crate) fn finish(self) -> Ends {
        let cookie = |end: LabProcess| {
            let truth = end.finish().expect("truth");
            number(&truth, "/connections/0/cookie")
        };
        Ends {
            client: cookie(self.client),
            server: cookie(self.server),
        }
    }
}

pub(crate) fn client_words(port: u16) -> String {
    format!("request-reply --rounds {ROUNDS} --start-on-stdin --connect 127.0.0.1:{port}")
}

/// A client of another program name, or in another place.
pub(crate) fn client_by(netns: &Netns, words: &[&str], port: u16) -> LabProcess {
    let mut command = netns.command(words[0]);
    command.args(&words[1..]);
    command.args(format!("lab workload {}", client_words(port)).split_whitespace());
    LabProcess::start(command).expect("start the client")
}

fn chosen(report: &Report, why: &str) -> BTreeSet<u64> {
    let all = report.connections().iter();
    all.filter(|c| c["chosen"] == why)
        .map(|c| number(c, "/id"))
        .collect()
}

/// Exactly the client's socket is the target; the server's is recorded beside it and joined, with
/// a ledger and without a log of its calls.
#[track_caller]
pub(crate) fn assert_client_chosen(report: &Report, ends: &Ends) {
    report.assert_whole();
    assert_eq!(chosen(report, "target"), BTreeSet::from([ends.client]));
    assert_eq!(chosen(report, "peer"), BTreeSet::from([ends.server]));
    let client = report.by_cookie(ends.client);
    let server = report.by_cookie(ends.server);
    assert_eq!(client["peer"], ends.server, "{client:#}");
    assert_eq!(server["peer"], ends.client, "{server:#}");
    for (end, sends) in [(client, json!(ROUNDS)), (server, Value::Null)] {
        assert_eq!(end["totals"]["send_calls"], sends);
        assert_eq!(end["totals"]["bytes_sent"], ROUNDS * 100);
        assert_eq!(end["stages"]["in_flight"]["method"], "ledger");
    }
}

/// Records with `arguments` while both pairs run.
pub(crate) fn record_both(
    arguments: &str,
    mut pair: Pair,
    mut other: Pair,
) -> (Report, Ends, Ends) {
    let recorder = Recorder::start(arguments);
    pair.go();
    other.go();
    let (ends, others) = (pair.finish(), other.finish());
    (recorder.stop(), ends, others)
}

#[test]
fn open_connection_of_a_process_is_recorded() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let (pair, other) = (Pair::start(&netns), Pair::start(&netns));
    let arguments = format!("-p {}", pair.client.pid());
    let (report, ends, _) = record_both(&arguments, pair, other);
    assert_client_chosen(&report, &ends);
    let client = report.by_cookie(ends.client);
    assert_eq!(client["opened_ns"], Value::Null);
    assert_eq!(client["process"]["comm"], "whylat");
}

#[test]
fn present_and_future_processes_of_a_name_are_recorded() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let scratch = tempfile::tempdir().expect("a directory");
    let named = scratch.path().join("wl-chosen-13");
    symlink(program(), &named).expect("a second name");
    let named = named.to_str().expect("a path");
    let pair = Pair::start_as(&netns, |port| client_by(&netns, &[named], port));
    let other = Pair::start(&netns);
    let (report, ends, _) = record_both("--comm wl-chosen-13", pair, other);
    assert_client_chosen(&report, &ends);

    let recorder = Recorder::start("--comm wl-chosen-13");
    let mut later = Pair::start_as(&netns, |port| client_by(&netns, &[named], port));
    let mut other = Pair::start(&netns);
    later.go();
    other.go();
    let (ends, _) = (later.finish(), other.finish());
    let report = recorder.stop();
    assert_client_chosen(&report, &ends);
    assert!(report.by_cookie(ends.client)["opened_ns"].is_u64());
}

#[test]
fn connections_of_a_port_are_recorded() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let (pair, other) = (Pair::start(&netns), Pair::start(&netns));
    let arguments = format!("--port {}", pair.port);
    let (report, ends, _) = record_both(&arguments, pair, other);
    report.assert_whole();
    assert_eq!(
        chosen(&report, "target"),
        BTreeSet::from([ends.client, ends.server])
    );
    assert_eq!(chosen(&report, "peer"), BTreeSet::new());
    assert_eq!(report.by_cookie(ends.client)["peer"], ends.server);
    assert_eq!(report.by_cookie(ends.server)["peer"], ends.client);
}

/// A control group of the test's own; removed with it.
pub struct Group(PathBuf);

impl Group {
    pub fn new() -> Self {
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (point, kind) = (words.nth(1)?, words.next()?);
            (kind == "cgroup2").then(|| point.to_owned())
        });
        let mount = mount.expect("a cgroup2 mount");
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("whylat-test-{}-{number}", std::process::id());
        let path = Path::new(&mount).join(name);
        fs::create_dir(&path).expect("a control group");
        Group(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("a path")
    }

    /// Moves a process into it.
    pub fn take(&self, pid: u32) {
        Self::place(&self.0, pid);
    }

    /// Moves a process to the root.
    pub fn release(&self, pid: u32) {
        Self::place(self.0.parent().expect("the root"), pid);
    }

    fn place(group: &Path, pid: u32) {
        fs::write(group.join("cgroup.procs"), pid.to_string()).expect("move a process");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove_group(&self.0);
    }
}

/// Removes a control group, which is busy until its last process has ended: a test that fails leaves some.
pub fn remove_group(path: &Path) {
    let is_removed = || {
        let pids = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        // 0 is one of another namespace of processes, and to kill() the group of this one
        let pids = pids.lines().filter_map(|line| line.parse().ok());
        for pid in pids.filter(|pid| *pid > 0) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        fs::remove_dir(path).ok()
    };
    until("the control group empty", is_removed);
}

#[test]
fn processes_of_a_control_group_are_recorded() {
    if !root() {
        return;
    }
    let group = Group::new();
    let netns = Netns::new().expect("a namespace");
    let path = group.path();
    let join = format!("echo $$ > {path}/cgroup.procs && exec \"$0\" \"$@\"");
    let words = ["sh", "-c", &join, program()];
    let pair = Pair::start_as(&netns, |port| client_by(&netns, &words, port));
    let other = Pair::start(&netns);
    let (report, ends, _) = record_both(&format!("--cgroup {path}"), pair, other);
    assert_client_chosen(&report, &ends);

    let recorder = Recorder::start(&format!("--cgroup {path}"));
    let mut later = Pair::start_as(&netns, |port| client_by(&netns, &words, port));
    later.go();
    let ends = later.finish();
    assert_client_chosen(&recorder.stop(), &ends);
}

#[test]
fn sockets_of_all_namespaces_are_recorded() {
    if !root() {
        return;
    }
    let spaces = [Netns::new().expect("one"), Netns::new().expect("two")];
    let [one, two] = [&spaces[0], &spaces[1]];
    let (report, ends, others) = record_both("-a", Pair::start(one), Pair::start(two));
    let targets = chosen(&report, "target");
    let rows: Vec<Connection> = report.rows();
    for (ends, netns) in [(&ends, one), (&others, two)] {
        for (cookie, peer) in [(ends.client, ends.server), (ends.server, ends.client)] {
            assert!(targets.contains(&cookie), "{}", report.brief());
            let end = report.by_cookie(cookie);
            assert_eq!(end["peer"], peer);
            assert_eq!(number(end, "/totals/send_calls"), ROUNDS);
            let inode = rows
                .iter()
                .find(|row| row.conn == cookie)
                .map(|row| row.netns);
            assert_eq!(inode.map(u64::from), Some(netns.inode()));
        }
    }
}

/// Some kernels refuse iterators over maps. Without CAP_SYS_ADMIN, polls do not reach another namespace there: its
/// connections are read when they close.
#[test]
fn recorder_without_sys_admin_reads_other_namespaces_as_it_can() {
    if !root() {
        return;
    }
    let reduced = || {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=-all", "--bounding-set=-sys_admin"]);
        command
    };
    let limit = other_netns_limit(&mut reduced());
    let site = Site::loopback("cubic");
    let mut pair = Pair::start(&site.client);
    let mut command = reduced();
    command.arg(program());
    let recorder = Recorder::start_as(command, &format!("--port {} --detail calls", pair.port));
    pair.go();
    let ends = pair.finish();
    let report = recorder.stop();
    report.assert_whole();
    let samples: Vec<TcpSample> = report.rows();
    for conn in [ends.client, ends.server] {
        let kinds = |kind| {
            let of_kind = samples
                .iter()
                .filter(|it| it.conn == conn && it.kind == kind);
            of_kind.count()
        };
        assert_eq!(kinds(SampleKind::Close), 1);
        assert!(limit.is_none() || kinds(SampleKind::Poll) == 0);
    }
    let recording = report.recording();
    let coverage = recording.coverage().iter();
    let why = coverage.filter_map(|it| match &it.state {
        ProbeState::Fallback { why, .. } if it.probe == "tcp_stats.other_netns" => Some(why),
        _ => None,
    });
    assert_eq!(why.collect::<Vec<_>>(), Vec::from_iter(&limit));
}

/// Runs a command with these options: two clients, a child and a grandchild. Returns the ends of their connections and of the
/// server's, by who is recorded: targets and peers.
fn run_two_clients(options: &[&str]) -> RunEnds {
    let site = Site::loopback("cubic");
    let (server, port) = site.serve("reply-server --connections 2");
    let mut other = Pair::start(&site.client);
    let scratch = tempfile::tempdir().expect("a directory");
    let truths = scratch.path().join("truth");
    let one = format!(
        "\"{}\" lab workload request-reply --rounds {ROUNDS} --connect 127.0.0.1:{port}",
        program()
    );
    let script = format!(
        "{one} > '{0}.1' & (({one} > '{0}.2') & wait); wait",
        truths.display()
    );
    let mut command = site.client.command(program());
    command.args(["run", "--as-root", "--output"]);
    command.arg(scratch.path().join("r.whylat"));
    command.args(options);
    command.args(["--", "sh", "-c", &script]);
    other.go();
    finish(&mut command).assert_status(0);
    other.finish();
    let servers = server.finish().expect("truth");
    let clients = [1, 2].map(|n| {
        let text = fs::read_to_string(format!("{}.{n}", truths.display())).expect("truth");
        let truth: Value = serde_json::from_str(&text).expect("JSON");
        number(&truth, "/connections/0/cookie")
    });
    let servers = [0, 1].map(|n| number(&servers, &format!("/connections/{n}/cookie")));
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    RunEnds {
        clients: clients.into(),
        servers: servers.into(),
        targets: chosen(&report, "target"),
        peers: chosen(&report, "peer"),
    }
}

/// Cookies of a recording of two clients.
struct RunEnds {
    clients: BTreeSet<u64>,
    servers: BTreeSet<u64>,
    targets: BTreeSet<u64>,
    peers: BTreeSet<u64>,
}

/// `whylat run` records the command's children and grandchildren, and nobody else if that is asked for.
#[test]
fn children_of_the_command_are_recorded() {
    if !root() {
        return;
    }
    let ends = run_two_clients(&["--follow", "none"]);
    assert_eq!(ends.targets, ends.clients);
    assert_eq!(ends.peers, ends.servers);
}

/// `whylat run` records the processes of this host that serve the command's, too.
#[test]
fn run_records_servers_of_the_command() {
    if !root() {
        return;
    }
    let ends = run_two_clients(&[]);
    assert_eq!(ends.targets, &ends.clients | &ends.servers);
    assert!(ends.peers.is_empty(), "{:?}", ends.peers);
}

/// The server is only the other end of what was asked for: nothing holds either end, so its ledger
/// sleeps, and says so.
#[test]
fn idle_peer_is_not_held_up() {
    const MANY: u64 = 10_007;
    if !root() {
        return;
    }
    let site = Site::loopback("cubic");
    let (server, port) = site.serve("reply-server");
    let rounds = format!("request-reply --rounds {MANY} --start-on-stdin");
    let mut client = site.connect(&rounds, port);
    client.port().expect("connected");
    let recorder = Recorder::start(&format!("-p {}", client.pid()));
    client.go().expect("go");
    client.finish().expect("truth");
    let server = server.finish().expect("truth");
    let report = recorder.stop();
    let peer = number(&server, "/connections/0/cookie");
    let mut readings = report.rows::<TcpStage>().into_iter();
    let last = readings.rfind(|row| row.conn == peer);
    let last = last.expect("the peer's ledger");
    let accounted_ns: u64 = last.stages_ns().iter().map(|(_, ns)| ns).sum();
    assert_eq!(accounted_ns, last.time_ns - last.since_ns);
    assert!(last.asleep_ns > 0, "{last:?}");
    assert!(
        u64::from(last.rtt_samples) < MANY,
        "it was sampled: {last:?}"
    );
    report.assert_claims(peer, &[], &[]);
}
