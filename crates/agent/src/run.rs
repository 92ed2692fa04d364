//! The running agent: what collects and what ships, tied together until a signal ends it. In: a configuration.
//! Out: the dataset, the page for Prometheus, what the collector gets by OTLP, and messages to the service manager.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use probe::clock::{Host, HostError, clock_error_us, monotonic_ns};
use probe::hooks::{Hooks, HooksError, Storage};
use probe::netns::{Netns as Namespace, NetnsError};
use probe::privileges::{Capability, Privileges};
use probe::processes::{self, ProcessReader};
use probe::self_cost::Statistics;
use probe::signals::Signals;
use record::privileges::{PrivilegeError, Privileges as RecorderPrivileges};
use table::fleet::FleetCoverage;

use crate::Interval;
use crate::announce::{self, PaceNews};
use crate::collect::{ConnectionWatcher, Pace, Watch};
use crate::config::{Config, ConfigError, Detail, ShipConfig, WatchConfig, WatchedNetns};
use crate::delivery::Delivery;
use crate::metrics::{Endpoint, EndpointError, LONGEST_WAIT, Liveness, Metrics, Token};
use crate::notify::{LogPriority, ServiceNotifier, say};
use crate::ship::{ShipError, ShipWatch, Shipper, WriterIdentity};
use crate::telemetry::{DeliveryNews, ExportError, PreparedExport, TelemetryExport};

/// How long an agent that is to end goes on trying to deliver; systemd kills it after 90 s.
const PATIENCE: Duration = Duration::from_secs(10);

const NS_PER_MS: u64 = 1_000_000;

/// The reason why an agent could not run, or go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The programs cannot be used.
    #[error("{source}\nhint: {}", source.remedy())]
    Hooks {
        /// Cause.
        #[from]
        source: HooksError,
    },
    /// Its network namespace cannot be read.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The host's facts cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Nothing can be shipped.
    #[error(transparent)]
    Ship(#[from] ShipError),
    /// It would go on with more privileges than it should.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// Nothing can be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// Prometheus cannot ask.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
    /// The ready file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Ready {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Options of the command line with which an agent starts.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// Its configuration, which it reads again on SIGHUP.
    pub config: PathBuf,
    /// Written once everything is watched.
    pub ready_file: Option<PathBuf>,
}

/// Watches connections and ships intervals until SIGTERM or SIGINT.
///
/// # Errors
/// When the agent cannot begin, or its programs cannot be used any more. What goes wrong with the target is none: it is
/// tried again.
pub fn run(start: &StartOptions) -> Result<(), AgentError> {
    let signals = Signals::block().map_err(AgentError::Signals)?;
    restrict_umask();
    let config = Config::read(&start.config)?;
    let rules = config.rules()?;
    let facts = Host::read()?;
    // reads certificates, which may be for root alone
    let export = PreparedExport::new(&config.otlp)?;
    config.check_receivers(&start.config, export.is_some())?;
    let netns = match config.watch.netns {
        WatchedNetns::Host => None,
        WatchedNetns::Own => Some(Namespace::current()?.inode()),
    };
    // a process of its own: before there are threads
    let statistics = Privileges::read().has_capability(Capability::SysAdmin);
    let statistics = statistics.then(Statistics::begin).and_then(Result::ok);
    let reader = processes::sees_all().then(ProcessReader::new);
    let mut storage = Storage::uninit();
    let hooks = Hooks::load_to_watch(&mut storage, netns, detail(config.watch.detail))?;
    hooks.attach()?;
    let writer = WriterIdentity {
        host: config.host.name.clone(),
        boot_id: facts.boot_id.clone(),
    };
    let kernel = facts.kernel.clone();
    let watcher =
        ConnectionWatcher::begin(&hooks, watch(&config), facts, rules, reader, statistics)?;
    // threads that are made from here on have no more
    RecorderPrivileges::for_agent().assume()?;
    let files = config.ship.is_wanted();
    let files = files.then(|| FileShipping::start(&writer, &config.ship));
    let files = files.transpose()?;
    let export = export.map(|it| it.start(&config.host.name, &kernel));
    let export = export.transpose()?;
    let addresses = export.as_ref().map(|it| it.addresses().clone());
    let metrics = Metrics::new();
    // answers as long as it lives
    let _endpoint = Endpoint::start(
        &config.metrics,
        &config.host,
        Token::from_environment(),
        Arc::clone(&metrics),
        files.as_ref().map(|it| it.watch.clone()),
    )?;
    let liveness = Liveness::begin();
    let health = Endpoint::start_health(&config.health, Arc::clone(&liveness))?;
    let mut agent = RunningAgent {
        start,
        liveness,
        health,
        signals,
        config,
        files,
        metrics,
        export_news: DeliveryNews::new(addresses.unwrap_or_default()),
        export,
        notify: ServiceNotifier::from_environment(),
        known_gaps: Vec::new(),
        pace: PaceNews::default(),
    };
    agent.announce(&watcher);
    agent.report_gaps(watcher.gaps());
    agent.notify.ready();
    if let Some(path) = &start.ready_file {
        write_ready(path)?;
    }
    let watched = agent.watch(watcher);
    agent.notify.stopping();
    // what was counted before an error is delivered, too
    agent.end();
    watched
}

