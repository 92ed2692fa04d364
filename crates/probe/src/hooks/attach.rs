//! Attaching and detaching what is loaded.

use std::os::fd::{IntoRawFd, OwnedFd};

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, ProgramInput, ProgramMut, ProgramType};

use super::Hooks;
use super::iterate::read_iterator;
use crate::interface::HooksError;

impl Hooks<'_> {
    /// Attaches every loaded program; those of windows, too, until the first one has ended. Sockets that are open already are
    /// found by [`walk`](Self::walk).
    pub fn attach(&self) -> Result<(), HooksError> {
        let p = &self.skel.progs;
        self.netns_walks.start()?;
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
        let name = match self.levels.summaries {
            false => "read_sockets",
            true => "read_watched",
        };
        attached.sockets = self.attach_walk(name, &maps.sockets)?;
        if self.levels.active {
            attached.active = self.attach_walk("read_active", &maps.active_sockets)?;
        }
        if self.levels.keeps_ledger() {
            attached.draining = self.attach_walk("read_draining", &maps.sockets)?;
        }
        attached.sending = self.attach_walk("read_sending", &maps.send_streams)?;
        attached.udp = self.attach_walk("read_udp", &maps.udp_sockets)?;
        attached.zerocopy = self.attach_walk("read_zerocopy", &maps.zerocopy_sockets)?;
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
            self.read_walk(attached.udp.as_ref(), "UDP sockets"),
            self.read_walk(attached.zerocopy.as_ref(), "zero-copy sends"),
            self.read_zerocopy_uring(),
            self.read_walk(attached.sending.as_ref(), "sent messages"),
        ];
        read.into_iter().collect()
    }

    /// Has what is counted of zero-copy sends of io_uring handed over.
    fn read_zerocopy_uring(&self) -> Result<(), HooksError> {
        let program = &self.skel.progs.read_zerocopy_uring;
        if !program.autoload() {
            return Ok(());
        }
        let read = program.test_run(ProgramInput::default());
        read.map(drop).map_err(|error| HooksError::Use {
            action: "read zero-copy sends of io_uring",
            error,
        })
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
