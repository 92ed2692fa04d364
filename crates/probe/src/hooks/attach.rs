//! Attaching and detaching what is loaded.

use std::os::fd::{IntoRawFd, OwnedFd};

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, ProgramMut, ProgramType};

use super::Hooks;
use super::iterate::read_iterator;
use crate::interface::HooksError;

impl Hooks<'_> {
    /// Attaches every loaded program; those of windows, too, until the first one has ended. Sockets that are open already are
    /// found by [`walk`](Self::walk).
    pub fn attach(&self) -> Result<(), HooksError> {
        let p = &self.skel.progs;
        let mut attached = self.attached.take();
        for program in self.skel.object().progs_mut() {
            if let Some(hook) = hook(&program).filter(|hook| !self.of_windows.has(hook)) {
                let link = program.attach();
                attached
                    .hooks
                    .push(link.map_err(HooksError::attach(&hook))?);
            }
        }
        attached.of_windows = self.attach_of_windows()?;
        for clock in &self.clocks {
            attached.hooks.push(start_clock(&p.sample_cpu, clock)?);
        }
        let walk = p
            .walk_task_files
            .attach()
            .map_err(HooksError::attach("walk_task_files"))?;
        attached.walk = Some(walk);
        if p.walk_subflows.autoload() {
            let subflows = p.walk_subflows.attach();
            attached.subflows = Some(subflows.map_err(HooksError::attach("walk_subflows"))?);
        }
        let maps = &self.skel.maps;
        let over = |map: &dyn MapCore, program: &ProgramMut<'_>, name| {
            let link = program.attach_iter(map.as_fd());
            link.map_err(HooksError::attach(name))
        };
        attached.sockets = Some(match self.levels.summaries {
            false => over(&maps.sockets, &p.read_sockets, "read_sockets")?,
            true => over(&maps.sockets, &p.read_watched, "read_watched")?,
        });
        if self.levels.active {
            let active = over(&maps.active_sockets, &p.read_active, "read_active")?;
            attached.active = Some(active);
        }
        if self.levels.keeps_ledger() {
            let draining = over(&maps.sockets, &p.read_draining, "read_draining")?;
            attached.draining = Some(draining);
        }
        if p.read_sending.autoload() {
            let sending = over(&maps.send_streams, &p.read_sending, "read_sending")?;
            attached.sending = Some(sending);
        }
        if p.read_udp.autoload() {
            let udp = over(&maps.udp_sockets, &p.read_udp, "read_udp")?;
            attached.udp = Some(udp);
        }
        if p.read_zerocopy.autoload() {
            let zerocopy = over(&maps.zerocopy_sockets, &p.read_zerocopy, "read_zerocopy")?;
            attached.zerocopy = Some(zerocopy);
        }
        if p.read_zerocopy_uring.autoload() {
            let (map, program) = (&maps.zerocopy_by_uring, &p.read_zerocopy_uring);
            attached.zerocopy_uring = Some(over(map, program, "read_zerocopy_uring")?);
        }
        if p.read_preemptions.autoload() {
            let preemptions = p.read_preemptions.attach();
            attached.preemptions =
                Some(preemptions.map_err(HooksError::attach("read_preemptions"))?);
        }
        self.attached.replace(attached);
        Ok(())
    }

    /// Detaches every program, and has those messages handed over that are not acknowledged yet, and the sums of short
    /// preemptions. Records that are on their way can still be drained.
    pub fn detach(&self) -> Result<(), HooksError> {
        let mut attached = self.attached.take();
        attached.of_windows.clear();
        // Those attached first go last: a thread that exits while they go is still seen to exit.
        while attached.hooks.pop().is_some() {}
        let read = [
            read_iterator(attached.preemptions.as_ref(), "preempted threads"),
            read_iterator(attached.udp.as_ref(), "UDP sockets"),
            read_iterator(attached.zerocopy.as_ref(), "zero-copy sends"),
            read_iterator(
                attached.zerocopy_uring.as_ref(),
                "zero-copy sends of io_uring",
            ),
            read_iterator(attached.sending.as_ref(), "sent messages"),
        ];
        read.into_iter().collect()
    }
}

/// Returns the hook of a program; `None` if others attach or run it.
pub(super) fn hook(program: &ProgramMut<'_>) -> Option<String> {
    let is_at_hook = program.autoload() && program.prog_type() == ProgramType::Tracing;
    let hook = program.name().to_str()?.strip_prefix("handle_")?;
    is_at_hook.then(|| hook.to_owned())
}

/// Attaches the program to a clock, which runs it on its CPU.
fn start_clock(program: &ProgramMut<'_>, clock: &OwnedFd) -> Result<Link, HooksError> {
    let failed = HooksError::attach("sample_cpu");
    let own = clock.try_clone().map_err(|error| failed(error.into()))?;
    let link = program.attach_perf_event(own.into_raw_fd());
    link.map_err(failed)
}
