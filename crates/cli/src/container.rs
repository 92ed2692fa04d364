//! `--container NAME|ID` and `--pod NAMESPACE/NAME`: the processes of a container or a pod, as the runtime knows them.

use std::path::Path;

use probe::processes::{Container, Members, find_container, find_pod};
use record::Target;

use crate::out;

/// Returns the target of a container, and prints it.
///
/// # Errors
/// When there is not exactly one of that name or id, or it does not run.
pub(crate) fn target(wanted: &str) -> anyhow::Result<Target> {
    let (container, members) = find_container(Path::new("/"), wanted)?;
    Ok(announce(&format!("container {container}"), members))
}

/// Returns the target of a pod, and prints it.
///
/// # Errors
/// When there is not exactly one of that name, or it does not run here.
pub(crate) fn pod_target(wanted: &str) -> anyhow::Result<Target> {
    let (pod, containers, members) = find_pod(Path::new("/"), wanted)?;
    let names = |it: &Container| it.names.first().cloned();
    let names: Vec<String> = containers.iter().filter_map(names).collect();
    Ok(announce(
        &format!("pod {pod} ({})", names.join(", ")),
        members,
    ))
}

/// Prints who is recorded.
fn announce(what: &str, members: Members) -> Target {
    let what = out::name(what);
    match members {
        Members::Cgroup(path) => {
            eprintln!("{what}: control group {}", out::name(&path));
            Target::Cgroup(path)
        }
        Members::Processes(pids) => {
            let who = match pids.len() {
                1 => "its process".to_owned(),
                number => format!("its {number} processes"),
            };
            eprintln!("{what}: {who}, and what they start");
            eprintln!(
                "note: it has no control group in the v2 tree. whylat does not see programs that are started in \
                    it from outside later, as by `exec`."
            );
            Target::Pids(pids)
        }
    }
}
