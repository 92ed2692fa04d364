//! The end: last readings, detaching, the accounts of all probes, and a closed recording.

use std::process::ExitStatus;

use probe::clock::monotonic_ns;
use probe::hooks::{self, FollowCounts, Hooks};
use probe::{itt, nic, usdt};
use table::RowSet;
use table::manifest::{Coverage, Line, Loss, SocketKind, UsdtProbe};

use super::Session;
use super::outcome::Outcome;
use crate::RecordError;
use crate::account::{
    RowCounts, UserSpaceCounts, count, flight_recorder_losses, losses, nic_loss, program_losses,
};
use crate::flight_recorder::{FlightRecorder, WindowCounts};
use crate::poll::Polls;
use crate::store::RowSink;
use crate::usdt::Usdt;

/// Totals of all probes at the end of a recording; `None`: the probe was off.
struct Totals {
    hooks: hooks::ProbeCounts,
    windows: Option<WindowCounts>,
    stamps: Option<nic::NicCounts>,
    itt: Option<itt::IttCounts>,
    usdt: Option<usdt::UsdtCounts>,
}

impl Totals {
    /// Returns the losses of all probes, from their counts and the stored rows.
    fn losses(
        &self,
        added: &UserSpaceCounts,
        stored: &RowCounts,
        discarded: &RowCounts,
    ) -> Vec<Loss> {
        let mut all = losses(&self.hooks, added, stored, discarded);
        let windows = self.windows.into_iter();
        all.extend(
            windows.flat_map(|counts| flight_recorder_losses(counts, added, stored, discarded)),
        );
        all.extend(self.stamps.map(nic_loss));
        let (itt, usdt) = (self.itt.as_ref(), self.usdt.as_ref());
        all.extend(program_losses(itt, usdt, stored, discarded));
        all
    }
}

impl Session<'_> {
    /// Makes the last readings, detaches, empties the rings, and closes the recording.
    pub(super) fn finish(mut self, status: Option<ExitStatus>) -> Result<Outcome, RecordError> {
        self.detach()?;
        let (totals, usdt) = self.end_probes()?;
        let followed = self.put_follow_coverage();
        self.put_netns_coverage();
        let sockets = self.sockets()?;
        let ended_ns = monotonic_ns();
        let cost = self.overhead.cost(ended_ns);
        let Some((mut writer, mut write_error)) = self.sink.pipeline.store.finish() else {
            return Err(RecordError::Stored {
                path: self.options.output.clone(),
            });
        };
        let path = writer.path().to_owned();
        // rows that could not be sealed are counted, and the end can be written all the same
        write_error = write_error.or(writer.seal().err());
        let losses = totals.losses(
            &self.sink.pipeline.added,
            writer.stored(),
            writer.discarded(),
        );
        let lost = losses.iter().map(Loss::lost_total).sum();
        let mut lines = losses
            .into_iter()
            .map(Line::Loss)
            .chain(usdt.iter().cloned().map(Line::Usdt))
            .chain(sockets.into_iter().map(Line::Sockets))
            .chain(cost.map(Line::Cost));
        let written = lines.try_for_each(|line| writer.line(&line));
        match written.and_then(|()| writer.close(ended_ns)) {
            Ok(closed) => write_error = write_error.or(closed.failures.into_iter().next()),
            Err(error) => write_error = Some(write_error.unwrap_or(error)),
        }
        Ok(Outcome {
            path,
            status,
            lost,
            usdt,
            followed,
            write_error,
        })
    }

    /// Makes the last readings, and detaches from the kernel. Data in the rings is still read.
    fn detach(&mut self) -> Result<(), RecordError> {
        if let Some(windows) = &mut self.windows {
            let closed = windows.close()?;
            self.sink.pipeline.store_added(closed);
        }
        self.drain();
        self.poll()?;
        self.sink.pipeline.read_cpu();
        if let Some(hooks) = self.hooks() {
            hooks.walk()?;
            hooks.detach()?;
            self.usdt.iter().for_each(Usdt::detach);
            hooks.flush()?;
        }
        self.sink.stamper.iter_mut().for_each(nic::Stamper::detach);
        self.drain_all();
        self.read_drops()?;
        self.sink
            .flight_recorder
            .iter_mut()
            .for_each(FlightRecorder::detach);
        Ok(())
    }

    /// Reads the last counts of drops and of network namespaces.
    fn read_drops(&mut self) -> Result<(), RecordError> {
        let mut rows = RowSet::default();
        if let Some(capture) = &self.capture {
            capture
                .hooks()
                .read_drops(&mut self.drops, &mut rows.drop_counts)?;
        }
        self.net_counters.finish(&mut rows.net_counters);
        self.sink.pipeline.store_added(rows);
        Ok(())
    }

    /// Writes the coverage line of followed processes, if the user asked for it.
    fn put_follow_coverage(&mut self) -> Option<FollowCounts> {
        let counts = self.hooks()?.follow_counts()?;
        self.sink.pipeline.put_coverage(counts.coverage());
        Some(counts)
    }

    /// Writes the coverage lines of network namespaces that walks did not reach.
    fn put_netns_coverage(&mut self) {
        let lines = self.hooks().map(|hooks| hooks.unreached_netns().collect());
        let lines: Vec<Coverage> = lines.unwrap_or_default();
        for line in lines {
            self.sink.pipeline.put_coverage(line);
        }
    }

    /// Returns the number of sockets that recorded processes had, by kind.
    fn sockets(&self) -> Result<Vec<SocketKind>, RecordError> {
        let by_hooks = self.hooks().map(Hooks::socket_kinds).transpose()?;
        let by_polls = || self.polls.as_ref().map(Polls::sockets);
        Ok(by_hooks.or_else(by_polls).unwrap_or_default())
    }

    /// Stores the last rows of all probes; returns their counts, and the USDT probes.
    fn end_probes(&mut self) -> Result<(Totals, Vec<UsdtProbe>), RecordError> {
        let stamps = self.sink.stamper.take().map(|mut stamper| {
            self.sink.pipeline.store.store_rows(stamper.finish().into());
            stamper.counts()
        });
        // after the last stamp
        self.sink.pipeline.read_clocks();
        self.sink.pipeline.put_symbols();
        let itt = self.itt_listener.finish(&self.sink.pipeline.store);
        let usdt = self.usdt.as_mut();
        let usdt = usdt
            .map(|usdt| usdt.finish(&mut self.sink.pipeline))
            .transpose()?;
        let (usdt, probes) = usdt.unzip();
        if let Some(polls) = &self.polls {
            self.sink.pipeline.put_coverage(polls.coverage());
        }
        self.sink.pipeline.store_workloads();
        let workloads = self.sink.pipeline.sockets.workload_coverage(true);
        if let Some(coverage) = workloads {
            self.sink.pipeline.put_coverage(coverage);
        }
        let totals = Totals {
            hooks: count(self.hooks(), self.polls.as_ref())?,
            windows: self
                .sink
                .flight_recorder
                .as_ref()
                .map(FlightRecorder::counts),
            stamps,
            itt,
            usdt,
        };
        Ok((totals, probes.unwrap_or_default()))
    }
}
