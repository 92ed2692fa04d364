//! Servers of several processes, unchanged, recorded by the process id that users name: the master's. The client and the
//! server behind it know how many connections there were, and how many bytes; all of these are demanded, with the waits of
//! who served them, and nothing of anybody else.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};

use lab::Netns;
use serde_json::Value;
use table::tables::{Call, Process, UnixSocket, Wait};
use table::{Role, WaitObject};
use tempfile::TempDir;

use crate::masters::{
    PORT, Server, TrafficTotals, Upstream, ask, children, until_waited, waiting_processes,
};
use testbed::report::{Report, number};
use testbed::{ChildGuard, CommandOutput, Recorder, finish, program, root, until};

const GUNICORN: &str = include_str!("programs/upstream_app.py");
const NODE: &str = include_str!("programs/cluster.js");
const SHARERS: &str = include_str!("programs/sharers.py");
const PHP: &str = include_str!("programs/answer.php");
const FPM: &str = "
[global]
error_log = fpm_errors
[www]
user = root
listen = php.sock
pm = static
pm.max_children = 2
";
const NGINX: &str = "
daemon off; worker_processes 2; pid nginx.pid; error_log errors; user root;
events { worker_connections 64; }
http {
  access_log off; keepalive_timeout 60; keepalive_requests 1000;
  client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  server { listen 127.0.0.1:PORT; location / { HANDLER; } }
}
";
const TO_UPSTREAM: &str = "proxy_pass http://127.0.0.1:UPSTREAM";
const TO_PHP: &str = "fastcgi_pass unix:DIRECTORY/php.sock; \
    fastcgi_param REQUEST_METHOD GET; fastcgi_param SCRIPT_FILENAME DIRECTORY/answer.php";

/// Until the server answers as a whole, with so many workers. What it is asked for that is over by then.
fn until_serving(netns: &Netns, server: &Server, workers: usize) {
    until("all workers", || {
        (children(server.master).len() == workers).then_some(())
    });
    until("a server that listens", || {
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).map(drop);
        netns.run(connect).expect("the namespace").ok()
    });
    ask(netns, 1, 1);
}

/// The connections that are targets, with this port at one end.
fn targets(report: &Report, local: Option<u16>, remote: Option<u16>) -> Vec<&Value> {
    let found = report.by_ports(local, remote).into_iter();
    found
        .filter(|connection| connection["chosen"] == "target" && connection["opened_ns"].is_u64())
        .collect()
}

fn owners(connections: &[&Value]) -> BTreeSet<u32> {
    let pids = connections.iter().map(|it| number(it, "/process/pid"));
    pids.map(|pid| u32::try_from(pid).expect("a pid")).collect()
}

/// Returns the bytes that calls on these connections moved. Each call must have its blocked time.
fn moved(report: &Report, connections: &[&Value]) -> TrafficTotals {
    let ids: BTreeSet<u64> = connections.iter().map(|it| number(it, "/id")).collect();
    let mut moved = TrafficTotals {
        connections: ids.len() as u64,
        ..TrafficTotals::default()
    };
    for call in report.rows::<Call>() {
        if !ids.contains(&call.conn) {
            continue;
        }
        assert!(call.blocked_ns.is_some(), "{call:?}");
        let bytes = u64::try_from(call.result).unwrap_or(0);
        match call.is_send {
            true => moved.sent += bytes,
            false => moved.received += bytes,
        }
    }
    moved
}

/// As the other side counts it.
fn mirrored(of: TrafficTotals) -> TrafficTotals {
    TrafficTotals {
        connections: of.connections,
        sent: of.received,
        received: of.sent,
    }
}

