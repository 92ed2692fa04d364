// SPDX-License-Identifier: GPL-2.0
/*
 * Every place where whylat touches the kernel, and what each probe does there; USDT probes, which the
 * user names, are in usdt.bpf.c. The probes' own logic is in their folders; this file, and the four that
 * it includes at its end, are the list of hooks. One program a hook serves all probes, because attaching
 * costs more than what most of them do.
 *
 * detail `stats`:  sched_process_*, inet_sock_set_state, tcp_cong_state_set, tcp_retransmit_skb; of drops: kfree_skb,
 *                  tcp_send_reset, tcp_receive_reset, sock_rcvqueue_full, udp_fail_queue_rcv_skb, icmp_send
 * detail `calls`:  also sock_send_length, sock_recv_length, tcp_probe, sched_switch, inet_sk_error_report, io_uring_complete
 * detail `waits`:  also sched_waking, and a clock on each CPU; calls on UNIX streams and UDP
 *                    sockets at the hooks above, and addresses of datagrams (control group);
 *                    sk_data_ready of UDP
 * detail `messages`: also netif_rx_entry, napi_gro_*_entry, netif_receive_skb, sk_data_ready,
 *                    skb_copy_datagram_iovec, tcp_sendmsg_locked, net_dev_queue, net_dev_start_xmit,
 *                    tcp_rcv_space_adjust, and the creation and end of sockets (control group)
 *
 * What leaves the kernel, each probe's header puts into the object's BTF (`wire_*`), from which Rust takes it.
 *
 * For tracepoints that some kernels do not have there is a second program, at a function: interface/features.rs
 * chooses.
 */
#include "kernel.h"
#include "ring.h"
#include "select.h"
#include "socket.h"
#include "walk.h"
#include "../tcp_stages/tcp_stages.bpf.h"
#include "../inventory/inventory.bpf.h"
#include "../inventory/walk.bpf.h"
#include "../failed_connects/failed_connects.bpf.h"
#include "../tcp_stats/tcp_stats.bpf.h"
#include "../tcp_events/tcp_events.bpf.h"
#include "../watch/watch.bpf.h"
#include "../calls/calls.bpf.h"
#include "../unix_sockets/unix_sockets.bpf.h"
#include "../udp_flows/udp_flows.bpf.h"
#include "../stacks/stacks.bpf.h"
#include "../waits/waits.bpf.h"
#include "../preemptions/preemptions.bpf.h"
#include "../busy_poll/busy_poll.bpf.h"
#include "../on_cpu_samples/on_cpu_samples.bpf.h"
#include "../messages/receive.bpf.h"
#include "../messages/send.bpf.h"
#include "../udp/receive.bpf.h"
#include "../udp/send.bpf.h"
#include "../drops/drops.bpf.h"
#include "../zerocopy/zerocopy.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Messages are put together: detail `messages`. */
const volatile bool detail_messages = false;

/* Sent ones, too: some kernels do not have hooks for them. */
const volatile bool detail_sent = false;

/* ---- processes: who is recorded ---- */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(handle_sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	select_on_fork(parent->tgid, child->tgid);
	return 0;
}

/*
 * Returns whether a recorded process is none of the selected ones any more, as the program that it has
 * become.
 */
