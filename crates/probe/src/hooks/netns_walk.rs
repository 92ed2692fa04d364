//! Walks over recorded sockets. Where the kernel has iterators over maps, a walk is over the sockets that have a storage.
//! Else it is over all sockets of each network namespace with a recorded one (`bpf/netns_walk.bpf.h`).

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, ProgramInput};
use table::manifest::{Coverage, ProbeState};

use super::Hooks;
use super::iterate::read_iterator;
use super::netns_walker::NetnsWalker;
use crate::interface::HooksError;
use crate::privileges::Capability;

/// The coverage line of polls over namespaces.
const POLLS: &str = "tcp_stats.polls";

/// The coverage line of network namespaces that polls do not reach.
const OTHER_NETNS: &str = "tcp_stats.other_netns";

/// Why polls are over namespaces.
const WHY: &str = "this kernel refuses BPF iterators over maps";

/// Walks over maps.
const MAP_WALKS: [&str; 6] = [
    "read_sockets",
    "read_watched",
    "read_draining",
    "read_sending",
    "read_udp",
    "read_zerocopy",
];

/// Those that read recorded sockets. A kernel that refuses one of them gets walks over namespaces; another walk that is
/// refused is left out, if it can be.
const MAIN_WALKS: [&str; 2] = ["read_sockets", "read_watched"];

/// The end of the name of the program in place of a walk over a map.
const IN_PLACE: &str = "_of_netns";

/// The program that ends a poll over namespaces.
const END_POLL: &str = "end_poll";

/// Returns whether the program is a walk over a map without which polls have to be over namespaces.
pub(super) fn is_main_walk(program: &str) -> bool {
    MAIN_WALKS.contains(&program)
}

/// Returns the walk over a map that this program replaces, or the program itself.
pub(super) fn name_replaced(program: &str) -> &str {
    program.strip_suffix(IN_PLACE).unwrap_or(program)
}

/// Returns the coverage line of polls over namespaces.
pub(super) fn polls_coverage() -> Coverage {
    Coverage {
        probe: POLLS.to_owned(),
        state: ProbeState::Fallback {
            which: "by walks over all sockets of the network namespaces with recorded ones"
                .to_owned(),
            why: WHY.to_owned(),
        },
    }
}

/// Loads the programs of walks over namespaces in place of those over maps, or these.
pub(super) fn choose_walks(object: &mut OpenObject, over_netns: bool) {
    let name = |program: &libbpf_rs::OpenProgramMut<'_>| {
        program.name().to_str().unwrap_or_default().to_owned()
    };
    let all = object.progs_mut();
    let is_map_walk = |name: &str| MAP_WALKS.contains(&name);
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
        self.netns_walks.walker().map_or(0, NetnsWalker::cpu_ns)
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
        let (Some(link), Some(walker)) = (link, self.netns_walks.walker()) else {
            return read_iterator(link, what);
        };
        let walked = walker.walk(link.as_fd(), self.walked_netns());
        let unentered = walked.map_err(|error| HooksError::Read { what, error })?;
        self.netns_walks.note_unentered(unentered);
        Ok(())
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

    /// Returns the network namespaces with sockets that are recorded now.
    fn walked_netns(&self) -> Vec<u32> {
        let known = &self.skel.maps.walked_netns;
        let has_sockets = |key: &Vec<u8>| {
            let sockets = known.lookup(key, MapFlags::ANY).ok().flatten();
            let sockets = sockets.and_then(|it| Some(i64::from_ne_bytes(it.try_into().ok()?)));
            sockets.is_some_and(|it| it > 0)
        };
        let keys = known.keys().filter(has_sockets);
        keys.filter_map(|key| Some(u32::from_ne_bytes(key.try_into().ok()?)))
            .collect()
    }

    /// Returns the network namespaces with recorded sockets that the last walk has not entered, by inode number: it does
    /// not know a way there. Without `CAP_SYS_ADMIN`, none are named: coverage says so of all.
    pub fn unentered_netns(&self) -> BTreeSet<u32> {
        match self.netns_walks.are_limited() {
            true => BTreeSet::new(),
            false => self.netns_walks.last_unentered(),
        }
    }

    /// Returns the coverage line of walks that may enter no other network namespace; `None`: they may, or need not.
    pub(super) fn walk_limit(&self) -> Option<Coverage> {
        let missing = Capability::SysAdmin.name();
        self.netns_walks.are_limited().then(|| {
            make_line(
                "connections of the own network namespace at polls, and others when they close",
                format!("{WHY}, and {missing} is missing"),
            )
        })
    }

    /// Returns the coverage line of network namespaces that walks may enter and did not; `None`: they entered all.
    pub(super) fn unentered_coverage(&self) -> Option<Coverage> {
        let others = match self.netns_walks.all_unentered().len() {
            _ if self.netns_walks.are_limited() => return None,
            0 => return None,
            1 => "one other network namespace".to_owned(),
            count => format!("{count} other network namespaces"),
        };
        Some(make_line(
            &format!("connections of {others} when they close, and not at polls"),
            format!("{WHY}, and no process in /proc leads there"),
        ))
    }
}

/// Makes the coverage line of network namespaces that polls do not reach.
fn make_line(which: &str, why: String) -> Coverage {
    Coverage {
        probe: OTHER_NETNS.to_owned(),
        state: ProbeState::Fallback {
            which: which.to_owned(),
            why,
        },
    }
}

#[cfg(test)]
#[path = "netns_walk_tests.rs"]
mod tests;
