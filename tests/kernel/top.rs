//! `whylat top` in a real terminal (tmux), over connections with planted problems: what is on the screen, what keys
//! do, and that the terminal is as it was afterwards. And once, as text for scripts.

use lab::{LabProcess, Netns};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::terminal::Terminal;
use testbed::report::number;
use testbed::{Site, finish, program, role, root, signal_process, until, whylat};

/// Returns a shell script that prints how `whylat top` ended, and whether the terminal is in its usual mode.
fn script(arguments: &str) -> String {
    format!(
        "{} top {arguments}; echo ended $?; stty -a | grep -o ' icanon'; read wait",
        program()
    )
}

/// Two clients with known problems.
struct PlantedClients {
    nagle: LabProcess,
    nagle_port: u16,
    window: LabProcess,
    window_port: u16,
    _servers: (LabProcess, LabProcess),
    _site: Site,
}

impl PlantedClients {
    fn start() -> Self {
        let site = Site::loopback("cubic");
        let (replies, nagle_port) = site.serve("reply-server");
        let (sink, window_port) =
            site.serve("sink --rcvbuf 8192 --read-size 4096 --read-pause-us 20000");
        let nagle = site.connect("write-write-read --rounds 100000", nagle_port);
        let window = site.connect("stream --seconds 30", window_port);
        PlantedClients {
            nagle,
            nagle_port,
            window,
            window_port,
            _servers: (replies, sink),
            _site: site,
        }
    }

    /// Options that watch just the two.
    fn target(&self) -> String {
        format!("-p {},{}", self.nagle.pid(), self.window.pid())
    }
}

#[test]
fn top_shows_planted_stalls_and_advice() {
    if !root() {
        return;
    }
    let planted = PlantedClients::start();
    let (nagle, window) = (
        format!(":{}", planted.nagle_port),
        format!(":{}", planted.window_port),
    );
    let options = format!("--detail calls --interval 0.5 {}", planted.target());
    let terminal = Terminal::run(&script(&options));
    let screen = terminal.shows(&["delayed ack", "recv window", "HELD BY▾", "critical"], &[]);
    let row = |port: &str, held: &str| {
        let ours = |line: &&str| line.contains(port) && line.contains(held);
        assert!(
            screen.lines().any(|line| ours(&line)),
            "{port} {held}:\n{screen}"
        );
    };
    row(&nagle, "delayed ack");
    row(&window, "recv window");

    terminal.press(&["O"]);
    terminal.shows(&["OUT▾"], &[]);
    terminal.press(&["/"]);
    terminal.press(&["-l", &format!("client {nagle}")]);
    terminal.shows(&["filter: client"], &[]);
    terminal.press(&["BSpace", "Escape"]);
    terminal.press(&["/"]);
    terminal.press(&["-l", &nagle]);
    terminal.shows(&[&nagle, "delayed ack"], &[&window]);
    terminal.press(&["Enter", "H", "Enter"]);
    // one connection: history, stages, the finding with its fix
    terminal.shows(
        &["the last 2 min", "stage", "nagle_delayed_ack", "fix "],
        &[],
    );
    terminal.press(&["Enter"]);
    terminal.shows(
        &["critical · nagle_delayed_ack", "evidence"],
        &["the last 2 min"],
    );
    terminal.press(&["q", "q", "Escape"]);
    terminal.shows(&[&nagle, &window], &[]);

    terminal.press(&["p"]);
    terminal.shows(&["PAUSED"], &[]);
    terminal.press(&["p", "Tab"]);
    terminal.shows(&["CONNS", "whylat["], &["PAUSED"]);
    terminal.press(&["Tab"]);
    terminal.shows(&["FINDING", "nagle_delayed_ack"], &[]);
    terminal.press(&["?"]);
    terminal.shows(&["select, or scroll"], &[]);
    terminal.press(&["q", "1"]);
    terminal.ask(&["resize-window", "-x", "130", "-y", "30"]);
    terminal.shows(&["STAGES", "LOCAL", "CWND"], &[]);
    terminal.press(&["q"]);
    terminal.given_back(0);
}

/// Two clients that wait for their replies, and one thread that runs.
#[test]
fn top_shows_waits_of_selected_process() {
    if !root() {
        return;
    }
    let planted = PlantedClients::start();
    let pid = planted.nagle.pid();
    for (detail, shown) in [
        (
            "stats",
            format!("every wait (costs more): whylat record -p {pid}"),
        ),
        ("waits", "all waits that ended in the last".to_owned()),
    ] {
        let options = format!("--detail {detail} --interval 0.5 -p {pid}");
        let terminal = Terminal::run(&script(&options));
        terminal.shows(&["HELD BY▾", &format!("[{pid}]")], &[]);
        terminal.press(&["2", "/"]);
        terminal.press(&["-l", &format!("[{pid}]")]);
        terminal.press(&["Enter", "Enter"]);
        let screen = terminal.shows(&["waits", "TCP connection", "longest", &shown], &[]);
        let ours = |line: &&str| line.contains("TCP connection");
        let line = screen.lines().find(ours).expect("the line");
        let threads: f64 = line
            .split_whitespace()
            .nth(2)
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("no number of threads in {line}"));
        // it waits for its reply nearly all the time: for a delayed ACK, 40 ms
        assert!((0.5..=1.05).contains(&threads), "{screen}");
        terminal.press(&["q", "1", "q"]);
    }
}

