//! Attaching and detaching what is loaded.

use std::os::fd::{IntoRawFd, OwnedFd};

use libbpf_rs::{Link, MapCore, ProgramMut};

use super::iterate::read_iterator;
use super::select::Leaves;
use super::{Hooks, HooksError};

/// What is attached; dropped to detach.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) hooks: Vec<Link>,
    pub(super) walk: Option<Link>,
    pub(super) subflows: Option<Link>,
    pub(super) sockets: Option<Link>,
    pub(super) active: Option<Link>,
    pub(super) draining: Option<Link>,
    pub(super) sending: Option<Link>,
    pub(super) udp: Option<Link>,
}

impl Hooks<'_> {
    /// Attaches every loaded program. Sockets that are open already are found by
    /// [`walk`](Self::walk).
    pub fn attach(&self) -> Result<(), HooksError> {
        let p = &self.skel.progs;
        let hooks = [
            (&p.handle_sched_process_fork, "sched_process_fork"),
            (&p.handle_sched_process_exec, "sched_process_exec"),
            (&p.handle_sched_process_exit, "sched_process_exit"),
            (&p.handle_inet_sock_set_state, "inet_sock_set_state"),
            (&p.handle_tcp_cong_state_set, "tcp_cong_state_set"),
            (&p.handle_tcp_retransmit_skb, "tcp_retransmit_skb"),
            (&p.handle_sched_switch, "sched_switch"),
            (&p.handle_sched_waking, "sched_waking"),
            (&p.handle_tcp_probe, "tcp_probe"),
            (&p.handle_sock_send_length, "sock_send_length"),
            (&p.handle_tcp_sendmsg, "tcp_sendmsg"),
            (&p.handle_sock_recv_length, "sock_recv_length"),
            (&p.handle_tcp_recvmsg, "tcp_recvmsg"),
            (&p.handle_tcp_recvmsg_nonblock, "tcp_recvmsg_nonblock"),
            (&p.handle_netif_rx_entry, "netif_rx_entry"),
            (&p.handle_napi_gro_receive_entry, "napi_gro_receive_entry"),
            (&p.handle_napi_gro_frags_entry, "napi_gro_frags_entry"),
            (&p.handle_netif_receive_skb, "netif_receive_skb"),
            (&p.handle_sk_data_ready, "sk_data_ready"),
            (&p.handle_sock_def_readable, "sock_def_readable"),
            (&p.handle_skb_copy_datagram_iovec, "skb_copy_datagram_iovec"),
            (&p.handle_tcp_rcv_space_adjust, "tcp_rcv_space_adjust"),
            (&p.handle_tcp_sendmsg_locked, "tcp_sendmsg_locked"),
            (
                &p.handle_tcp_sendmsg_locked_entry,
                "tcp_sendmsg_locked_entry",
            ),
            (&p.handle_net_dev_queue, "net_dev_queue"),
            (&p.handle_net_dev_start_xmit, "net_dev_start_xmit"),
            (&p.handle_udp_fail_queue_rcv_skb, "udp_fail_queue_rcv_skb"),
        ];
        let mut attached = self.attached.take();
        for (program, name) in hooks {
            if program.autoload() {
                attached
                    .hooks
                    .push(program.attach().map_err(HooksError::attach(name))?);
            }
        }
        for clock in &self.clocks {
            attached.hooks.push(start_clock(&p.look_at_cpu, clock)?);
        }
        let walk = p
            .walk_task_files
            .attach()
            .map_err(HooksError::attach("walk_task_files"))?;
        attached.walk = Some(walk);
        if p.walk_subflows.autoload() {
            let subflows = p.walk_subflows.attach();
            attached.subflows = Some(subflows.map_err(HooksError::attach("walk_subflows"))?);
        }
        let maps = &self.skel.maps;
        let over = |map: &dyn MapCore, program: &ProgramMut<'_>, name| {
            let link = program.attach_iter(map.as_fd());
            link.map_err(HooksError::attach(name))
        };
        attached.sockets = Some(match self.leaves {
            Leaves::Records => over(&maps.sockets, &p.read_sockets, "read_sockets")?,
            Leaves::Summaries => over(&maps.sockets, &p.read_watched, "read_watched")?,
        });
        if self.has_active {
            let active = over(&maps.active_sockets, &p.read_active, "read_active")?;
            attached.active = Some(active);
        }
        if self.has_calls {
            let draining = over(&maps.sockets, &p.read_draining, "read_draining")?;
            attached.draining = Some(draining);
        }
        if p.read_sending.autoload() {
            let sending = over(&maps.send_streams, &p.read_sending, "read_sending")?;
            attached.sending = Some(sending);
        }
        if p.read_udp.autoload() {
            let udp = over(&maps.udp_sockets, &p.read_udp, "read_udp")?;
            attached.udp = Some(udp);
        }
        self.attached.replace(attached);
        Ok(())
    }

    /// Detaches every program, and has those messages handed over that are not acknowledged yet. Records that
    /// are on their way can still be drained.
    pub fn detach(&self) -> Result<(), HooksError> {
        let mut attached = self.attached.take();
        attached.hooks.clear();
        read_iterator(attached.udp.as_ref(), "UDP sockets")?;
        read_iterator(attached.sending.as_ref(), "sent messages")
    }
}

/// Lets a clock run the program on its CPU. libbpf closes the descriptor that it is given.
fn start_clock(program: &ProgramMut<'_>, clock: &OwnedFd) -> Result<Link, HooksError> {
    let failed = HooksError::attach("look_at_cpu");
    let own = clock.try_clone().map_err(|error| failed(error.into()))?;
    let link = program.attach_perf_event(own.into_raw_fd());
    link.map_err(failed)
}
