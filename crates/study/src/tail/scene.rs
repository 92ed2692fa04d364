//! A step, set up for real: the server, a busy web server beside it, and their clients, in a network of their own.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use super::steps::{CpuChoice, StudiedServer, StudyStep};
use lab::LabError;
use lab::process::ChildGuard;
use lab::{LabProcess, Netns, tie_to_parent};

/// The web server's processes, and the connections that keep them busy.
const WEB_SERVERS: usize = 12;
const WEB_CONNECTIONS: usize = 24;
const WEB_PORT: u16 = 8080;
/// A page, which is compressed again for every request: milliseconds of CPU time.
const PAGE_BYTES: usize = 200_000;
/// Connections on which latency is measured.
const CONNECTIONS: usize = 8;
/// A server that does not listen by then does not come.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// Text that `whylat record` prints when it has begun.
const RECORDING: &str = "recording to ";
/// No program of the study runs longer, s.
const LIMIT_S: usize = 3_600;

/// Resources that all scenes of a study share: this program, a scratch folder, the CPUs.
pub(super) struct StudyStage {
    /// This program: its workloads are the clients, its recordings the evidence.
    program: PathBuf,
    scratch: TempDir,
    /// CPUs that may be used.
    cpus: Vec<usize>,
}

/// A step that is set up; dropping it ends it.
pub(super) struct ServerScene<'a> {
    stage: &'a StudyStage,
    app: &'a StudiedServer,
    netns: Netns,
    // clients end before what they talk to
    _batches: LabProcess,
    _web: Vec<ChildGuard>,
    server: ChildGuard,
}

impl StudyStage {
    /// Makes the directory and the names of the study.
    ///
    /// # Errors
    /// Where there is one CPU only, or no place for files.
    pub(super) fn new() -> Result<Self, LabError> {
        let program = std::env::current_exe();
        let program = program
            .map_err(|why| LabError::os("find", "this program's file", why, "mount /proc"))?;
        let cpus = lab::workload::allowed_cpus()?;
        if cpus.len() < 2 {
            let why = io::Error::other("there is only one");
            return Err(LabError::os(
                "share",
                "CPUs",
                why,
                "run it where there are two or more",
            ));
        }
        let stage = Self {
            program,
            cpus,
            scratch: TempDir::new().map_err(scratch_failed)?,
        };
        stage.write_pages().map_err(scratch_failed)?;
        Ok(stage)
    }

    /// Writes the pages that the server serves.
    fn write_pages(&self) -> io::Result<()> {
        let root = self.scratch.path();
        // letters in no order: neither the best nor the worst to compress
        let mut random = lab::Random::new(1);
        let mut letter = || b'a' + random.below(26) as u8;
        let page: Vec<u8> = (0..PAGE_BYTES).map(|_| letter()).collect();
        fs::write(root.join("page"), page)?;
        let path = root.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|kind| format!("{kind}_temp_path {path}/{kind};"));
        let configuration = format!(
            "daemon off; master_process off; pid {path}/pid; error_log /dev/null;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log off; {} gzip on; gzip_types *; gzip_comp_level 6;\n\
             server {{ listen 127.0.0.1:{WEB_PORT} reuseport; root {path}; }} }}\n",
            temporary.join(" "),
        );
        fs::write(root.join("nginx.conf"), configuration)
    }

    /// Sets up a step.
    ///
    /// # Errors
    /// Without root, and when a program is missing or does not start.
    pub(super) fn set<'a>(
        &'a self,
        app: &'a StudiedServer,
        step: &StudyStep,
    ) -> Result<ServerScene<'a>, LabError> {
        let netns = Netns::new()?;
        let start = |words: &[&OsStr], cpus| {
            let mut command = self.command_on(words[0], &netns, cpus);
            command.args(&words[1..]).current_dir(self.scratch.path());
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let child = tie_to_parent(&mut command).spawn();
            let name = words[0].to_string_lossy();
            child.map(ChildGuard).map_err(|why| {
                LabError::os(
                    "start",
                    name,
                    why,
                    "apt-get install memcached redis-server nginx wrk",
                )
            })
        };
        let words: Vec<&OsStr> = step.server.iter().map(OsStr::new).collect();
        let server = start(&words, step.server_cpus)?;
        let configuration = self.scratch.path().join("nginx.conf");
        let nginx = ["nginx".as_ref(), "-c".as_ref(), configuration.as_os_str()];
        let web = (0..WEB_SERVERS).map(|_| start(&nginx, step.web_cpus));
        let mut web = web.collect::<Result<Vec<_>, _>>()?;
        wait_for_listener(&netns, WEB_PORT, "nginx")?;
        let wrk = format!(
            "wrk -t1 -c{WEB_CONNECTIONS} -d{LIMIT_S} -HAccept-Encoding:gzip http://127.0.0.1:{WEB_PORT}/page"
        );
        let wrk: Vec<&OsStr> = wrk.split(' ').map(OsStr::new).collect();
        web.push(start(&wrk, step.web_cpus)?);
        wait_for_listener(&netns, app.port, app.name)?;
        let mut batches = self.workload_command(&netns, app, "batches", CpuChoice::First);
        batches.args(step.batches);
        let mut batches = LabProcess::start(batches)?;
        batches.port()?;
        Ok(ServerScene {
            stage: self,
            app,
            netns,
            _batches: batches,
            _web: web,
            server,
        })
    }

    /// Returns a command in the scene's network, on some CPUs.
    fn command_on(&self, program: &OsStr, netns: &Netns, cpus: CpuChoice) -> Command {
        let mut set = CpuSet::new();
        let cpus = match cpus {
            CpuChoice::All => &self.cpus[..],
            CpuChoice::First => &self.cpus[..1],
            CpuChoice::Others => &self.cpus[1..],
        };
        for cpu in cpus {
            // those that a set has no room for were not allowed either
            let _ = set.set(*cpu);
        }
        let mut command = netns.command(program);
        // SAFETY: the closure runs between fork and exec; sched_setaffinity is a plain system call, allocates
        // nothing and takes no lock.
        unsafe { command.pre_exec(move || Ok(sched_setaffinity(Pid::from_raw(0), &set)?)) };
        command
    }

    /// Makes the command of a workload in a namespace.
    fn workload_command(
        &self,
        netns: &Netns,
        app: &StudiedServer,
        role: &str,
        cpus: CpuChoice,
    ) -> Command {
        let mut command = self.command_on(self.program.as_os_str(), netns, cpus);
        command.args(["lab", "workload", role]);
        command.args(["--connect", &format!("127.0.0.1:{}", app.port)]);
        command.args(["--limit-s", &LIMIT_S.to_string()]);
        command
    }

    /// Returns CPUs that may be used.
    pub(super) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Runs `whylat` with these words, and returns its JSON.
    pub(super) fn ask(&self, words: &[&OsStr]) -> Result<Value, LabError> {
        let mut command = Command::new(&self.program);
        let output = command.args(words).stderr(Stdio::inherit()).output();
        let name = format!("{command:?}");
        let output = output.map_err(|why| {
            LabError::os("start", &name, why, "check that the program may be run")
        })?;
        serde_json::from_slice(&output.stdout).map_err(|why| {
            LabError::os(
                "read the answer of",
                name,
                io::Error::from(why),
                "run it by hand",
            )
        })
    }
}

