//! Listens to what the command reports by the Intel ITT API, if it is to be started and the
//! detail asks for it. Rows go to the store; what is in the way becomes coverage.

use std::ffi::OsStr;

use probe::hooks::Detail;
use probe::itt::{IttCounts, Listener, Refusal, User, coverage};
use table::manifest::Coverage;

use crate::store::{RowSink, Store};
use crate::{Options, RecordError, Target, launch};

/// Listens to one command.
#[derive(Default)]
pub(crate) struct IttListener(Option<Listener>);

impl IttListener {
    /// Begins before anything else is set up, as a process is forked. Gives the line of coverage,
    /// if the user may expect one.
    pub(crate) fn begin(options: &Options) -> Result<(Self, Option<Coverage>), RecordError> {
        let refused = |why: &str, remedy: &str| {
            let refusal = Refusal {
                why: why.to_owned(),
                remedy: remedy.to_owned(),
            };
            Ok((Self(None), Some(coverage::<()>(Err(refusal)))))
        };
        let is_asked = options.detail >= Detail::Waits;
        match &options.target {
            Target::Command(_) if !is_asked => refused(
                &format!("detail {} leaves it out", options.detail.name()),
                "--detail waits",
            ),
            Target::Command(command) => {
                let user = launch::user_of(command)?.map(|user| User {
                    uid: user.uid,
                    gid: user.gid,
                });
                Ok(match Listener::open(user) {
                    Ok(listener) => (Self(Some(listener)), Some(coverage(Ok(())))),
                    Err(refusal) => (Self(None), Some(coverage::<()>(Err(refusal)))),
                })
            }
            _ if is_asked => refused(
                "a program looks for a collector at its first ITT call, never later",
                "start it with whylat: whylat run -- COMMAND",
            ),
            _ => Ok((Self(None), None)),
        }
    }

    /// Returns variables for the environment of the command.
    pub(crate) fn environment(&self) -> Vec<(&str, &OsStr)> {
        self.0.iter().flat_map(Listener::environment).collect()
    }

    /// Stores the rows reported since the last call.
    pub(crate) fn drain(&mut self, store: &Store) {
        if let Some(listener) = &mut self.0 {
            listener.drain(|rows| store.store_rows(rows));
        }
    }

    /// Stores the last rows; returns the counts, if a program used the collector.
    pub(crate) fn finish(&mut self, store: &Store) -> Option<IttCounts> {
        let listener = self.0.as_mut()?;
        Some(listener.finish(|rows| store.store_rows(rows)))
    }
}
