//! `udp_flows`: datagrams between a UDP socket of a recorded thread and one other address. `udp_flows.bpf.h` has a record
//! made of each call; here a record of a flow becomes a row of table `udp_flows`, and here its hooks are attached.

use std::fs::File;
use std::os::fd::AsRawFd;

use libbpf_rs::{Link, ProgramMut};
use table::manifest::{Coverage, ProbeState};
use table::tables::UdpFlow;
use table::{Columns, TableId};

use crate::calls;
use crate::interface::features::{Features, Levels, SocketFamily};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support, on,
};
use crate::inventory::seen::address;
use crate::processes::cgroup2_root;
use crate::skel::HooksSkel;
use crate::wire::types::{record_kind, udp_flow_seen};
use crate::wire::{Wire, read, role_of};

// SAFETY: `udp_flow_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for udp_flow_seen {}

/// Name of the probe in coverage.
const PROBE: &str = "udp_flows";

/// Name of the hooks that see addresses in coverage.
const ADDRESSES: &str = "udp_flows.addresses";

/// Name of the time since when datagrams lie in a socket, in coverage.
const ARRIVALS: &str = "udp_flows.arrivals";

/// Programs at the hooks of the control group.
pub(crate) const PROGRAMS: [&str; 4] = [
    "udp_sendmsg4",
    "udp_sendmsg6",
    "udp_recvmsg4",
    "udp_recvmsg6",
];

/// Program that notes when datagrams come into a socket.
pub(crate) const ARRIVALS_PROGRAM: &str = "handle_udp_data_ready";

/// Its tracepoint: that of received messages.
const ARRIVALS_HOOK: &str = "sk_data_ready";

/// All programs.
const ALL_PROGRAMS: [&str; 5] = [
    PROGRAMS[0],
    PROGRAMS[1],
    PROGRAMS[2],
    PROGRAMS[3],
    ARRIVALS_PROGRAM,
];

/// Returns whether the arrival of datagrams in a socket can be seen.
pub(crate) fn sees_arrivals(features: &Features) -> bool {
    features.tracepoints.contains(&ARRIVALS_HOOK) && !features.is_refused(ARRIVALS_PROGRAM)
}

/// Returns the coverage line of arrival times of datagrams.
fn arrivals_coverage(features: &Features) -> Coverage {
    if sees_arrivals(features) {
        return on(ARRIVALS);
    }
    let why = match features.is_refused(ARRIVALS_PROGRAM) {
        true => format!("this kernel refuses the program at tracepoint {ARRIVALS_HOOK}"),
        false => format!("this kernel has no tracepoint {ARRIVALS_HOOK}"),
    };
    Coverage {
        probe: ARRIVALS.to_owned(),
        state: ProbeState::Fallback {
            which: "a request begins when its datagram is read, or its thread is woken".to_owned(),
            why,
        },
    }
}

/// The probe of UDP flows. Their calls are rows of table `calls`.
pub(crate) struct UdpFlows;

impl Probe for UdpFlows {
    fn name(&self) -> &'static str {
        PROBE
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::UdpFlow)
    }

    fn detail(&self) -> Detail {
        Detail::Waits
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.waits && levels.logs_calls()
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn programs(&self) -> &'static [&'static str] {
        &ALL_PROGRAMS
    }

    fn maps(&self) -> &'static [&'static str] {
        &["udp_flows", "udp_addresses"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_UDP_FLOW_SEEN, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_UDP_FLOW_SEEN)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let features = support.features;
        let flows = features.family_coverage(self.name(), calls::CALL_HOOKS, SocketFamily::Inet);
        let arrivals = match &flows.state {
            ProbeState::Off { .. } => Coverage {
                probe: ARRIVALS.to_owned(),
                state: flows.state.clone(),
            },
            _ => arrivals_coverage(features),
        };
        vec![flows, arrivals]
    }
}

/// Opens the root control group, if the hooks that see addresses are loaded.
pub(crate) fn open_root(skel: &HooksSkel<'_>) -> Result<File, String> {
    if programs(skel).iter().any(|program| !program.autoload()) {
        return Err("this kernel refuses the program".to_owned());
    }
    let root = cgroup2_root().map_err(|error| error.to_string())?;
    File::open(&root).map_err(|error| format!("{}: {error}", root.display()))
}

/// Attaches the hooks that see addresses to the root control group.
pub(crate) fn attach(skel: &HooksSkel<'_>, root: &File) -> Result<Vec<Link>, HooksError> {
    let attached = programs(skel).into_iter().zip(PROGRAMS);
    let attached = attached.map(|(program, name)| {
        let link = program.attach_cgroup(root.as_raw_fd());
        link.map_err(HooksError::attach(name))
    });
    attached.collect()
}

/// Returns the four programs that see datagrams.
fn programs<'a>(skel: &'a HooksSkel<'_>) -> [&'a ProgramMut<'a>; 4] {
    let programs = &skel.progs;
    [
        &programs.udp_sendmsg4,
        &programs.udp_sendmsg6,
        &programs.udp_recvmsg4,
        &programs.udp_recvmsg6,
    ]
}

/// Returns how the addresses are seen.
pub(crate) fn coverage(refused: Option<&String>) -> Coverage {
    let Some(why) = refused else {
        return on(ADDRESSES);
    };
    Coverage {
        probe: ADDRESSES.to_owned(),
        state: ProbeState::Fallback {
            which: "of sockets that are not connected, the other end is not known".to_owned(),
            why: why.clone(),
        },
    }
}

/// Adds the row of a UDP flow; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let seen = read(body)?;
    output.rows.udp_flows.push(make_row(&seen));
    output.add_owner(&seen.owner, seen.time_ns);
    Some(())
}

/// Returns the row of a record.
fn make_row(seen: &udp_flow_seen) -> UdpFlow {
    let udp_flow_seen {
        id,
        time_ns,
        cookie,
        inode,
        local_addr,
        remote_addr,
        owner,
        netns,
        local_port,
        remote_port,
        role,
        pad: _,
    } = *seen;
    UdpFlow {
        conn: id,
        time_ns,
        socket: cookie,
        inode: (inode != 0).then_some(inode),
        netns,
        local: address(local_addr, local_port).to_string(),
        remote: (remote_port != 0).then(|| address(remote_addr, remote_port).to_string()),
        role: role_of(role),
        pid: (owner.pid != 0).then_some(owner.pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::Role;

    #[test]
    fn absent_is_not_zero() {
        let row = make_row(&udp_flow_seen {
            id: 3,
            role: 1,
            ..Default::default()
        });
        assert_eq!((row.inode, row.remote, row.pid), (None, None, None));
        assert_eq!(row.role, Role::Client);
    }
}