/// Asks a server that is recorded by a pid, and demands all that it did: with the client, with the upstream, and its waits.
fn check(
    netns: &Netns,
    server: &Server,
    upstream: Upstream,
    pid: u32,
    [connections, requests]: [u64; 2],
) {
    let recorder = Recorder::start(&format!("-p {pid}"));
    let asked = ask(netns, connections, requests);
    let family = server.family();
    let report = recorder.stop();
    let port = upstream.address.port();
    let of_upstream = upstream.finish(netns);
    report.assert_whole();
    let served = targets(&report, Some(PORT), None);
    let behind = targets(&report, None, Some(port));
    assert_eq!(
        moved(&report, &served),
        mirrored(asked),
        "{}",
        report.brief()
    );
    assert_eq!(
        behind.len() as u64,
        connections * requests,
        "{}",
        report.brief()
    );
    let of_upstream = without_one(of_upstream, behind.len() as u64);
    assert_eq!(moved(&report, &behind), mirrored(of_upstream));
    let workers: BTreeSet<u32> = owners(&served).union(&owners(&behind)).copied().collect();
    let waiters = waiting_processes(&report);
    assert!(!workers.contains(&server.master), "{workers:?}");
    assert!(workers.is_subset(&waiters), "{workers:?} of {waiters:?}");
    assert!(waiters.is_subset(&family), "{waiters:?} of {family:?}");
}

/// Without the one connection before the recording (`until_serving`), which was as all others.
fn without_one(all: TrafficTotals, recorded: u64) -> TrafficTotals {
    assert_eq!(all.connections, recorded + 1);
    TrafficTotals {
        connections: recorded,
        sent: all.sent / all.connections * recorded,
        received: all.received / all.connections * recorded,
    }
}

/// Writes a file of the server's, with the ports filled in.
fn configure(directory: &TempDir, name: &str, text: &str, upstream: &Upstream) {
    let text = text
        .replace("UPSTREAM", &upstream.address.port().to_string())
        .replace("PORT", &PORT.to_string());
    std::fs::write(directory.path().join(name), text).expect("write");
}

/// Starts a server of several processes before an upstream, records it by one of them, and checks what is recorded.
fn check_server(
    start: impl Fn(&Netns, &TempDir, &Upstream) -> Server,
    recorded: impl Fn(&Server) -> u32,
    asked: [u64; 2],
) {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let directory = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(&netns);
    let server = start(&netns, &directory, &upstream);
    until_serving(&netns, &server, 2);
    let pid = recorded(&server);
    check(&netns, &server, upstream, pid, asked);
}

fn nginx(netns: &Netns, directory: &TempDir, upstream: &Upstream) -> Server {
    nginx_before(netns, directory, upstream, TO_UPSTREAM)
}

/// Starts nginx, which hands its requests on.
fn nginx_before(netns: &Netns, directory: &TempDir, upstream: &Upstream, handler: &str) -> Server {
    let path = directory.path().to_str().expect("a path");
    let text = NGINX.replace("HANDLER", handler);
    let text = text.replace("DIRECTORY", path);
    configure(directory, "nginx.conf", &text, upstream);
    let conf = format!("{path}/nginx.conf");
    Server::start(netns, directory.path(), &["nginx", "-p", path, "-c", &conf])
}

/// Starts PHP's process manager.
fn php_fpm(netns: &Netns, directory: &TempDir, upstream: &Upstream) -> Server {
    let programs = std::fs::read_dir("/usr/sbin").expect("programs");
    let programs = programs.map(|entry| entry.expect("an entry").path());
    let of_fpm = programs.filter_map(|it| it.to_str().map(str::to_owned));
    let of_fpm = of_fpm.filter(|it| it.starts_with("/usr/sbin/php-fpm"));
    let binary = of_fpm.max().expect("PHP's process manager");
    let path = directory.path().to_str().expect("a path");
    configure(directory, "answer.php", PHP, upstream);
    configure(directory, "fpm.conf", FPM, upstream);
    let words = [&binary, "-n", "-F", "-R", "-p", path, "-y", "fpm.conf"];
    Server::start(netns, directory.path(), &words)
}

fn gunicorn(netns: &Netns, directory: &TempDir, upstream: &Upstream) -> Server {
    configure(directory, "upstream_app.py", GUNICORN, upstream);
    let bind = format!("127.0.0.1:{PORT}");
    let words = ["gunicorn", "-w", "2", "-b", &bind, "upstream_app:answer"];
    Server::start(netns, directory.path(), &words)
}

fn node_cluster(netns: &Netns, directory: &TempDir, upstream: &Upstream) -> Server {
    configure(directory, "cluster.js", NODE, upstream);
    Server::start(netns, directory.path(), &["node", "cluster.js"])
}

