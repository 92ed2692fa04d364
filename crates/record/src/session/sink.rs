//! What a recording makes of what is captured: the flight recorder looks at messages, adapters' stamps are added, rows
//! are completed, and all is stored.

use probe::clock::monotonic_ns;
use probe::hooks::ProbeOutput;
use probe::nic;

use crate::collector::{CaptureSink, WalkShare};
use crate::intake::Intake;
use crate::keep::Keeping;
use crate::oversee::Overseen;

/// Takes what a recording captures.
pub(super) struct StoreSink<'a> {
    pub(super) intake: Intake,
    /// The flight recorder.
    pub(super) keeping: Option<Keeping<'a>>,
    /// Adapters that stamp what is sent.
    pub(super) stamper: Option<nic::Stamper<'a>>,
    /// The collecting thread's place behind the recorded programs.
    pub(super) overseen: Option<Overseen>,
}

impl CaptureSink for StoreSink<'_> {
    fn take(&mut self, mut output: ProbeOutput) -> bool {
        let overseen = self.overseen.as_ref();
        if let Some(keeping) = &mut self.keeping {
            let between = || overseen.into_iter().for_each(Overseen::give_way);
            let (received, sent) = (&output.rows.received_messages, &output.rows.sent_messages);
            let moments = keeping.take(received, sent, monotonic_ns(), between);
            self.intake.put_added(moments);
        }
        if let Some(stamper) = &mut self.stamper {
            let sent = &mut output.rows.sent_messages;
            *sent = stamper.pass(sent, monotonic_ns());
        }
        let hurries = self.intake.is_new(&output);
        if hurries {
            self.hurry();
        }
        let changed = self.intake.put(output);
        if hurries {
            self.looked(true);
        }
        if changed {
            // who had a connection that ends may end with it
            self.read_cpu();
        }
        changed
    }

    fn give_way(&self) {
        self.overseen.iter().for_each(Overseen::give_way);
    }
}

impl StoreSink<'_> {
    /// This thread has looked at the rings; in time, if it has caught up.
    pub(super) fn looked(&self, caught_up: bool) {
        if let Some(overseen) = &self.overseen {
            overseen.looked(caught_up);
        }
    }

    /// Reads who used the CPUs, if that is due.
    pub(super) fn read_cpu(&mut self) {
        let overseen = self.overseen.as_ref();
        let between = || overseen.into_iter().for_each(Overseen::give_way);
        self.intake.read_cpu_if_due(WalkShare::RECORDING, between);
    }

    /// What comes next reads `/proc/PID/maps` and the like, under a lock (`mmap_lock`) that the program itself may
    /// need: no time to give way. What else is read takes no lock that lets the CPU go.
    fn hurry(&self) {
        if let Some(overseen) = &self.overseen {
            overseen.hurry();
        }
    }
}
