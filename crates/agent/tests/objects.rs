//! Intervals to object stores: a real S3 server (s3s-fs, which keeps objects as files and checks signatures) and a real HTTP
//! server with PUT (nginx), both started here, on loopback.
//!
//! The shipping agent is a child process, as credentials are taken from the environment.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use table::Columns;
use table::fleet::{FleetDetail, FleetDetails};
use whylat_agent::Interval;
use whylat_agent::config::ShipConfig;

/// Holds the child's task: a directory for its spool, the target, and the intervals.
const DIR: &str = "WHYLAT_AGENT_TEST_SHIP_DIR";
const TARGET: &str = "WHYLAT_AGENT_TEST_TARGET";
const WHAT: &str = "WHYLAT_AGENT_TEST_WHAT";

const KEY_ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY";

/// Makes intervals of every fourth minute of an hour, and two after it.
fn an_hour() -> Vec<Interval> {
    (0..17)
        .map(|number| interval(HOUR_NS + number * 4 * MINUTE_NS, 2))
        .collect()
}

/// An interval with a file that goes in parts: random numbers do not get shorter.
fn a_large_one() -> Interval {
    let mut interval = interval(HOUR_NS + 100 * MINUTE_NS, 0);
    let plain: FleetDetail = row(serde_json::json!({"time_ns": interval.begin_ns}));
    let mut details = FleetDetails::default();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.cast_signed()
    };
    for _ in 0..200_000 {
        details.push(FleetDetail {
            conn_id: next(),
            length_us: next(),
            acked_bytes: next(),
            received_bytes: next(),
            retrans: next(),
            send_queue_bytes: next(),
            unacked_segs: next(),
            ..plain.clone()
        });
    }
    interval.details = details;
    interval
}

/// Run as a child process: ships, and says how that went.
#[test]
fn child_ships() {
    let (Some(dir), Ok(target), Ok(what)) = (
        std::env::var_os(DIR),
        std::env::var(TARGET),
        std::env::var(WHAT),
    ) else {
        return;
    };
    let config = ShipConfig {
        target,
        spool: Path::new(&dir).join("spool"),
        spool_max_bytes: 1 << 30,
    };
    let shipper = start(&config);
    match what.as_str() {
        "hour" => an_hour().into_iter().for_each(|one| put(&shipper, one)),
        "large" => put(&shipper, a_large_one()),
        _ => {}
    }
    let wanted = match what.as_str() {
        "hour" => 17,
        "large" => 1,
        _ => 0,
    };
    until(&shipper, |state| state.stored_intervals == wanted);
    println!("\nstored");
    let state = match what.as_str() {
        "refused" => until(&shipper, |state| state.failures > 1),
        _ => until(&shipper, |state| state.spooled_files == 0),
    };
    println!("\nstate {state:?}");
}

struct Shipping {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Shipping {
    /// Starts a child process that ships to an object store.
    fn begin(dir: &Path, target: &str, what: &str, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "child_ships", "--nocapture", "--test-threads=1"])
            .env(DIR, dir)
            .env(TARGET, target)
            .env(WHAT, what)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start child");
        let output = BufReader::new(child.stdout.take().expect("stdout"));
        Self { child, output }
    }

    /// The rest of the next line that begins so.
    fn line(&mut self, begin: &str) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).expect("child's output") > 0 {
            if let Some(rest) = line.trim().strip_prefix(begin) {
                return rest.to_owned();
            }
            line.clear();
        }
        panic!("the child ended without {begin:?}");
    }

    /// Ends the child; returns its last state.
    fn finish(mut self) -> String {
        let state = self.line("state ");
        assert!(self.child.wait().expect("child").success());
        state
    }
}

impl Drop for Shipping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server, ended with this.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets the kernel kill the process when its parent ends.
fn end_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: prctl is a system call and nothing else, as is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
                .map_err(std::io::Error::from)
        })
    }
}

/// Returns the path of the S3 server that `make agent-s3` installs; `None` if it is missing.
fn s3_server() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = home.map(|home| home.join("bin")).into_iter();
    let mut programs = places
        .chain(std::env::split_paths(&path))
        .map(|place| place.join("s3s-fs"));
    let found = programs.find(|program| program.exists());
    if found.is_none() {
        let is_demanded = std::env::var_os("WHYLAT_DEMAND_S3").is_some();
        assert!(!is_demanded, "there is no s3s-fs, which was demanded");
        println!("skipped: there is no S3 server; `make agent-s3` builds one");
    }
    found
}

/// Starts the S3 server on this port, or any.
fn start_s3(program: &Path, root: &Path, port: u16) -> Server {
    let mut command = Command::new(program);
    command
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        .args(["--access-key", KEY_ID, "--secret-key", SECRET])
        .arg(root)
        .env("RUST_LOG", "s3s_fs=info")
        .env("NO_COLOR", "1")
        .stdout(Stdio::piped());
    let mut child = end_with_parent(&mut command)
        .spawn()
        .expect("start the S3 server");
    let mut output = BufReader::new(child.stdout.take().expect("stdout"));
    let mut line = String::new();
    let port = loop {
        line.clear();
        assert!(
            output.read_line(&mut line).expect("output") > 0,
            "the S3 server has ended"
        );
        if let Some((_, address)) = line.split_once("http://127.0.0.1:") {
            let digits: String = address.chars().take_while(char::is_ascii_digit).collect();
            break digits.parse().expect("a port");
        }
    };
    // it must not block on a pipe that nobody reads
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    Server { child, port }
}