#[test]
fn nginx_is_recorded_by_master_pid() {
    check_server(nginx, |server| server.master, [7, 13]);
}

#[test]
fn nginx_is_recorded_by_worker_pid() {
    check_server(nginx, |server| children(server.master)[0], [7, 13]);
}

#[test]
fn gunicorn_is_recorded_by_master_pid() {
    check_server(gunicorn, |server| server.master, [19, 1]);
}

#[test]
fn node_cluster_is_recorded_by_primary_pid() {
    check_server(node_cluster, |server| server.master, [19, 1]);
}

/// nginx asks it over a UNIX socket, as is usual; a script asks the server behind.
#[test]
fn php_fpm_by_master_pid() {
    const ASKED: [u64; 2] = [5, 7];
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let directory = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(&netns);
    let server = php_fpm(&netns, &directory, &upstream);
    let path = directory.path().join("php.sock");
    until("PHP that listens", || path.exists().then_some(()));
    let proxy = nginx_before(&netns, &directory, &upstream, TO_PHP);
    until_serving(&netns, &proxy, 2);
    let recorder = Recorder::start(&format!("-p {}", server.master));
    ask(&netns, ASKED[0], ASKED[1]);
    let family = server.family();
    let report = recorder.stop();
    let port = upstream.address.port();
    let of_upstream = upstream.finish(&netns);
    report.assert_whole();
    let requests = ASKED[0] * ASKED[1];
    let behind = targets(&report, None, Some(port));
    assert_eq!(behind.len() as u64, requests, "{}", report.brief());
    let of_upstream = without_one(of_upstream, requests);
    assert_eq!(moved(&report, &behind), mirrored(of_upstream));
    assert!(report.by_ports(Some(PORT), None).is_empty());
    // each request of nginx is a connection
    let path = path.to_str().expect("a path");
    let sockets = report.rows::<UnixSocket>().into_iter();
    let asked: Vec<UnixSocket> = sockets
        .filter(|it| it.path.as_deref() == Some(path))
        .collect();
    assert_eq!(asked.len() as u64, requests, "{asked:?}");
    let calls: Vec<Call> = report.rows();
    for socket in &asked {
        assert_eq!(socket.role, Role::Server, "{socket:?}");
        for is_send in [false, true] {
            let is_one = |it: &&Call| it.conn == socket.conn && it.is_send == is_send;
            let bytes = calls.iter().filter(is_one).map(|it| it.result).max();
            assert!(bytes > Some(0), "{socket:?}");
        }
    }
    let workers: BTreeSet<u32> = asked.iter().filter_map(|it| it.pid).collect();
    assert_eq!(workers, owners(&behind));
    let waiters = waiting_processes(&report);
    assert!(workers.is_subset(&waiters), "{workers:?} of {waiters:?}");
    assert!(waiters.is_subset(&family), "{waiters:?} of {family:?}");
}

/// A database in this directory, which is the server's own.
struct Postgres {
    binaries: String,
    directory: TempDir,
}

const AS_POSTGRES: [&str; 4] = [
    "setpriv",
    "--reuid=postgres",
    "--regid=postgres",
    "--clear-groups",
];

impl Postgres {
    fn new() -> Self {
        let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL");
        let versions = versions.map(|entry| entry.expect("an entry").path().join("bin"));
        let binaries = versions.max().expect("a version").display().to_string();
        let directory = tempfile::tempdir().expect("a directory");
        let user = nix::unistd::User::from_name("postgres").expect("users");
        let user = user.expect("the user of PostgreSQL");
        let owned = nix::unistd::chown(directory.path(), Some(user.uid), Some(user.gid));
        owned.expect("its directory");
        let postgres = Postgres {
            binaries,
            directory,
        };
        let mut init = Command::new(AS_POSTGRES[0]);
        init.args(&AS_POSTGRES[1..])
            .arg(format!("{}/initdb", postgres.binaries))
            .args(["-A", "trust", "-N", "-D", "data"])
            .current_dir(postgres.directory.path());
        finish(&mut init).assert_status(0);
        postgres
    }

