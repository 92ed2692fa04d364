//! Describes what this kernel lets be seen of MPTCP sockets: known by the types in its BTF. In: BTF. Out: coverage, and the
//! values that programs get before they run.

use libbpf_rs::btf::Btf;
use table::manifest::{Coverage, ProbeState};

use super::btf::has_member;
use super::detail::Detail;

/// Features of MPTCP sockets, as the kernel's BTF shows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mptcp {
    /// Subflows lead to their MPTCP sockets (Linux 5.7).
    pub(crate) sockets: bool,
    /// These count the bytes that calls on them moved (Linux 6.5).
    pub(crate) calls: bool,
}

impl Mptcp {
    /// Finds in the kernel's BTF which MPTCP structures the programs can read.
    pub(crate) fn from_btf(btf: &Btf<'_>) -> Self {
        let has = |of, members: &[&str]| members.iter().all(|it| has_member(btf, of, it));
        let sockets = has("mptcp_sock", &["first", "token"])
            && has("mptcp_subflow_context", &["conn"])
            && has("tcp_sock", &["is_mptcp"]);
        let counts = ["write_seq", "snd_una", "bytes_acked", "bytes_consumed"];
        Self {
            sockets,
            calls: sockets && has("mptcp_sock", &counts),
        }
    }

    /// Returns how MPTCP sockets are seen, where that is not as well as TCP's.
    pub(crate) fn coverage(self, detail: Detail) -> Option<Coverage> {
        let state = match self {
            Self { sockets: false, .. } => ProbeState::Off {
                why: "this kernel does not show MPTCP sockets, or refuses the programs that read them".to_owned(),
                remedy: "start the recording before the program listens: plain TCP connections to it are seen then"
                    .to_owned(),
            },
            Self { calls: false, .. } if detail >= Detail::Calls => ProbeState::Fallback {
                which: "subflows without the calls on MPTCP sockets".to_owned(),
                why: "MPTCP sockets of this kernel do not count the bytes that programs take".to_owned(),
            },
            _ => return None,
        };
        Some(Coverage {
            probe: "inventory.mptcp".to_owned(),
            state,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_sockets_are_reported() {
        let whole = Mptcp {
            sockets: true,
            calls: true,
        };
        assert_eq!(whole.coverage(Detail::Waits), None);
        let uncounted = Mptcp {
            calls: false,
            ..whole
        };
        assert_eq!(uncounted.coverage(Detail::Stats), None);
        let state = |mptcp: Mptcp| mptcp.coverage(Detail::Calls).map(|it| it.state);
        assert!(matches!(
            state(uncounted),
            Some(ProbeState::Fallback { .. })
        ));
        assert!(matches!(
            state(Mptcp::default()),
            Some(ProbeState::Off { .. })
        ));
    }
}
