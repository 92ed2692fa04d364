//! Walks over recorded sockets. Where the kernel has iterators over maps, a walk is over the sockets that have a storage.
//! Else it is over all sockets of each network namespace with a recorded one (`bpf/netns_walk.bpf.h`).

use std::os::fd::AsFd;

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, OpenObject, ProgramInput};
use table::manifest::{Coverage, ProbeState};

use super::Hooks;
use super::iterate::read_iterator;
use super::netns_walker::NetnsWalker;
use crate::interface::HooksError;
use crate::privileges::{Capability, Privileges};

/// Walks over maps.
const MAP_WALKS: [&str; 6] = [
    "read_sockets",
    "read_watched",
    "read_draining",
    "read_sending",
    "read_udp",
    "read_zerocopy",
];

/// The end of the name of the program in place of a walk over a map.
const IN_PLACE: &str = "_of_netns";

/// The program that ends a poll over namespaces.
const END_POLL: &str = "end_poll";

/// Returns whether the program is one of a walk over a map, which another one can be in place of.
pub(super) fn is_map_walk(program: &str) -> bool {
    MAP_WALKS.contains(&program)
}

/// Loads the programs of walks over namespaces in place of those over maps, or these.
pub(super) fn choose_walks(object: &mut OpenObject, over_netns: bool) {
    let name = |program: &libbpf_rs::OpenProgramMut<'_>| {
        program.name().to_str().unwrap_or_default().to_owned()
    };
    let all = object.progs_mut();
    let walks = all.filter(|program| is_map_walk(&name(program)) && program.autoload());
    let wanted: Vec<String> = walks.map(|program| name(&program)).collect();
    for mut program in object.progs_mut() {
        let name = name(&program);
        if is_map_walk(&name) && over_netns {
            program.set_autoload(false);
        } else if let Some(walk) = name.strip_suffix(IN_PLACE) {
            program.set_autoload(over_netns && wanted.iter().any(|it| it == walk));
        } else if name == END_POLL {
            program.set_autoload(over_netns);
        }
    }
}

impl Hooks<'_> {
    /// Returns the CPU time, ns, that walks took so far in a thread of their own.
    pub fn walker_cpu_ns(&self) -> u64 {
        self.netns_walks.walker.get().map_or(0, NetnsWalker::cpu_ns)
    }

    /// Attaches the walk over the sockets of a map, or the one in its place; `None`: neither is loaded.
    pub(super) fn attach_walk(
        &self,
        name: &str,
        map: &dyn MapCore,
    ) -> Result<Option<Link>, HooksError> {
        let in_place = format!("{name}{IN_PLACE}");
        for program in self.skel.object().progs_mut() {
            let link = match program.name().to_str() {
                Some(found) if found == name && program.autoload() => {
                    program.attach_iter(map.as_fd())
                }
                Some(found) if found == in_place && program.autoload() => program.attach(),
                _ => continue,
            };
            return link.map(Some).map_err(HooksError::attach(name));
        }
        Ok(None)
    }

    /// Walks recorded sockets to the end; the programs write to rings.
    pub(super) fn read_walk(
        &self,
        link: Option<&Link>,
        what: &'static str,
    ) -> Result<(), HooksError> {
        let (Some(link), Some(walker)) = (link, self.netns_walks.walker.get()) else {
            return read_iterator(link, what);
        };
        let walked = walker.walk(link.as_fd(), self.walked_netns());
        let gone = walked.map_err(|error| HooksError::Read { what, error })?;
        gone.into_iter().try_for_each(|it| self.forget_netns(it))
    }

    /// Says that a poll has walked all there is: further walks of it meet sockets again.
    pub(super) fn end_poll(&self) -> Result<(), HooksError> {
        if !self.netns_walks.is_used {
            return Ok(());
        }
        let ended = self.skel.progs.end_poll.test_run(ProgramInput::default());
        ended.map(drop).map_err(|error| HooksError::Use {
            action: "end a poll",
            error,
        })
    }

    /// Returns the network namespaces in which sockets were recorded.
    fn walked_netns(&self) -> Vec<u32> {
        let keys = self.skel.maps.walked_netns.keys();
        keys.filter_map(|key| Some(u32::from_ne_bytes(key.try_into().ok()?)))
            .collect()
    }

    /// Walks no namespace any more to which nothing leads. A socket that is recorded in it later brings it back.
    fn forget_netns(&self, inode: u32) -> Result<(), HooksError> {
        match self.skel.maps.walked_netns.delete(&inode.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(HooksError::Use {
                action: "forget a network namespace",
                error,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the coverage line of network namespaces that walks cannot enter; `None`: they can enter all.
    pub(super) fn unwalked_netns(&self) -> Option<Coverage> {
        let needed = Capability::SysAdmin;
        let is_limited = self.netns_walks.is_used && !Privileges::read().has_capability(needed);
        is_limited.then(|| Coverage {
            probe: "tcp_stats.other_netns".to_owned(),
            state: ProbeState::Fallback {
                which:
                    "connections of the own network namespace at polls, and others when they close"
                        .to_owned(),
                why: format!(
                    "this kernel refuses BPF iterators over maps, and {} is missing",
                    needed.name()
                ),
            },
        })
    }
}

#[cfg(test)]
#[path = "netns_walk_tests.rs"]
mod tests;
