//! whylat's own diagnosis of a configuration: a run of its own is recorded.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use super::bed::TestBed;
use super::journal::RunDiagnosis;
use super::matrix::RunConfig;
use super::options::RunOptions;
use lab::LabError;
use lab::tie_to_parent;

/// A recording that has not begun by then does not.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);
const HINT: &str = "run: whylat doctor; or leave it out: --no-diagnosis";

/// Records a run, and asks for the server's stages, waits and findings.
///
/// # Errors
/// When it cannot be recorded.
pub(super) fn diagnose(
    bed: &TestBed,
    config: RunConfig,
    how: &RunOptions,
) -> Result<RunDiagnosis, LabError> {
    let not = |why: &str| {
        Ok(RunDiagnosis {
            why_not: Some(why.to_owned()),
            ..RunDiagnosis::default()
        })
    };
    if !bed.is_local() {
        return not("the server is another machine");
    }
    let failed = |why| LabError::os("record", config.variant.name(), why, HINT);
    let scratch = TempDir::new().map_err(failed)?;
    let recording = scratch.path().join("r.whylat");
    let server = bed.serve(config.threads)?;
    let pid = server.pid();
    record_process(bed, pid, scratch.path(), &recording, || {
        bed.ask(config, how).map(drop)
    })?;
    drop(server);
    let report = ask_whylat(bed, &["report"], &recording)?;
    let waits = ask_whylat(bed, &["report", "--by", "object"], &recording)?;
    Ok(summarize_run(&report, &waits, pid))
}

/// Records a process while something happens.
fn record_process(
    bed: &TestBed,
    pid: u32,
    scratch: &Path,
    into: &Path,
    meanwhile: impl FnOnce() -> Result<(), LabError>,
) -> Result<(), LabError> {
    let failed = |why| LabError::os("record", format!("process {pid}"), why, HINT);
    let ready = scratch.join("ready");
    let diagnosis = std::fs::File::create(scratch.join("stderr")).map_err(failed)?;
    let mut recorder = Command::new(bed.program());
    recorder.args(["record", "--detail", "waits", "-p", &pid.to_string()]);
    recorder.arg("--output").arg(into);
    recorder.arg("--ready-file").arg(&ready);
    recorder
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(diagnosis);
    let child = tie_to_parent(&mut recorder).spawn();
    let mut recorder = lab::process::ChildGuard(child.map_err(failed)?);
    let end = Instant::now() + BEGINS_WITHIN;
    while !ready.exists() {
        if Instant::now() > end || recorder.0.try_wait().map_err(failed)?.is_some() {
            let diagnosis = std::fs::read_to_string(scratch.join("stderr")).unwrap_or_default();
            return Err(failed(io::Error::other(diagnosis.trim().to_owned())));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    meanwhile()?;
    let process = Pid::from_raw(i32::try_from(recorder.0.id()).unwrap_or(i32::MAX));
    kill(process, Signal::SIGINT).map_err(|why| failed(why.into()))?;
    recorder.0.wait().map(drop).map_err(failed)
}

/// Runs whylat on a recording; returns its answer as JSON.
fn ask_whylat(bed: &TestBed, words: &[&str], recording: &Path) -> Result<Value, LabError> {
    let mut command = Command::new(bed.program());
    command
        .args(words)
        .args(["--format", "json"].map(OsStr::new));
    let output = command.arg(recording).stderr(Stdio::inherit()).output();
    let name = format!("{command:?}");
    let output = output.map_err(|why| LabError::os("start", &name, why, HINT))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|why| LabError::os("read the answer of", name, io::Error::from(why), HINT))
}

/// Returns the stage, the kind of wait, and the finding that weigh most. The server's first thread, with the number of the
/// process's, only waits for the others, and does not count.
fn summarize_run(report: &Value, waits: &Value, pid: u32) -> RunDiagnosis {
    let connections = report["connections"].as_array().into_iter().flatten();
    let served = connections.filter(|one| one["role"] == "server");
    let stages = served
        .filter_map(|one| one["stages"].as_object())
        .flatten()
        .filter_map(|(name, stage)| Some((name.as_str(), stage["ns"].as_u64()?)));
    let groups = waits["groups"].as_array().into_iter().flatten();
    let waited = groups.filter_map(|group| {
        let threads = group["threads"].as_array()?.iter();
        let served = threads.filter(|thread| thread["tid"].as_u64() != Some(u64::from(pid)));
        let blocked_ns = served.filter_map(|thread| thread["blocked_ns"].as_u64());
        Some((group["kind"].as_str()?, blocked_ns.sum()))
    });
    let (stage, stage_share) = largest_sum(stages).unzip();
    let (wait, wait_share) = largest_sum(waited).unzip();
    let rule = report["findings"][0]["rule"].as_str();
    RunDiagnosis {
        stage,
        stage_share,
        wait,
        wait_share,
        finding: rule.map(str::to_owned),
        why_not: None,
    }
}

/// Returns the name with the largest sum, and its share of all.
fn largest_sum<'a>(parts: impl Iterator<Item = (&'a str, u64)>) -> Option<(String, f64)> {
    let mut sums = std::collections::BTreeMap::<&str, u64>::new();
    for (name, ns) in parts {
        *sums.entry(name).or_default() += ns;
    }
    let all: u64 = sums.values().sum();
    let (name, most) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    (all > 0).then(|| (name.to_owned(), most as f64 / all as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn summary_names_the_longest_stage() {
        let stage = |app: u64, flight: u64| json!({ "role": "server", "stages": { "sender_app": { "ns": app }, "in_flight": { "ns": flight } } });
        let report = json!({
            "connections": [stage(10, 20), stage(50, 20), { "role": "client", "stages": { "nagle": { "ns": 1000 } } }],
            "findings": [{ "rule": "sender_app_limited" }],
        });
        let group = |kind: &str, threads: [(u32, u64); 2]| json!({ "kind": kind, "threads": threads.map(|(tid, ns)| json!({ "tid": tid, "blocked_ns": ns })) });
        let waits = json!({ "groups": [group("futex", [(7, 1000), (8, 1)]), group("connection", [(8, 1), (9, 2)])] });
        let diagnosis = summarize_run(&report, &waits, 7);
        assert_eq!(
            (diagnosis.stage.as_deref(), diagnosis.stage_share),
            (Some("sender_app"), Some(0.6))
        );
        assert_eq!(
            (diagnosis.wait.as_deref(), diagnosis.wait_share),
            (Some("connection"), Some(0.75))
        );
        assert_eq!(diagnosis.finding.as_deref(), Some("sender_app_limited"));
        assert_eq!(
            summarize_run(&json!({}), &json!({}), 7),
            RunDiagnosis::default()
        );
    }
}
