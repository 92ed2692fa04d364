//! Which hooks this kernel has, told by the `btf_trace_*` types in its BTF, never by its version.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use table::manifest::{Coverage, ProbeState};

use super::mib::MibPlaces;
use super::{Detail, HooksError, on};
use crate::skel::OpenHooksSkel;

/// Tracepoints that some supported kernel lacks, as found in this one.
pub(super) struct Features {
    congestion_state: bool,
    retransmit: bool,
    probe: bool,
    send_length: bool,
    recv_length: bool,
    waking: bool,
    /// The first hook of `messages` that is missing.
    missing_for_messages: Option<&'static str>,
    /// The first hook of sent ones that is missing.
    missing_for_sent: Option<&'static str>,
    pub(super) mib: Option<MibPlaces>,
}

/// Hooks that `messages` needs beside those of `calls`.
const FOR_MESSAGES: [&str; 6] = [
    "netif_rx_entry",
    "napi_gro_receive_entry",
    "napi_gro_frags_entry",
    "netif_receive_skb",
    "sk_data_ready",
    "skb_copy_datagram_iovec",
];

/// Hooks that sent messages need beside those.
const FOR_SENT: [&str; 3] = ["tcp_sendmsg_locked", "net_dev_queue", "net_dev_start_xmit"];

impl Features {
    pub(super) fn probe() -> Result<Self, HooksError> {
        let btf = Btf::from_vmlinux().map_err(|error| HooksError::NoBtf(error.to_string()))?;
        let has = |name: &str| {
            btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))
                .is_some()
        };
        Ok(Self {
            congestion_state: has("tcp_cong_state_set"),
            retransmit: has("tcp_retransmit_skb"),
            probe: has("tcp_probe"),
            send_length: has("sock_send_length"),
            recv_length: has("sock_recv_length"),
            waking: has("sched_waking"),
            missing_for_messages: FOR_MESSAGES.into_iter().find(|name| !has(name)),
            missing_for_sent: FOR_SENT.into_iter().find(|name| !has(name)),
            mib: MibPlaces::of(&btf),
        })
    }

    /// The ledger and the call log need all of them: a ledger that does not see sends would call
    /// every wait for the application something else.
    pub(super) fn has_calls(&self) -> bool {
        self.missing_for_calls().is_none()
    }

    /// Messages need the call log's hooks, too.
    pub(super) fn has_messages(&self) -> bool {
        self.missing_for_messages.is_none()
    }

    /// What is sent, too.
    pub(super) fn has_sent(&self) -> bool {
        self.missing_for_sent.is_none()
    }

    pub(super) fn disable_missing(
        &self,
        open: &mut OpenHooksSkel<'_>,
        calls: bool,
        waits: bool,
        messages: bool,
    ) {
        let p = &mut open.progs;
        p.handle_tcp_cong_state_set
            .set_autoload(self.congestion_state);
        p.handle_tcp_retransmit_skb.set_autoload(self.retransmit);
        p.handle_tcp_probe.set_autoload(calls);
        p.read_draining.set_autoload(calls);
        p.handle_sock_send_length.set_autoload(calls);
        p.handle_sock_recv_length.set_autoload(calls);
        p.handle_sched_switch.set_autoload(calls || waits);
        p.handle_sched_waking.set_autoload(waits && self.waking);
        p.flush_batches.set_autoload(calls || waits);
        p.handle_netif_rx_entry.set_autoload(messages);
        p.handle_napi_gro_receive_entry.set_autoload(messages);
        p.handle_napi_gro_frags_entry.set_autoload(messages);
        p.handle_netif_receive_skb.set_autoload(messages);
        p.handle_sk_data_ready.set_autoload(messages);
        p.handle_skb_copy_datagram_iovec.set_autoload(messages);
        let sent = messages && self.has_sent();
        p.handle_tcp_sendmsg_locked.set_autoload(sent);
        p.handle_net_dev_queue.set_autoload(sent);
        p.handle_net_dev_start_xmit.set_autoload(sent);
        p.read_sending.set_autoload(sent);
    }

    pub(super) fn coverage(&self, detail: Detail, has_mib: bool) -> Vec<Coverage> {
        let mut all = vec![
            on("inventory"),
            on("tcp_stats"),
            if self.retransmit {
                on("tcp_events")
            } else {
                off("tcp_events", "tcp_retransmit_skb", "5.15")
            },
            if self.congestion_state {
                on("tcp_events.congestion_state")
            } else {
                polled("tcp_events.congestion_state", "tcp_cong_state_set")
            },
        ];
        if !has_mib {
            all.push(no_mib());
        }
        if detail >= Detail::Calls {
            for probe in ["calls", "tcp_stages"] {
                all.push(match self.missing_for_calls() {
                    None => on(probe),
                    Some(hook) => off(probe, hook, "6.3"),
                });
            }
        }
        if detail >= Detail::Waits {
            all.push(on("waits"));
            if !self.waking {
                all.push(off("waits.wakers", "sched_waking", "4.3"));
            }
        }
        if detail >= Detail::Messages {
            let missing = self.missing_for_calls().or(self.missing_for_messages);
            all.push(match missing {
                None => on("messages"),
                Some(hook) => off("messages", hook, "6.3"),
            });
            if let (None, Some(hook)) = (missing, self.missing_for_sent) {
                all.push(off("messages.sent", hook, "6.16"));
            }
        }
        all
    }

    fn missing_for_calls(&self) -> Option<&'static str> {
        [
            (self.send_length, "sock_send_length"),
            (self.recv_length, "sock_recv_length"),
            (self.probe, "tcp_probe"),
        ]
        .into_iter()
        .find_map(|(there, name)| (!there).then_some(name))
    }
}

fn no_mib() -> Coverage {
    Coverage {
        probe: "inventory.listen_overflows".to_owned(),
        state: ProbeState::Off {
            why: "the kernel's BTF does not tell where it is, or there are too many CPUs"
                .to_owned(),
            remedy: "watch `nstat -az TcpExtListenOverflows`".to_owned(),
        },
    }
}

fn off(probe: &str, hook: &str, since: &str) -> Coverage {
    Coverage {
        probe: probe.to_owned(),
        state: ProbeState::Off {
            why: format!("this kernel has no hook {hook}"),
            remedy: format!("run Linux {since} or newer"),
        },
    }
}

fn polled(probe: &str, tracepoint: &str) -> Coverage {
    Coverage {
        probe: probe.to_owned(),
        state: ProbeState::Fallback {
            which: "congestion state as polled in tcp_samples".to_owned(),
            why: format!("this kernel has no tracepoint {tracepoint}"),
        },
    }
}
