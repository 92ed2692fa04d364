//! A recording directory → a diagnosis.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use diagnose::{Evidence, Report, SnapSettings};
use table::Recording;
use table::tables::{
    Call, Connection, CpuSample, Listener, Process, ProcessSample, TcpEvent, TcpSample, TcpStage,
};

/// The newest recording in the current directory.
pub(crate) fn newest() -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(".").context("cannot list the current directory")?;
    let is_recording = |path: &Path| path.extension().is_some_and(|ext| ext == "whylat");
    entries
        .flatten()
        .filter(|entry| is_recording(&entry.path()))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .max()
        .map(|(_, path)| path)
        .ok_or_else(|| {
            anyhow!(
                "no recording (*.whylat) in the current directory\n\
                 hint: make one with `whylat run -- COMMAND`, or name its directory"
            )
        })
}

/// Reads a recording and diagnoses it.
pub(crate) fn diagnose(path: &Path, settings: SnapSettings) -> anyhow::Result<Report> {
    let recording = Recording::open(path)?;
    let mut evidence = Evidence::new(
        recording.header().clone(),
        recording.coverage().to_vec(),
        recording.loss().to_vec(),
        recording.cost().cloned(),
        recording.closed().cloned(),
        Vec::new(),
    )
    .with_snap(settings);
    recording.scan::<Connection>(|rows| evidence.add_connections(&rows));
    recording.scan::<Listener>(|rows| evidence.add_listeners(&rows));
    recording.scan::<Process>(|rows| evidence.add_processes(&rows));
    recording.scan::<ProcessSample>(|rows| evidence.add_process_samples(&rows));
    recording.scan::<CpuSample>(|rows| evidence.add_cpu_samples(&rows));
    recording.scan::<TcpSample>(|rows| evidence.add_samples(&rows));
    recording.scan::<TcpStage>(|rows| evidence.add_stages(&rows));
    recording.scan::<TcpEvent>(|rows| evidence.add_events(&rows));
    recording.scan::<Call>(|rows| evidence.add_calls(&rows));
    for problem in recording.problems() {
        evidence.add_problem(problem.to_string());
    }
    Ok(diagnose::diagnose(evidence))
}