/// Returns the variables that name the S3 server on this port.
fn s3_environment(port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
    ]
}

/// Returns the variables as borrowed texts.
fn borrowed<'a>(environment: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    environment
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

#[test]
fn s3_outage_loses_nothing() {
    let Some(program) = s3_server() else { return };
    let temporary = memory_dir();
    let dir = temporary.path();
    let root = dir.join("objects");
    fs::create_dir_all(root.join("fleet")).expect("bucket");
    let server = start_s3(&program, &root, 0);
    let port = server.port;
    let environment = s3_environment(port);
    drop(server);

    // away from the start on, and killed with all in the spool
    let mut shipping = Shipping::begin(dir, "s3://fleet/data", "hour", &borrowed(&environment));
    shipping.line("stored");
    drop(shipping);
    let refused = [
        borrowed(&environment),
        vec![("AWS_SECRET_ACCESS_KEY", "wrong")],
    ]
    .concat();
    let server = start_s3(&program, &root, port);
    let state = Shipping::begin(dir, "s3://fleet/data", "refused", &refused).finish();
    assert!(state.contains("delivered_files: 0"), "{state}");
    assert!(
        state.contains("SignatureDoesNotMatch") || state.contains("403"),
        "{state}"
    );
    assert!(
        !state.contains("wrong") && !state.contains(SECRET),
        "{state}"
    );

    // the server dies and comes back while files are sent
    let shipping = Shipping::begin(dir, "s3://fleet/data", "rest", &borrowed(&environment));
    let dataset = root.join("fleet/data");
    wait_for(|| files(&dataset).len() > 3);
    drop(server);
    let _server = start_s3(&program, &root, port);
    let state = shipping.finish();
    assert!(state.contains("error: None"), "{state}");
    assert_holds(&dataset, &an_hour());
    assert_eq!(files(&dataset).len(), 5 + 2 * 5);
}

#[test]
fn large_file_uses_multipart_upload() {
    let Some(program) = s3_server() else { return };
    let temporary = memory_dir();
    let dir = temporary.path();
    let root = dir.join("objects");
    fs::create_dir_all(root.join("fleet")).expect("bucket");
    let server = start_s3(&program, &root, 0);
    let environment = s3_environment(server.port);
    let state = Shipping::begin(dir, "s3://fleet", "large", &borrowed(&environment)).finish();
    assert!(state.contains("failures: 0"), "{state}");
    let dataset = root.join("fleet");
    let details: Vec<FleetDetail> = rows::<FleetDetails>(&dataset);
    assert_eq!(details.len(), 200_000);
    let large = files(&dataset)
        .iter()
        .filter_map(|name| dataset.join(name).metadata().ok())
        .map(|file| file.len())
        .max();
    assert!(large > Some(8 << 20), "{large:?}");
}

/// Waits for something that must come.
fn wait_for(is_there: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it did not come");
        std::thread::yield_now();
    }
}

/// Starts nginx with PUT and DELETE below this directory; `None` where there is no such nginx.
fn start_nginx(dir: &Path, root: &Path) -> Option<Server> {
    let about = Command::new("nginx").arg("-V").output().ok()?;
    if !String::from_utf8_lossy(&about.stderr).contains("http_dav_module") {
        println!("skipped: nginx has no module for PUT");
        return None;
    }
    // nginx cannot choose a port by itself; one that was free a moment ago may be taken
    for _ in 0..20 {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
        let port = free.expect("a port").port();
        let config = format!(
            "daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/error.log;\n\
             events {{ }}\n\
             http {{ access_log off; client_body_temp_path {dir}/body; client_max_body_size 64m;\n\
             server {{ listen 127.0.0.1:{port}; root {root};\n\
             location / {{ dav_methods PUT DELETE MKCOL; create_full_put_path on; }} }} }}\n",
            dir = dir.display(),
            root = root.display(),
        );
        let path = dir.join("nginx.conf");
        fs::write(&path, config).expect("configuration");
        let mut command = Command::new("nginx");
        command
            .arg("-c")
            .arg(&path)
            .arg("-e")
            .arg(dir.join("error.log"));
        let mut child = end_with_parent(&mut command).spawn().expect("nginx");
        loop {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Server { child, port });
            }
            if child.try_wait().expect("nginx").is_some() {
                break;
            }
            std::thread::yield_now();
        }
    }
    panic!("nginx does not start");
}

#[test]
fn http_put_receives_all_files() {
    let temporary = memory_dir();
    let dir = temporary.path();
    let root = dir.join("root");
    fs::create_dir_all(root.join("fleet")).expect("root");
    let Some(server) = start_nginx(dir, &root) else {
        return;
    };
    let target = format!("http://127.0.0.1:{}/fleet", server.port);
    let state = Shipping::begin(dir, &target, "hour", &[]).finish();
    assert!(
        state.contains("failures: 0") && state.contains("error: None"),
        "{state}"
    );
    let dataset = root.join("fleet");
    assert_holds(&dataset, &an_hour());
    assert_eq!(files(&dataset).len(), 5 + 2 * 5);
}