/// Files on their way to the target, and the messages about them.
struct FileShipping {
    shipper: Shipper,
    watch: ShipWatch,
    delivery: Delivery,
}

impl FileShipping {
    /// Starts the thread that ships files.
    fn start(writer: &WriterIdentity, config: &ShipConfig) -> Result<Self, ShipError> {
        let shipper = Shipper::start(writer, config)?;
        Ok(Self {
            watch: shipper.watch(),
            delivery: Delivery::new(config),
            shipper,
        })
    }

    /// Prints news of deliveries.
    fn report(&mut self) {
        for (priority, text) in self.delivery.news(&self.watch.state()) {
            say(priority, &text);
        }
    }
}

struct RunningAgent<'a> {
    start: &'a StartOptions,
    liveness: Arc<Liveness>,
    /// The endpoint for supervisors, if there is one.
    health: Option<Endpoint>,
    signals: Signals,
    config: Config,
    /// Files for a target; `None`: the collector alone gets intervals.
    files: Option<FileShipping>,
    metrics: Arc<Metrics>,
    export: Option<TelemetryExport>,
    export_news: DeliveryNews,
    notify: ServiceNotifier,
    /// The gaps that were reported.
    known_gaps: Vec<String>,
    pace: PaceNews,
}

impl RunningAgent<'_> {
    /// Watches connections until a signal ends the agent.
    fn watch(&mut self, mut watcher: ConnectionWatcher<'_>) -> Result<(), AgentError> {
        loop {
            let wait_ms = self.wait_ms(watcher.next_ns());
            let signal = self.signals.wait(wait_ms, Some(watcher.as_fd()));
            match signal.map_err(AgentError::Signals)? {
                Some(Signal::SIGTERM | Signal::SIGINT) => break,
                Some(Signal::SIGHUP) => self.reload(&mut watcher),
                _ => {}
            }
            if let Some(interval) = watcher.tick()? {
                self.deliver_interval(interval);
                self.report_gaps(watcher.gaps());
            }
            if let Some(files) = &mut self.files {
                files.report();
            }
            self.report_export();
            self.notify.alive();
            self.liveness.note(monotonic_ns());
        }
        self.deliver_interval(watcher.finish()?);
        Ok(())
    }

    /// Returns the time until something is due, ms.
    fn wait_ms(&self, next_ns: u64) -> u16 {
        let wait_ns = next_ns.saturating_sub(monotonic_ns());
        let wait_ms = u16::try_from(wait_ns.div_ceil(NS_PER_MS)).unwrap_or(u16::MAX);
        let health = self.health.as_ref().map(|_| LONGEST_WAIT);
        let most = self.notify.watchdog().into_iter().chain(health).min();
        most.map_or(wait_ms, |most| {
            wait_ms.min(u16::try_from(most.as_millis()).unwrap_or(u16::MAX))
        })
    }

    /// Delivers the last intervals, to the target and to the collector at the same time.
    fn end(mut self) {
        let ends = Instant::now() + PATIENCE;
        if let Some(export) = &mut self.export {
            export.end_by(ends);
        }
        if let Some(files) = self.files {
            files.shipper.stop(PATIENCE);
        }
        if let Some(export) = self.export {
            for (priority, text) in self.export_news.last_news(&export.join()) {
                say(priority, &text);
            }
        }
    }

    /// Prints changes of the export's state, and sets the metrics.
    fn report_export(&mut self) {
        let Some(export) = &self.export else {
            return;
        };
        let states = export.states();
        for (priority, text) in self.export_news.news(&states) {
            say(priority, &text);
        }
        self.metrics.telemetry(states);
    }

    /// Gives an interval to files, metrics and telemetry.
    fn deliver_interval(&mut self, interval: Interval) {
        let interval = Arc::new(interval);
        self.report_export();
        self.count(&interval);
        let coverage = &interval.coverage;
        let status = status(coverage, self.files.is_some());
        self.notify.status(&status);
        if let Some((priority, text)) = self.pace.news(&self.config.watch, coverage) {
            say(priority, &text);
        }
        if let Some(files) = &self.files {
            files.shipper.add_interval(interval);
        }
    }

    /// Adds an interval to the metrics; the encoding thread does so if there is one.
    fn count(&self, interval: &Arc<Interval>) {
        let Some(export) = &self.export else {
            return self.metrics.interval(interval);
        };
        if let Some(files) = &self.files {
            self.metrics.shipping(&files.watch.state());
        }
        if !export.add_interval(interval, &self.metrics) {
            // its numbers come with the next interval that is encoded, its findings are lost
            self.metrics.interval(interval);
            self.metrics.note_unencoded();
        }
    }

    /// Prints what is watched, where files go, and what cannot be done.
    fn announce(&self, watcher: &ConnectionWatcher<'_>) {
        let has_clock = clock_error_us().is_some();
        let (connections, detail) = (watcher.connections(), watcher.detail().name());
        for (priority, text) in announce::start(&self.config, connections, detail, has_clock) {
            say(priority, &text);
        }
        for (signal, address) in self.export.iter().flat_map(|it| it.addresses()) {
            say(LogPriority::Info, &announce::export(*signal, address));
        }
    }

    /// Prints the gaps in what the agent sees, when they have changed.
    fn report_gaps(&mut self, gaps: &[String]) {
        let new = gaps.iter().filter(|gap| !self.known_gaps.contains(gap));
        new.for_each(|lack| say(LogPriority::Warning, &format!("cannot see {lack}")));
        self.metrics.set_probes_off(gaps.len());
        self.known_gaps = gaps.to_vec();
    }

    /// Reads the configuration again. If it has an error, the old one stays.
    fn reload(&mut self, watcher: &mut ConnectionWatcher<'_>) {
        self.notify.reloading();
        let taken = self.take_up(watcher);
        self.metrics.note_reload(taken.is_ok());
        match taken {
            Ok(()) => say(LogPriority::Info, "the new configuration is in use"),
            Err(why) => say(
                LogPriority::Error,
                &format!("the old configuration stays in use: {why}"),
            ),
        }
        self.notify.ready();
    }

    /// Reads the configuration again and takes it up; the error says why not.
    fn take_up(&mut self, watcher: &mut ConnectionWatcher<'_>) -> Result<(), String> {
        let config = Config::read(&self.start.config).map_err(|error| error.to_string())?;
        let rules = config.rules().map_err(|error| error.to_string())?;
        if let Some(key) = self.config.needs_restart(&config) {
            return Err(format!(
                "{key} differs, which an agent cannot change while it runs\nhint: restart it"
            ));
        }
        watcher.reconfigure(rules, pace(&config.watch));
        self.config = config;
        Ok(())
    }
}

