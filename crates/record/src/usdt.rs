//! Listens to the USDT probes that the user named. They are found before anything is set up: a name
//! that is nowhere ends the recording before it begins.

use std::io;
use std::os::fd::BorrowedFd;

use probe::hooks::Hooks;
use probe::itt::User;
use probe::usdt::{Assembler, Files, Probe, Probes, Storage, UsdtCounts, find};
use table::manifest::{Line, UsdtProbe};

use crate::pipeline::RowPipeline;
use crate::plan::ResolvedTarget;
use crate::store::RowSink;
use crate::{Command, Options, RecordError, Target, launch};

/// Firings taken in one look: a thread that does nothing else fires 3 million times a second, and the
/// loop looks every 5 ms then.
const DRAIN_MOST: usize = 65_536;
/// Firings that count as a batch where the loop judges how busy it is; as many as waits in one
/// (`WAIT_BATCH_LEN`).
const FIRINGS_A_BATCH: usize = 64;

/// Finds the USDT probes in the files that the user named, else in those of the target.
pub(crate) fn find_probes(
    options: &Options,
    plan: &ResolvedTarget,
) -> Result<Vec<Probe>, RecordError> {
    let is_named = |request: &probe::usdt::Request| request.path.is_some();
    let files = match &options.target {
        _ if options.usdt.iter().all(is_named) => Files::default(),
        Target::Command(command) => files_of(command)?,
        _ => Files::from_processes(plan.pids()),
    };
    Ok(find(&options.usdt, &files)?)
}

/// Returns the files in which USDT probes of a command are searched.
fn files_of(command: &Command) -> Result<Files, RecordError> {
    let Some(program) = command.argv.first() else {
        return Ok(Files::default());
    };
    let user = launch::user_of(command)?.map(|user| User {
        uid: user.uid,
        gid: user.gid,
    });
    Files::from_command(program, user)
        .map_err(|source: io::Error| launch::cannot_start(program, source))
}

/// Attaches to the found USDT probes, if there are any and BPF works.
pub(crate) fn attach_usdt<'a>(
    storage: &'a mut Storage,
    hooks: Option<&Hooks<'_>>,
    plan: &ResolvedTarget,
    found: Vec<Probe>,
) -> Result<Option<Probes<'a>>, RecordError> {
    match hooks {
        Some(hooks) if !found.is_empty() => {
            let probes = Probes::attach(storage, hooks, plan.selection(), found)?;
            Ok(Some(probes))
        }
        _ => Ok(None),
    }
}

/// Listens to the probes that were found.
pub(crate) struct Usdt<'a> {
    probes: &'a Probes<'a>,
    assembler: Assembler,
}

impl<'a> Usdt<'a> {
    /// Makes rows of firings of these probes.
    pub(crate) fn new(probes: &'a Probes<'a>) -> Self {
        Self {
            probes,
            assembler: Assembler::new(probes.probes()),
        }
    }

    /// Writes the manifest lines of the USDT probes, for readers of an unfinished recording.
    pub(crate) fn put_probes(&self, pipeline: &RowPipeline) {
        for probe in self.probes.probes() {
            pipeline.store.store_line(Line::Usdt(line(probe, None)));
        }
    }

    /// Stores the firings in the ring; returns the number of batches.
    pub(crate) fn drain(&mut self, pipeline: &mut RowPipeline) -> usize {
        let firings = self.probes.drain(DRAIN_MOST);
        for firing in &firings {
            self.assembler.add_firing(firing);
        }
        pipeline.put_usdt(self.assembler.take_rows());
        firings.len().div_ceil(FIRINGS_A_BATCH)
    }

    /// The BPF program, for measuring its run time.
    pub(crate) fn program(&self) -> BorrowedFd<'a> {
        self.probes.program()
    }

    /// Detaches all probes.
    pub(crate) fn detach(&self) {
        self.probes.detach();
    }

    /// Stores the last rows; returns the counts, and how often each probe fired. The ring must be
    /// empty.
    pub(crate) fn finish(
        &mut self,
        pipeline: &mut RowPipeline,
    ) -> Result<(UsdtCounts, Vec<UsdtProbe>), RecordError> {
        pipeline.put_usdt(self.assembler.finish());
        let fired = self.probes.counts()?;
        let probes = self.probes.probes().iter().zip(&fired);
        let lines = probes.map(|(probe, count)| line(probe, Some(count.fired)));
        Ok((self.assembler.counts(&fired), lines.collect()))
    }
}

/// Makes the manifest's line of a probe; `fired` is None if the count is unknown.
fn line(probe: &Probe, fired: Option<u64>) -> UsdtProbe {
    UsdtProbe {
        provider: probe.provider.clone(),
        name: probe.name.clone(),
        path: probe.path.to_string_lossy().into_owned(),
        places: probe.places as u64,
        fired,
    }
}
