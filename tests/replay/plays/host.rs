//! Causes on the host and in the program, each with a healthy twin: a log that nobody drains, a disk, a CPU quota, a stopped
//! process, uneven workers. The truth is what the client measured.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::play::{Judge, Outcome, Play};
use crate::shrink::REQUESTS;
use testbed::programs::{PORT, tied, until_listening};
use testbed::report::{Report, number};
use testbed::{Recorder, Site, finish};

/// Serves and asks: see its head.
const HOST: &str = include_str!("../programs/host.py");

/// Control groups of the CPU controller of version 1, and of version 2.
const GROUPS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup", "cpu.max"),
];

pub fn plays() -> Vec<Play> {
    let play = |mode: &'static str, judge: Judge| Play {
        name: format!("host::{mode}"),
        record: Box::new(move || record(mode)),
        judge,
        tables: REQUESTS,
        leaves_out: None,
    };
    vec![
        play("blocked_log", |it| is_named(it, "output_blocked")),
        play("drained_log", |it| is_healthy(it, "output_blocked")),
        play("sync", |it| is_named(it, "disk_wait")),
        play("sync_beside", |it| is_healthy(it, "disk_wait")),
        play("quota", |it| is_named(it, "cpu_quota")),
        play("quota_left", |it| is_healthy(it, "cpu_quota")),
        play("stopped", |it| is_named(it, "process_pause")),
        play("running", |it| is_healthy(it, "process_pause")),
        play("uneven", |it| is_named(it, "uneven_workers")),
        play("even", |it| is_healthy(it, "uneven_workers")),
    ]
}

/// A control group with a CPU quota, which ends with this.
struct QuotaGroup(PathBuf);

impl QuotaGroup {
    /// Puts a process into a new group. `quota_us`: CPU time in each period of 100 ms.
    fn with(pid: u32, quota_us: u32) -> Result<Self, String> {
        let found = GROUPS
            .iter()
            .find(|(root, _)| Path::new(root).join("cgroup.procs").exists());
        let (root, file) = found.ok_or("there is no CPU controller")?;
        let group = Path::new(root).join(format!("whylat-host-{pid}"));
        let write = |name: &str, text: String| {
            std::fs::write(group.join(name), text).map_err(|why| format!("{name}: {why}"))
        };
        std::fs::create_dir(&group).map_err(|why| why.to_string())?;
        write(file, quota_us.to_string())?;
        write("cgroup.procs", pid.to_string())?;
        Ok(Self(group))
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        testbed::until("an empty control group", || {
            std::fs::remove_dir(&self.0).ok()
        });
    }
}

fn record(mode: &str) -> Result<Outcome, String> {
    let netns = Site::loopback("cubic").client.clone();
    let scratch = tempfile::tempdir().expect("a directory");
    let program = scratch.path().join("host.py");
    std::fs::write(&program, HOST).expect("the program");
    let program = format!("python3 {}", program.display());
    let folder = scratch.path().display();
    let server = tied(
        &netns,
        &format!("env -C {folder} {program} serve {mode} {PORT}"),
    );
    until_listening(&netns, PORT);
    let pid = server.0.id();
    let group = match mode {
        "quota" => Some(QuotaGroup::with(pid, 10_000)?),
        "quota_left" => Some(QuotaGroup::with(pid, 190_000)?),
        _ => None,
    };
    let recorder = Recorder::start(&format!("-p {pid}"));
    let mut client = netns.command("sh");
    client.args(["-c", &format!("exec {program} ask {mode} {PORT} {pid}")]);
    let account = finish(&mut client);
    account.assert_status(0);
    let report = recorder.stop();
    drop(server);
    drop(group);
    let truth = serde_json::from_str(&account.out).map_err(|why| why.to_string())?;
    Ok(Outcome { report, truth })
}

/// Returns the findings above info on requests. Neighbours on the machine may take the CPU: that is nobody's plan.
fn problems(report: &Report) -> Vec<&Value> {
    let findings = report.json["findings"].as_array().into_iter().flatten();
    let of_requests = findings.filter(|it| it["subject"]["requests"].is_object());
    let of_program = of_requests.filter(|it| it["rule"] != "cpu_contention");
    of_program.filter(|it| it["severity"] != "info").collect()
}

fn is_named(outcome: &Outcome, rule: &str) {
    let report = &outcome.report;
    report.assert_whole();
    let problems = problems(report);
    let first = problems.first().map(|it| &it["rule"]);
    assert_eq!(first, Some(&Value::from(rule)), "{}", report.brief());
    let finding = problems[0];
    let harm_ns = number(finding, "/harm_ns");
    let total_ns = number(&outcome.truth, "/total_ns");
    assert!(harm_ns <= total_ns, "{harm_ns} of {total_ns}");
}

fn is_healthy(outcome: &Outcome, rule: &str) {
    let report = &outcome.report;
    report.assert_whole();
    let problems = problems(report);
    assert!(
        problems.iter().all(|it| it["rule"] != rule),
        "{}",
        report.brief()
    );
}