/// Returns the status for the service manager.
fn status(coverage: &FleetCoverage, has_files: bool) -> String {
    let share = coverage.cpu_us as f64 / coverage.length_us.max(1) as f64;
    let receiver = match has_files {
        true => "",
        false => ", writing no files",
    };
    format!(
        "watching {} connections, {:.1} % of a CPU{receiver}",
        coverage.connections,
        share * 100.0
    )
}

/// Returns how to watch, from the configuration.
fn watch(config: &Config) -> Watch {
    Watch {
        host: config.host.name.clone(),
        interval_ns: i64::from(config.watch.interval_s) * 1_000_000_000,
        pace: pace(&config.watch),
    }
}

/// Returns poll interval and CPU budget, from the configuration.
fn pace(config: &WatchConfig) -> Pace {
    Pace {
        poll_ns: u64::from(config.poll_ms) * NS_PER_MS,
        cpu_low: config.cpu_low,
        cpu_high: config.cpu_high,
    }
}

/// Makes new files of this process unreadable for other users.
fn restrict_umask() {
    let before = umask(Mode::S_IRWXO);
    umask(before | Mode::S_IRWXO);
}

/// Returns the detail of probes, from the configuration.
fn detail(detail: Detail) -> probe::hooks::Detail {
    match detail {
        Detail::Stats => probe::hooks::Detail::Stats,
        Detail::Calls => probe::hooks::Detail::Calls,
    }
}

/// Writes the ready file: the agent watches now.
fn write_ready(path: &Path) -> Result<(), AgentError> {
    let written = std::fs::write(path, std::process::id().to_string());
    written.map_err(|source| AgentError::Ready {
        path: path.to_owned(),
        source,
    })
}