impl ServerScene<'_> {
    /// Returns latencies of so many requests, sent at random times, and how often a CPU was stalled meanwhile, whoever wanted
    /// it: a virtual machine's may, and then nothing here is to blame.
    pub(super) fn measure(&self, requests: usize) -> Result<(Value, u64), LabError> {
        let mut watch = Command::new(&self.stage.program);
        watch.args([
            "lab",
            "workload",
            "pauses",
            "--limit-s",
            &LIMIT_S.to_string(),
        ]);
        let mut watch = LabProcess::start(watch)?;
        watch.line()?;
        let latencies = self.load(requests)?;
        let watched = watch.finish()?;
        let cpus = watched["cpus"].as_array().into_iter().flatten();
        Ok((
            latencies,
            cpus.filter_map(|cpu| cpu["pauses"].as_u64()).sum(),
        ))
    }

    /// Sends requests to the server; returns the latencies.
    fn load(&self, requests: usize) -> Result<Value, LabError> {
        let mut load =
            self.stage
                .workload_command(&self.netns, self.app, "open-loop", CpuChoice::Others);
        load.args(["--realtime", "--server", self.app.name]);
        load.args(["--connections", &CONNECTIONS.to_string()]);
        load.args(["--rate", &self.app.rate.to_string()]);
        load.args(["--requests", &requests.to_string()]);
        LabProcess::start(load)?.finish()
    }

    /// Sends requests to the server while every message of the server is recorded into a file.
    pub(super) fn record(&self, requests: usize, into: &Path) -> Result<(), LabError> {
        let mut recorder = Command::new(&self.stage.program);
        recorder.args([
            "record",
            "--detail",
            "messages",
            "--keep",
            "p99,sample=20",
            "--force",
        ]);
        recorder.arg("-p").arg(self.server.0.id().to_string());
        recorder
            .arg("--output")
            .arg(into)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = tie_to_parent(&mut recorder).spawn();
        let fails = |why| LabError::os("record", self.app.name, why, "run: whylat doctor");
        let mut child = ChildGuard(child.map_err(fails)?);
        let mut output = BufReader::new(
            child
                .0
                .stderr
                .take()
                .ok_or_else(|| fails(io::ErrorKind::NotFound.into()))?,
        );
        let mut line = String::new();
        while !line.starts_with(RECORDING) {
            line.clear();
            if output.read_line(&mut line).map_err(fails)? == 0 {
                return Err(fails(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        // what else it says is read, so that it never waits for a reader
        let rest = thread::spawn(move || io::copy(&mut output, &mut io::sink()));
        let measured = self.load(requests);
        let pid = Pid::from_raw(i32::try_from(child.0.id()).unwrap_or(i32::MAX));
        kill(pid, Signal::SIGINT).map_err(|why| fails(why.into()))?;
        child.0.wait().map_err(fails)?;
        drop(rest.join());
        measured.map(drop)
    }
}

/// Makes the error of a file that cannot be written.
fn scratch_failed(why: io::Error) -> LabError {
    LabError::os(
        "write",
        "the study's files",
        why,
        "check the space in the temporary directory",
    )
}

/// Waits until a port is listened at.
fn wait_for_listener(netns: &Netns, port: u16, name: &str) -> Result<(), LabError> {
    let listens = netns.run(|| wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok()))?;
    listens.map_err(|why| {
        let hint = "apt-get install memcached redis-server nginx wrk, and start it by hand";
        LabError::os("connect to", name, why, hint)
    })
}

/// Waits until a condition holds; an error after a limit.
fn wait_until(condition: impl Fn() -> bool) -> io::Result<()> {
    let end = Instant::now() + LISTENS_WITHIN;
    while !condition() {
        if Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
