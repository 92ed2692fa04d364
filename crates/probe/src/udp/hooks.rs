//! Hooks of the root control group, which report new UDP sockets and their end.

use std::fs::File;
use std::os::fd::AsRawFd;

use libbpf_rs::Link;
use table::manifest::{Coverage, ProbeState};

use crate::processes::cgroup2_root;
use crate::skel::HooksSkel;

/// Name of the probe in coverage.
const PROBE: &str = "messages.udp";

/// Attaches the two programs of UDP sockets; else a socket is found at its first call. The error
/// says why not.
pub(crate) fn attach(skel: &mut HooksSkel<'_>) -> Result<Vec<Link>, String> {
    let links = links(skel);
    if let (Err(_), Some(bss)) = (&links, skel.maps.bss_data.as_deref_mut()) {
        bss.udp_found_at_calls = 1;
    }
    links
}

/// Attaches the two programs to the root control group; the error says why not.
fn links(skel: &HooksSkel<'_>) -> Result<Vec<Link>, String> {
    let root = cgroup2_root().map_err(|error| error.to_string())?;
    let root = File::open(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    [
        &skel.progs.handle_sock_create,
        &skel.progs.handle_sock_release,
    ]
    .into_iter()
    .map(|program| {
        let link = program.attach_cgroup(root.as_raw_fd());
        link.map_err(|error| format!("the root control group: {error}"))
    })
    .collect()
}

/// Returns the coverage line of UDP sockets.
pub(crate) fn coverage(refused: Option<&String>) -> Coverage {
    let state = match refused {
        None => ProbeState::On,
        Some(why) => ProbeState::Fallback {
            which: "sockets are found at their first call; what came before is not seen".to_owned(),
            why: why.clone(),
        },
    };
    Coverage {
        probe: PROBE.to_owned(),
        state,
    }
}

/// Makes the coverage line of a probe without its hook in this kernel.
pub(crate) fn off(hook: &str, since: &str) -> Coverage {
    Coverage {
        probe: PROBE.to_owned(),
        state: ProbeState::Off {
            why: format!("this kernel has no hook {hook}"),
            remedy: format!("run Linux {since} or newer"),
        },
    }
}
