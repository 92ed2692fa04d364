//! From what the user asked for to a session: probes attached, the recording begun.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use nix::unistd::User;
use probe::clock::{Host, monotonic_ns};
use probe::drops::DropReader;
use probe::hooks::{Hooks, Storage};
use probe::net_counters::NetCounterReader;
use probe::processes::ProcessReader;
use probe::self_cost::{BpfTimeError, Statistics};
use probe::signals::Signals;
use probe::tcp_stats::PollTimes;
use probe::{activity, nic, usdt};
use table::manifest::ProbeState;
use table::{WriteOptions, Writer};

use super::pace::Pace;
use super::sink::StoreSink;
use super::{Outcome, Session};
use crate::budget::WindowKeeper;
use crate::collector::{Collector, WalkShare};
use crate::flight_recorder;
use crate::itt_listener::IttListener;
use crate::overhead::OverheadMeter;
use crate::pipeline::RowPipeline;
use crate::plan::{DataSources, header, is_in_proc, open_sources, pid_coverage, resolve_target};
use crate::poll::Polls;
use crate::privileges::{Privileges, RecordingTasks};
use crate::snapshot::SnapshotListener;
use crate::store::Store;
use crate::usdt::{Usdt, attach_usdt, find_probes};
use crate::{Options, RecordError, Target, launch};

/// Facts that are printed when a recording begins.
#[derive(Debug, Clone, Copy)]
pub struct RecordingStart {
    /// Processes; of a command none has started. `None`: without hooks only their sockets are known.
    pub processes: Option<usize>,
}

/// Makes a recording; returns when the command has ended, the time is over or a signal came. Calls `begun` once
/// everything is attached, and privileges are given up.
///
/// # Errors
/// When the target does not exist, nothing can be recorded, or the directory cannot be made.
/// Probes that this host does not allow are no error but coverage.
pub fn record(
    options: &Options,
    begun: impl FnOnce(RecordingStart),
) -> Result<Outcome, RecordError> {
    let signals = Signals::block().map_err(RecordError::Signals)?;
    let plan = resolve_target(&options.target, options.follow)?;
    let found = find_probes(options, &plan)?;
    let is_usdt = !found.is_empty();
    let (itt_listener, itt_coverage) = IttListener::begin(options)?;
    // without it the cost of BPF programs is not known, which is no reason not to record
    let statistics = Statistics::begin().ok();
    let host = Host::read()?;
    let reader = ProcessReader::new();
    let mut storage = Storage::uninit();
    let DataSources {
        hooks,
        polls,
        mut coverage,
        processes,
        run_ns,
        attach_ns,
    } = open_sources(
        &mut storage,
        &options.target,
        &plan,
        options.detail,
        (is_usdt, options.budget.is_some()),
    )?;
    // the load of the programs before it takes up to seconds
    let host = host.at(attach_ns);
    let mut usdt_storage = usdt::Storage::uninit();
    let probes = attach_usdt(&mut usdt_storage, hooks.as_ref(), &plan, found)?;
    coverage.extend(probes.as_ref().map(|_| usdt::coverage_with(ProbeState::On)));
    let mut flight_storage = activity::Storage::uninit();
    let (flight_recorder, flight_coverage) =
        flight_recorder::begin(&mut flight_storage, options.keep);
    coverage.extend(flight_coverage);
    let capture = hooks
        .as_ref()
        .map(|hooks| Collector::new(hooks, WalkShare::RECORDING))
        .transpose()?;
    let mean_ns = u64::try_from(options.poll_mean.as_nanos()).unwrap_or(u64::MAX);
    coverage.extend(polls.as_ref().map(Polls::coverage));
    coverage.extend(itt_coverage);
    let seed = host.now_ns ^ u64::from(std::process::id());
    // one who has no name any more gets nothing
    let user = launch::invoking_user().ok().flatten();
    let store = begin_store(options, &host, user.as_ref())?;
    let mut pipeline = RowPipeline::new(store, is_in_proc(hooks.as_ref()).then_some(reader));
    pipeline.read_python(hooks.as_ref());
    pipeline.record_code(hooks.as_ref());
    // before the first stamp
    pipeline.read_clocks();
    let mut nic_storage = nic::Storage::uninit();
    let stamper = hooks
        .as_ref()
        .map(|hooks| nic::Stamper::begin(&mut nic_storage, hooks, options.nic_stamps));
    let (stamper, nic_coverage) = stamper.unwrap_or_default();
    coverage.extend(nic_coverage);
    coverage.push(pipeline.cpu.coverage());
    coverage.extend(pid_coverage());
    coverage.extend_from_slice(pipeline.clocks.coverage());
    let tasks = RecordingTasks {
        detail: hooks.as_ref().map(|_| options.detail),
        polls: polls.is_some(),
        stamps: stamper.is_some(),
        command: matches!(options.target, Target::Command(_)),
    };
    for entry in coverage {
        pipeline.put_coverage(entry);
    }
    let usdt = probes.as_ref().map(Usdt::new);
    if let Some(usdt) = &usdt {
        usdt.put_probes(&pipeline);
    }
    let flight = flight_recorder
        .as_ref()
        .map(|flight_recorder| flight_recorder.flight().programs());
    let others = usdt.as_ref().map(Usdt::program).into_iter();
    let others = others.chain(stamper.as_ref().map(nic::Stamper::program));
    let others = others.chain(flight.into_iter().flatten());
    let windows = begin_windows(options, hooks.as_ref().zip(run_ns), statistics.clone())?;
    let overhead = overhead(hooks.as_ref(), others, statistics);
    let session = Session {
        options,
        tasks,
        user,
        signals,
        capture,
        polls,
        poll_times: PollTimes::new(seed, mean_ns, host.now_ns),
        snapshots: flight_recorder
            .as_ref()
            .and_then(|_| SnapshotListener::listen().ok()),
        sink: StoreSink {
            pipeline,
            flight_recorder,
            stamper,
            watchdog: None,
        },
        itt_listener,
        usdt,
        drops: DropReader::default(),
        net_counters: NetCounterReader::begin(),
        overhead,
        windows,
        pace: Pace::default(),
        next_cost_ns: 0,
    };
    session.run(|| begun(RecordingStart { processes }))
}