static __always_inline bool is_not_meant(struct task_struct *task, const char *comm)
{
	u8 why = task_why(task->tgid);

	if (select_comm[0] && why == TASK_RECORDED)
		return !is_selected_comm(comm);
	/* descriptors that the program is not to have are closed by now (do_close_on_exec()) */
	return select_port && why == TASK_OWNER && !owner_has_socket(task);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(handle_sched_process_exec, struct task_struct *task)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	if (is_selected_comm(comm))
		select_task(task->tgid, TASK_RECORDED);
	else if (is_not_meant(task, comm)) {
		if (detail_waits)
			preemptions_end(task);
		task_forget(task);
	}
	if (detail_waits && is_asked_for(task->tgid))
		program_emit(task);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(handle_sched_process_exit, struct task_struct *task)
{
	if (detail_waits)
		preemptions_exit(task);
	/* the last thread: do_exit() has taken it off the count already */
	if (!task->signal->live.counter)
		task_end(task->tgid);
	return 0;
}

/* A field of TCP_SKB_CB(skb); its place in cb[] differs between kernels. */
#define SKB_CB(skb, type, field)                                                                   \
	(*(type *)((char *)(skb)->cb + bpf_core_field_offset(struct tcp_skb_cb, field)))

/* ---- connections: birth, death, problems ---- */

/* A connection that is there goes on to another state. */
static __always_inline void on_later_state(struct socket_state *st, struct sock *sk,
					   const struct tcp_sock *tp, int old_state, int new_state)
{
	u64 now_ns = bpf_ktime_get_ns();

	st->closed_ns = new_state == TCP_CLOSE ? now_ns : 0;
	if (new_state != TCP_CLOSE)
		socket_has_news(st, sk);
	event_emit(st->cookie, TCP_EVENT_STATE, old_state, new_state, 0, 0, now_ns);
	if (detail_sent) /* ACKs of a FIN, and after it, pass no other hook */
		send_on_ack(sk, tp, tp->snd_una, SENT_BY_STATE, now_ns);
	if (detail_ledger && ledger_try_lock(st)) {
		stages_on_closing(st, sk, tp, new_state, now_ns);
		ledger_unlock(st);
	}
}

/* It has closed: on_later_state() has run, unless the kernel ran its program for another socket at that time. */
static __always_inline void on_close(struct socket_state *st, struct sock *sk,
				     const struct tcp_sock *tp, u32 by)
{
	u64 now_ns = st->closed_ns ? st->closed_ns : bpf_ktime_get_ns();

	st->closed_ns = 0;
	if (detail_sent)
		send_on_close(sk, by);
	if (only_summaries)
		watch_on_close(st, sk, tp, now_ns);
	else
		events_on_close(st, sk, tp, detail_ledger, now_ns);
	if (has_mptcp)
		mptcp_take_owner(st->mptcp, &st->process);
	socket_emit(st, sk, tp, now_ns, now_ns);
	socket_end(st, sk, tp);
}

/* A socket connects, perhaps again: what is known of its streams is of a connection before. */
static __always_inline void messages_forget(struct sock *sk)
{
	bpf_sk_storage_delete(&receive_streams, sk);
	bpf_sk_storage_delete(&segment_stamps, sk);
	bpf_sk_storage_delete(&send_streams, sk);
}

/*
 * Four programs at one hook, which run one after another, where one would do. A larger one takes more than its share to
 * load, and the kernel lets nobody else have the CPU while it patches and compiles it; that of Linux 6.1 does not verify
 * it at all.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(handle_failed_connect, struct sock *sk, int old_state, int new_state)
{
	const struct tcp_sock *tp;

	if (sk->sk_protocol != IPPROTO_TCP || old_state != TCP_SYN_SENT || new_state != TCP_CLOSE)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		connect_failed(sk, tp, bpf_ktime_get_ns());
	return 0;
}

/* A socket begins to connect or to listen, or a connection is there. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(handle_inet_sock_set_state, struct sock *sk, int old_state, int new_state)
{
	const struct tcp_sock *tp;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (new_state == TCP_SYN_SENT) {
		if (detail_messages)
			messages_forget(sk);
		socket_on_own_call(sk, ROLE_CLIENT);
		return 0;
	}
	if (new_state == TCP_LISTEN) {
		socket_on_own_call(sk, ROLE_SERVER);
		listener_on_change(sk, false);
		return 0;
	}
	if (old_state == TCP_LISTEN) {
		/* else it is a copy on its way to an accepted socket (inet_csk_clone_lock()) */
		if (new_state == TCP_CLOSE)
			listener_on_change(sk, true);
		return 0;
	}
	if (new_state != TCP_ESTABLISHED)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		socket_on_established(sk, tp, old_state == TCP_SYN_SENT, bpf_ktime_get_ns());
	return 0;
}

