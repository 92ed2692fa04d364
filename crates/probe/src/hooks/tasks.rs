//! Decides which processes are recorded. In: pids, and what the programs find out themselves: who owns a socket of the
//! port, who shares a listening socket, who is forked. Out: entries of the map `tasks`, which the programs keep from
//! then on.

use std::collections::BTreeSet;

use libbpf_rs::{MapCore, MapFlags, ProgramInput};

use super::Hooks;
use super::select::TaskKind;
use crate::interface::HooksError;
use crate::processes::{families, sees_all};

/// Walks that look for processes that belong to those that were named. Each finds some, or is one of the last two: only
/// one who starts processes all the time needs more, and the programs see those that are started.
const WALKS_MOST: usize = 12;

impl Hooks<'_> {
    /// Records this process and its descendants from now on, unless it is left out.
    pub fn record_process(&self, pid: u32) -> Result<(), HooksError> {
        match self.task(pid) {
            Some(kind) if kind == TaskKind::Own as u8 => Ok(()),
            _ => self.set_task(pid, TaskKind::Recorded),
        }
    }

    /// Records what this process forks from now on, but not the process: for starting a command.
    pub fn record_children_of(&self, pid: u32) -> Result<(), HooksError> {
        self.set_task(pid, TaskKind::Parent)
    }

    /// Leaves this process and all its children out of the recording.
    pub fn leave_out_self(&self) -> Result<(), HooksError> {
        let program = &self.skel.progs.leave_out_self;
        let run = program.test_run(ProgramInput::default());
        run.map_err(|error| HooksError::Use {
            action: "leave itself out",
            error,
        })?;
        if sees_all() {
            for helper in families([std::process::id()]) {
                self.set_task(helper, TaskKind::Own)?;
            }
        }
        Ok(())
    }

    /// Removes a process from the recorded ones; its children stay.
    pub fn forget_process(&self, pid: u32) -> Result<(), HooksError> {
        match self.skel.maps.tasks.delete(&pid.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(HooksError::Use {
                action: "forget a process",
                error,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the processes that are known to be recorded now: named, found, forked or followed. With a control group,
    /// or with all, the programs ask when it matters, and none is here.
    pub fn recorded_processes(&self) -> BTreeSet<u32> {
        self.processes_of(&[TaskKind::Recorded, TaskKind::Owner, TaskKind::Followed])
    }

    /// Finds processes that belong to the recorded ones, with all their sockets and other ends.
    /// With `families`, also the descendants of those that are not followed only. Call it once
    /// everything is attached.
    pub fn find_processes(&self, with_families: bool) -> Result<(), HooksError> {
        let mut known = BTreeSet::new();
        let mut quiet = 0;
        for _ in 0..WALKS_MOST {
            if with_families && sees_all() {
                self.record_families()?;
            }
            self.walk()?;
            let found = self.recorded_processes();
            // the first walk learns the listening sockets, and the connections; the second one finds their other holders
            quiet = if found.is_subset(&known) {
                quiet + 1
            } else {
                0
            };
            if quiet == 2 {
                break;
            }
            known.extend(found);
        }
        Ok(())
    }

    /// Records the descendants of the recorded processes, too.
    fn record_families(&self) -> Result<(), HooksError> {
        let named = self.processes_of(&[TaskKind::Recorded, TaskKind::Owner]);
        let family = families(named.iter().copied());
        let mut others = family.iter().filter(|pid| !named.contains(pid));
        others.try_for_each(|pid| self.record_process(*pid))
    }

    /// Returns the processes that the kernel's table has with one of these kinds.
    fn processes_of(&self, kinds: &[TaskKind]) -> BTreeSet<u32> {
        let keys = self.skel.maps.tasks.keys();
        let pids = keys.filter_map(|key| Some(u32::from_ne_bytes(key.try_into().ok()?)));
        let is_one = |pid: &u32| {
            let kind = self.task(*pid);
            kinds.iter().any(|it| Some(*it as u8) == kind)
        };
        pids.filter(is_one).collect()
    }

    /// Returns the kind of a process in the kernel's table; None if it is not there.
    fn task(&self, pid: u32) -> Option<u8> {
        let found = self
            .skel
            .maps
            .tasks
            .lookup(&pid.to_ne_bytes(), MapFlags::ANY);
        found.ok()??.first().copied()
    }

    /// Enters a process into the kernel's table.
    fn set_task(&self, pid: u32, kind: TaskKind) -> Result<(), HooksError> {
        let arguments = [u64::from(pid), kind as u64];
        let mut context: Vec<u8> = arguments.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let input = ProgramInput {
            context_in: Some(&mut context),
            ..ProgramInput::default()
        };
        let run = self.skel.progs.put_task.test_run(input);
        let put = run.and_then(|run| match run.return_value.cast_signed() {
            0 => Ok(()),
            error => Err(libbpf_rs::Error::from_raw_os_error(-error)),
        });
        put.map_err(|error| HooksError::Use {
            action: "select a process",
            error,
        })
    }
}
