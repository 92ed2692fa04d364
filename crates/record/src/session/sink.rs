//! From captured records to a recording: the flight recorder looks at messages, adapters' stamps are added, rows
//! are completed, and all is stored.

use probe::clock::monotonic_ns;
use probe::hooks::ProbeOutput;
use probe::nic;

use crate::collector::{CaptureSink, WalkShare};
use crate::flight_recorder::FlightRecorder;
use crate::pipeline::RowPipeline;
use crate::watchdog::Watchdog;

/// Takes what a recording captures.
pub(super) struct StoreSink<'a> {
    pub(super) pipeline: RowPipeline,
    /// The flight recorder.
    pub(super) flight_recorder: Option<FlightRecorder<'a>>,
    /// Adapters that stamp what is sent.
    pub(super) stamper: Option<nic::Stamper<'a>>,
    /// The idle priority of the collecting thread.
    pub(super) watchdog: Option<Watchdog>,
}

impl CaptureSink for StoreSink<'_> {
    fn add_output(&mut self, mut output: ProbeOutput) -> bool {
        let watchdog = self.watchdog.as_ref();
        if let Some(flight_recorder) = &mut self.flight_recorder {
            let between = || watchdog.into_iter().for_each(Watchdog::yield_cpu);
            let (received, sent) = (&output.rows.received_messages, &output.rows.sent_messages);
            let windows = flight_recorder.take(received, sent, monotonic_ns(), between);
            self.pipeline.store_added(windows);
        }
        if let Some(stamper) = &mut self.stamper {
            let sent = &mut output.rows.sent_messages;
            *sent = stamper.add_stamps(sent, monotonic_ns());
        }
        let is_raised = self.pipeline.is_new(&output);
        if is_raised {
            self.raise_priority();
        }
        let changed = self.pipeline.store_output(output);
        if is_raised {
            self.note_drained(true);
        }
        if changed {
            // who had a connection that ends may end with it
            self.read_cpu();
        }
        changed
    }

    fn yield_cpu(&self) {
        self.watchdog.iter().for_each(Watchdog::yield_cpu);
    }
}

impl StoreSink<'_> {
    /// Notes whether this thread has emptied the rings.
    pub(super) fn note_drained(&self, caught_up: bool) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.note_drained(caught_up);
        }
    }

    /// Reads who used the CPUs, if that is due.
    pub(super) fn read_cpu(&mut self) {
        let watchdog = self.watchdog.as_ref();
        let between = || watchdog.into_iter().for_each(Watchdog::yield_cpu);
        self.pipeline.read_cpu_if_due(WalkShare::RECORDING, between);
    }

    /// Raises the priority before locks are taken that other programs may need. `/proc/PID/maps`
    /// and the like are read under one of the program itself (`mmap_lock`), hooks attached under
    /// one of the kernel's own text (`text_mutex`). What else is read takes no lock that lets the
    /// CPU go.
    pub(super) fn raise_priority(&self) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.raise_priority();
        }
    }
}
