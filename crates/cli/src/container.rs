//! `--container NAME|ID`: the processes of a container, as its runtime knows them.

use std::path::Path;

use probe::processes::{Members, find_container};
use record::Target;

use crate::out;

/// Returns the target of a container, and prints it.
///
/// # Errors
/// When there is not exactly one of that name or id, or it does not run.
pub(crate) fn target(wanted: &str) -> anyhow::Result<Target> {
    let (container, members) = find_container(Path::new("/"), wanted)?;
    let container = out::name(&container.to_string());
    Ok(match members {
        Members::Cgroup(path) => {
            eprintln!("container {container}: control group {}", out::name(&path));
            Target::Cgroup(path)
        }
        Members::Processes(pids) => {
            let who = match pids.len() {
                1 => "its process".to_owned(),
                number => format!("its {number} processes"),
            };
            eprintln!("container {container}: {who}, and what they start");
            eprintln!(
                "note: it has no control group in the v2 tree; what is started in it from outside later, as by `exec`, is \
                 not seen"
            );
            Target::Pids(pids)
        }
    })
}
