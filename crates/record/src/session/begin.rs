//! From where everything is attached to where the command runs: takes what is there, gives up privileges, and writes that
//! all is recorded.

use std::process::Child;

use super::Session;
use super::child::end;
use super::setup::discard;
use crate::privileges::Privileges;
use crate::{RecordError, Target, launch};

impl Session<'_> {
    /// Drains the hooks, polls once, starts the command if there is one, and writes the ready file.
    /// If that fails, the command does not go on.
    pub(super) fn begin(&mut self) -> Result<Option<Child>, RecordError> {
        self.drain();
        self.poll()?;
        self.sink.read_cpu();
        let privileges = Privileges::for_tasks(self.tasks, self.user.as_ref())?;
        if let Some(windows) = &mut self.windows {
            let opened = windows.open()?;
            self.sink.pipeline.store_added(opened);
        }
        let mut child = match &self.options.target {
            Target::Command(command) => Some(self.start(command)?),
            _ => None,
        };
        let begun = self.pin().and_then(|()| self.write_ready_file());
        // after the command was started, which has what it would have without whylat
        let begun = begun.and_then(|()| Ok(privileges.assume()?));
        if begun.is_err() {
            child.iter_mut().for_each(end);
        }
        begun.map(|()| child)
    }

    /// Moves the recorder's threads to the CPUs that the user chose. The command has started by
    /// now, on those that it would have without whylat.
    fn pin(&self) -> Result<(), RecordError> {
        let Some(cpus) = &self.options.recorder_cpus else {
            return Ok(());
        };
        cpus.pin_own_threads()
            .map_err(|source| RecordError::Affinity {
                cpus: cpus.to_string(),
                source,
            })
    }

    /// Writes the ready file, if the user asked for one.
    fn write_ready_file(&self) -> Result<(), RecordError> {
        let Some(path) = &self.options.ready_file else {
            return Ok(());
        };
        let written = std::fs::write(path, std::process::id().to_string());
        written.map_err(|source| RecordError::Ready {
            path: path.clone(),
            source,
        })
    }

    /// Starts the command, which is recorded from its first instruction on.
    fn start(&mut self, command: &crate::Command) -> Result<Child, RecordError> {
        let own_pid = std::process::id();
        if let Some(hooks) = self.hooks() {
            hooks.record_children_of(own_pid)?;
        }
        let mut child = launch::start(
            command,
            self.signals.mask_before(),
            &self.itt_listener.environment(),
        );
        let forgotten = self.hooks().map(|hooks| hooks.forget_process(own_pid));
        if let Some(Err(error)) = forgotten {
            child.iter_mut().for_each(end);
            return Err(error.into());
        }
        if let (Ok(child), Some(polls)) = (&child, &mut self.polls) {
            polls.set_command(child.id());
        }
        child
    }

    /// Removes a recording without content.
    pub(super) fn abandon(self) {
        if let Some((writer, _)) = self.sink.pipeline.store.finish() {
            let path = writer.path().to_owned();
            drop(writer);
            discard(&path);
        }
    }
}