    fn start(&self, netns: &Netns) -> Server {
        let program = format!("{}/postgres", self.binaries);
        let path = self.directory.path().to_str().expect("a path");
        let port = PORT.to_string();
        let mut words = AS_POSTGRES.to_vec();
        words.extend([&program, "-D", "data", "-p", &port, "-k", path]);
        words.extend(["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1"]);
        let server = Server::start(netns, self.directory.path(), &words);
        until("a database that answers", || {
            (self.sql(netns, "SELECT 1").code == Some(0)).then_some(())
        });
        server
    }

    /// One session, with one statement.
    fn sql(&self, netns: &Netns, statement: &str) -> CommandOutput {
        finish(self.psql(netns, "postgres").args(["-c", statement]))
    }

    fn psql(&self, netns: &Netns, database: &str) -> Command {
        let mut psql = netns.command(format!("{}/psql", self.binaries));
        let port = PORT.to_string();
        psql.args(["-X", "-t", "-A", "-h", "127.0.0.1", "-p", &port])
            .args(["-U", "postgres", database]);
        psql
    }
}

/// Returns the command line of a process, which PostgreSQL uses as a title.
fn title(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// A session that takes statements from its standard input.
struct Session(ChildGuard);

impl Session {
    /// In a database in which nobody else is, until the server waits for what it says.
    fn start(netns: &Netns, postgres: &Postgres, server: &Server) -> Self {
        const DATABASE: &str = "template1";
        let session = ChildGuard::start_talking(&mut postgres.psql(netns, DATABASE));
        let titles = || children(server.master).into_iter().map(title);
        until("the session's process", || {
            titles()
                .any(|title| title.contains(DATABASE) && title.contains("idle"))
                .then_some(())
        });
        Session(session)
    }

    /// Sends one statement, and ends; returns what the session printed.
    fn finish(mut self, statement: &str) -> String {
        let mut stdin = self.0.0.stdin.take().expect("its input");
        stdin.write_all(statement.as_bytes()).expect("write");
        drop(stdin);
        let mut printed = String::new();
        let mut stdout = self.0.0.stdout.take().expect("its output");
        stdout.read_to_string(&mut printed).expect("read");
        printed
    }
}

/// Each session has its server ask another session of the same one: by dblink, which connects as any client does.
#[test]
fn postgresql_is_recorded_by_postmaster_pid() {
    const SESSIONS: usize = 5;
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let postgres = Postgres::new();
    let server = postgres.start(&netns);
    let install = "CREATE EXTENSION dblink";
    postgres.sql(&netns, install).assert_status(0);
    let early = Session::start(&netns, &postgres, &server);
    let recorder = Recorder::start(&format!("-p {}", server.master));
    // long enough that who asks waits for the answer
    let statement = format!(
        "SELECT a FROM dblink('host=127.0.0.1 port={PORT} user=postgres dbname=postgres', \
         'SELECT 42 FROM pg_sleep(0.2)') AS t(a int)"
    );
    for _ in 0..SESSIONS {
        let output = postgres.sql(&netns, &statement);
        assert_eq!(output.assert_status(0).out, "42\n");
    }
    let printed = early.finish(&format!("{install};\n{statement};\n"));
    assert_eq!(printed, "CREATE EXTENSION\n42\n");
    let report = recorder.stop();
    report.assert_whole();
    let served = targets(&report, Some(PORT), None);
    let behind = targets(&report, None, Some(PORT));
    // what the early one asked came to a new process; its own was there before
    let early = 1;
    assert_eq!(served.len(), 2 * SESSIONS + early);
    assert_eq!(behind.len(), SESSIONS + early);
    // a process for each session, and a wait of each that asked another
    let (sessions, asking) = (owners(&served), owners(&behind));
    assert_eq!((sessions.len(), asking.len()), (served.len(), behind.len()));
    assert_eq!(asking.difference(&sessions).count(), early);
    let waiters = waiting_processes(&report);
    assert!(asking.is_subset(&waiters), "{asking:?} of {waiters:?}");
    let comms: BTreeSet<_> = waiters.iter().map(|pid| comm_of(&report, *pid)).collect();
    assert_eq!(comms, BTreeSet::from(["postgres".to_owned()]));
    let (here, there) = (moved(&report, &served), moved(&report, &behind));
    assert!(here.sent > 0 && there.received > 0, "{here:?} {there:?}");
}

fn comm_of(report: &Report, pid: u32) -> String {
    let rows = report.rows::<Process>();
    let found = rows.into_iter().rfind(|row| row.pid == pid);
    found.map(|row| row.comm).unwrap_or_default()
}

/// Processes that are no relatives of the one that is named, and listen at the same socket: recorded, with a child that one
/// of them had before. Their parent holds the socket, too, if it is a service manager, and is not recorded.
#[track_caller]
fn check_sharers(parent: &str) {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("sharers.py"), SHARERS).expect("write");
    let port = PORT.to_string();
    let words = ["python3", "sharers.py", &port, parent];
    let server = Server::start(&netns, directory.path(), &words);
    let (alone, sharer, child) = until("all processes", || {
        let [alone, sharer] = children(server.master)[..] else {
            return None;
        };
        let [child] = children(sharer)[..] else {
            return None;
        };
        directory.path().join("ready").exists().then_some(())?;
        Some((alone, sharer, child))
    });
    let recorder = Recorder::start(&format!("-p {alone}"));
    for pid in [alone, sharer, child, server.master] {
        until_waited(pid);
    }
    let report = recorder.stop();
    report.assert_whole();
    assert_eq!(
        waiting_processes(&report),
        BTreeSet::from([alone, sharer, child])
    );
}