/// Begins to open windows within the budget, if the user gave one.
fn begin_windows<'a>(
    options: &Options,
    hooks: Option<(&'a Hooks<'a>, f64)>,
    statistics: Option<Statistics>,
) -> Result<Option<WindowKeeper<'a>>, RecordError> {
    let Some((budget, (hooks, run_ns))) = options.budget.zip(hooks) else {
        return Ok(None);
    };
    let none = || RecordError::Budget(BpfTimeError::Enable(io::ErrorKind::NotConnected.into()));
    let statistics = statistics.ok_or_else(none)?;
    WindowKeeper::new(hooks, statistics, budget, run_ns).map(Some)
}

/// Begins to measure whylat's own cost; `others`: programs beside those of the hooks.
fn overhead<'a>(
    hooks: Option<&'a Hooks<'_>>,
    others: impl Iterator<Item = BorrowedFd<'a>>,
    statistics: Option<Statistics>,
) -> OverheadMeter {
    let started_ns = monotonic_ns();
    let overhead = OverheadMeter::begin(started_ns);
    let bpf_time = hooks.and_then(|hooks| hooks.run_time(started_ns, others).ok());
    overhead.with_programs(bpf_time.map(|it| it.with_statistics(statistics)))
}

/// The store of a new recording. When it cannot begin, nothing of the recording is left behind.
fn begin_store(options: &Options, host: &Host, user: Option<&User>) -> Result<Store, RecordError> {
    let storing = Privileges::for_storing(user)?;
    let write = WriteOptions {
        force: options.force,
        ..WriteOptions::default()
    };
    let writer = Writer::create(&options.output, &header(host, options), write)?;
    let path = writer.path().to_owned();
    let given = user.map(|user| writer.give_to(user.uid.as_raw(), user.gid.as_raw()));
    let begun = given.transpose().map_err(RecordError::from);
    let begun = begun.and_then(|_| Ok(Store::start(writer, storing)?));
    begun.inspect_err(|_| discard(&path))
}

/// Removes a recording that has only the first lines of its manifest.
pub(super) fn discard(path: &Path) {
    // the error that led here is the one to report
    let _ = std::fs::remove_dir_all(path);
}