/* Does the socket keep its connection, or lose it? */
static __always_inline bool is_later_state(int old_state, int new_state)
{
	return old_state != TCP_LISTEN && new_state != TCP_SYN_SENT && new_state != TCP_LISTEN &&
	       new_state != TCP_ESTABLISHED;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(handle_later_state, struct sock *sk, int old_state, int new_state)
{
	const struct tcp_sock *tp;
	struct socket_state *st;

	if (sk->sk_protocol != IPPROTO_TCP || !is_later_state(old_state, new_state))
		return 0;
	st = socket_recorded(sk);
	tp = bpf_skc_to_tcp_sock(sk);
	if (st && tp)
		on_later_state(st, sk, tp, old_state, new_state);
	return 0;
}

/* The same of one that closes, after that. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(handle_connection_close, struct sock *sk, int old_state, int new_state)
{
	const struct tcp_sock *tp;
	struct socket_state *st;

	if (sk->sk_protocol != IPPROTO_TCP || old_state == TCP_LISTEN || new_state != TCP_CLOSE)
		return 0;
	st = socket_recorded(sk);
	tp = bpf_skc_to_tcp_sock(sk);
	if (st && tp)
		on_close(st, sk, tp, SENT_BY_LAST_STATE);
	return 0;
}

/*
 * The kernel runs no program inside itself on one CPU. So it may leave out a connection's last change of state, where a
 * softirq brings it while another one is reported. That connection ends here, a little later.
 */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(handle_tcp_destroy_sock, struct sock *sk)
{
	struct socket_state *st = socket_recorded(sk);
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (st && tp)
		on_close(st, sk, tp, SENT_BY_DESTROY);
	return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(handle_tcp_cong_state_set, struct sock *sk, u8 ca_state)
{
	struct socket_state *st = socket_recorded(sk);
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u64 now_ns;

	if (!st || !tp)
		return 0;
	socket_has_news(st, sk);
	now_ns = bpf_ktime_get_ns();
	event_emit(st->cookie, TCP_EVENT_CONGESTION_STATE, tcp_ca_state(tp), ca_state, 0, 0,
		   now_ns);
	if (detail_ledger && ledger_try_lock(st)) {
		stages_on_congestion_state(st, sk, tp, ca_state, now_ns);
		ledger_unlock(st);
	}
	return 0;
}

/* The tracepoint reports retransmissions that failed, too (__tcp_retransmit_skb()), and has a third argument for it. */
const volatile bool retransmit_has_error = false;

SEC("tp_btf/tcp_retransmit_skb")
int handle_tcp_retransmit_skb(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct sk_buff *skb = (struct sk_buff *)ctx[1];
	struct socket_state *st = socket_recorded(sk);
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u16 segments;
	u64 now_ns;
	u8 kind;

	if (!st || !tp || (retransmit_has_error && (int)ctx[2]))
		return 0;
	socket_has_news(st, sk);
	now_ns = bpf_ktime_get_ns();
	if (detail_sent)
		send_on_retransmit(sk, SKB_CB(skb, u32, seq), SKB_CB(skb, u32, end_seq));
	kind = retransmit_kind(sk, tp);
	segments = SKB_CB(skb, u16, tcp_gso_segs); /* tcp_skb_pcount() */
	event_emit_range(st->cookie, kind, 0, 0, segments ? segments : 1, tp->snd_nxt - tp->snd_una,
			 SKB_CB(skb, u32, seq), SKB_CB(skb, u32, end_seq), now_ns);
	if (kind == TCP_EVENT_TAIL_LOSS_PROBE && detail_ledger && ledger_try_lock(st)) {
		stages_on_tail_loss_probe(st, sk, tp, now_ns);
		ledger_unlock(st);
	}
	return 0;
}

/* ---- the rest, by what asks for it ---- */

#include "hooks_calls.bpf.h"
#include "hooks_zerocopy.bpf.h"
#include "hooks_messages.bpf.h"
#include "recorder.bpf.h"
#include "netns_walk.bpf.h"