#[test]
fn processes_that_share_a_listening_socket_are_recorded() {
    check_sharers("closes");
}

#[test]
fn service_manager_is_not_selected() {
    check_sharers("systemd");
}

/// `whylat run` follows a process after its parent ended, which makes it a child of init: it descends from the command.
#[test]
fn orphaned_children_of_the_command_are_recorded() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let scratch = tempfile::tempdir().expect("a directory");
    // A thread that is preempted on its way into a sleep may find that it is over, and another wait may come in its
    // time: the kernel counts how often the thread left the CPU in each. So often it waited at most, and at least once, but
    // for one that may end while the agent of a sandbox is the current task: that passes no hook.
    let sleeper = "python3 -c 'import time, os, resource\nprint(os.getpid(), flush=True)\n\
                   waits = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw\n\
                   for _ in range(5):\n\
                   \tbefore, begin = waits(), time.monotonic_ns()\n\
                   \ttime.sleep(0.01)\n\
                   \tprint(begin, time.monotonic_ns(), waits() - before)'";
    // the inner shell ends at once; the process that it started reports when it has seen that
    let script = format!(
        "mkfifo '{0}/left' '{0}/over'; \
         ( ( read _ < '{0}/left'; {sleeper} > '{0}/printed'; echo > '{0}/over' ) & ); \
         echo > '{0}/left'; read _ < '{0}/over'",
        scratch.path().display()
    );
    let mut command = netns.command(program());
    command.args(["run", "--as-root", "--output"]);
    command.arg(scratch.path().join("r.whylat"));
    command
        .args(["--", "sh", "-c", &script])
        .stdin(Stdio::null());
    finish(&mut command).assert_status(0);
    let printed = std::fs::read_to_string(scratch.path().join("printed")).expect("what it printed");
    let mut numbers = printed.split_whitespace().map(|it| it.parse::<u64>());
    let mut next = || numbers.next().map(|it| it.expect("a number"));
    let pid = next().expect("a process id");
    let sleeps = std::iter::from_fn(|| Some((next()?..=next()?, next()?)));
    let sleeps: Vec<_> = sleeps.collect();
    assert_eq!(sleeps.len(), 5, "{printed}");
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let mut waits: Vec<Wait> = report.rows();
    waits.retain(|it| u64::from(it.pid) == pid);
    let waited = |span: &RangeInclusive<u64>| {
        let rows = waits.iter().filter(|it| span.contains(&it.end_ns));
        rows.count() as u64
    };
    for (span, switches) in &sleeps {
        assert!(waited(span) <= *switches, "{span:?}: {waits:#?}");
    }
    let unseen = sleeps
        .iter()
        .filter(|(span, switches)| *switches > 0 && waited(span) == 0);
    assert!(unseen.count() <= 1, "{sleeps:?}: {waits:#?}");
    assert!(
        waits.iter().any(|it| it.kind == WaitObject::Sleep),
        "{waits:#?}"
    );
}