/// The `whylat top` that runs in a terminal, by the file that its shell writes.
pub fn top_in(terminal: &Terminal) -> u32 {
    let shell = terminal.ask(&["display-message", "-p", "#{pane_pid}"]);
    let children = format!("/proc/{0}/task/{0}/children", shell.trim());
    until("whylat runs", || {
        let pids = std::fs::read_to_string(&children).ok()?;
        pids.split_whitespace().next()?.parse().ok()
    })
}

#[test]
fn every_signal_restores_terminal() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let mut holder = role(&netns, "reply-server");
    let port = holder.port().expect("port");
    let options = format!("--interval 0.2 --port {port}");
    let terminal = Terminal::run(&script(&options));
    terminal.shows(&["HELD BY"], &[]);
    assert_eq!(terminal.state(), "1 0");
    let pid = top_in(&terminal);
    let status = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let is_stopped = || {
        status()
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.starts_with(" T"))
    };
    for by_key in [false, true] {
        match by_key {
            true => terminal.press(&["C-z"]),
            false => signal_process(pid, Signal::SIGTSTP),
        }
        until("it stops", || is_stopped().then_some(()));
        assert_eq!(terminal.state(), "0 1");
        signal_process(pid, Signal::SIGCONT);
        terminal.shows(&["HELD BY"], &[]);
        assert_eq!(terminal.state(), "1 0");
    }
    signal_process(pid, Signal::SIGTERM);
    terminal.given_back(0);
    let again = Terminal::run(&script(&options));
    again.shows(&["HELD BY"], &[]);
    again.press(&["C-c"]);
    again.given_back(0);
}

#[test]
fn once_json_matches_screen() {
    if !root() {
        return;
    }
    let planted = PlantedClients::start();
    let target = planted.target();
    let output = finish(&mut whylat(&format!(
        "top --once --json --detail calls --interval 1.5 {target}"
    )));
    output.assert_status(0);
    let live: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!(live["schema"], "whylat.top/1");
    let connections = live["connections"].as_array().expect("connections");
    // both ends of both
    assert_eq!(connections.len(), 4, "{live:#}");
    let of = |pid: u32| {
        let found = connections.iter().find(|it| it["process"]["pid"] == pid);
        found.unwrap_or_else(|| panic!("no connection of {pid}: {live:#}"))
    };
    let (nagle, window) = (of(planted.nagle.pid()), of(planted.window.pid()));
    assert_eq!(nagle["held"]["by"], "delayed_ack", "{nagle:#}");
    assert_eq!(window["held"]["by"], "receiver_window", "{window:#}");
    assert!(
        nagle["findings"]
            .as_array()
            .is_some_and(|all| all.contains(&"nagle_delayed_ack".into()))
    );
    assert!(
        window["out_bytes_per_s"]
            .as_f64()
            .is_some_and(|rate| rate > 0.0)
    );
    assert!(number(&live, "/about/cost/cpu_ns") > 0);
    let text = finish(&mut whylat(&format!(
        "top --once --detail calls --interval 0.5 --limit 1 {target}"
    )));
    text.assert_status(0);
    assert!(
        text.out.contains("HELD BY▾") && text.out.contains("3 more"),
        "{}",
        text.out
    );
}

#[test]
fn top_errors_have_hints() {
    finish(&mut whylat("top"))
        .assert_status(1)
        .explains("no terminal");
    finish(&mut whylat("top --json")).assert_status(2);
    finish(&mut whylat("top --once --interval 0")).assert_status(2);
    if !root() {
        return;
    }
    // a user who holds one connection, beside one of root's
    const NOBODY: &str = "65534";
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scratch.path(), open).expect("permissions");
    let copy = scratch.path().join("whylat");
    std::fs::copy(program(), &copy).expect("copy");
    let site = Site::loopback("cubic");
    let (_server, port) = site.serve("reply-server --connections 2");
    let _roots = site.connect("request-reply --rounds 100000 --pause-us 20000", port);
    let copy = copy.to_str().expect("a path");
    let client = format!(
        "lab workload --limit-s 30 request-reply --rounds 100000 --pause-us 20000 --connect 127.0.0.1:{port}"
    );
    let top = "top --once --json --interval 2";
    let run = format!("{copy} {client} >/dev/null & {copy} {top}; ended=$?; kill $!; exit $ended");
    let mut command = site.client.command("setpriv");
    command.args([
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
        "sh",
        "-c",
        &run,
    ]);
    let output = finish(&mut command);
    output.assert_status(0);
    let live: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!(live["about"]["only_own"], true);
    let connections = live["connections"].as_array().expect("connections");
    assert_eq!(connections.len(), 1, "{live:#}");
    assert!(
        connections[0]["remote"]
            .as_str()
            .is_some_and(|end| end.ends_with(&format!(":{port}")))
    );
    assert!(
        connections[0]["out_bytes_per_s"]
            .as_f64()
            .is_some_and(|rate| rate > 0.0),
        "{live:#}"
    );
    let off = live["about"]["coverage"]
        .as_array()
        .expect("coverage")
        .iter();
    assert!(off.filter(|it| it["state"] == "off").any(|it| {
        it["remedy"]
            .as_str()
            .is_some_and(|remedy| remedy.starts_with("run as root: sudo whylat …"))
    }));
}
