// SPDX-License-Identifier: GPL-2.0
/*
 * Every place where whylat touches the kernel, and what each probe does there; USDT probes, which the
 * user names, are in usdt.bpf.c. The probes' own logic is in their folders; this file is the list of
 * hooks. One program a hook serves all probes, because attaching costs more than what most of them do.
 *
 * detail `stats`:  sched_process_*, inet_sock_set_state, tcp_cong_state_set, tcp_retransmit_skb
 * detail `calls`:  also sock_send_length, sock_recv_length, tcp_probe, sched_switch
 * detail `waits`:  also sched_waking, and a clock on each CPU
 * detail `messages`: also netif_rx_entry, napi_gro_*_entry, netif_receive_skb, sk_data_ready,
 *                    skb_copy_datagram_iovec, tcp_sendmsg_locked, net_dev_queue, net_dev_start_xmit,
 *                    tcp_rcv_space_adjust, udp_fail_queue_rcv_skb, and the creation and end of sockets (control group)
 *
 * For tracepoints that some kernels lack there is a second program, at a function: hooks/features.rs
 * chooses.
 */
#include "kernel.h"
#include "ring.h"
#include "select.h"
#include "socket.h"
#include "walk.h"
#include "../tcp_stages/tcp_stages.bpf.h"
#include "../inventory/inventory.bpf.h"
#include "../tcp_stats/tcp_stats.bpf.h"
#include "../tcp_events/tcp_events.bpf.h"
#include "../watch/watch.bpf.h"
#include "../calls/calls.bpf.h"
#include "../stacks/stacks.bpf.h"
#include "../waits/waits.bpf.h"
#include "../spins/spins.bpf.h"
#include "../messages/receive.bpf.h"
#include "../messages/send.bpf.h"
#include "../udp/receive.bpf.h"
#include "../udp/send.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Messages are put together: detail `messages`. */
const volatile bool detail_messages = false;

/* Sent ones, too, for which some kernels lack hooks. */
const volatile bool detail_sent = false;

/* Puts the wire types into the object's BTF, from which Rust takes them. */
const struct socket_seen wire_socket_seen = {};
const struct listener_seen wire_listener_seen = {};
const struct tcp_event wire_tcp_event = {};
const struct tcp_sample wire_tcp_sample = {};
const struct stage_reading wire_stage_reading = {};
const struct socket_reading wire_socket_reading = {};
const struct call_record wire_call_record = {};
const struct call_batch wire_call_batch = {};
const struct record_header wire_record_header = {};
const enum record_kind wire_record_kind = 0;
const enum tcp_event_kind wire_tcp_event_kind = 0;
const enum stage wire_stage = 0;
const struct wait_record wire_wait_record = {};
const struct program_seen wire_program_seen = {};
const struct spin_seen wire_spin_seen = {};
const struct received_record wire_received_record = {};
const struct received_batch wire_received_batch = {};
const struct sent_record wire_sent_record = {};
const struct sent_batch wire_sent_batch = {};
const struct udp_seen wire_udp_seen = {};
const struct wait_batch wire_wait_batch = {};
const struct stack_seen wire_stack_seen = {};
const enum wait_object wire_wait_object = 0;
const enum wait_waker wire_wait_waker = 0;
const enum syscall_object wire_syscall_object = 0;
const enum syscall_timeout wire_syscall_timeout = 0;

/* ---- processes: who is recorded ---- */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(handle_sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	select_on_fork(parent->tgid, child->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(handle_sched_process_exec, struct task_struct *task)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	if (is_selected_comm(comm))
		select_task(task->tgid, TASK_RECORDED);
	if (detail_waits && is_recorded_task(task->tgid))
		program_emit(task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(handle_sched_process_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;

	/* the last thread: do_exit() has taken it off the count already */
	if (!task->signal->live.counter)
		bpf_map_delete_elem(&tasks, &tgid);
	return 0;
}

/* A field of TCP_SKB_CB(skb); its place in cb[] differs between kernels. */
#define SKB_CB(skb, type, field)                                                                   \
	(*(type *)((char *)(skb)->cb + bpf_core_field_offset(struct tcp_skb_cb, field)))

/* ---- connections: birth, death, trouble ---- */

static __always_inline void on_state(struct sock *sk, const struct tcp_sock *tp, int old_state,
				     int new_state)
{
	struct socket_state *st;
	u64 now_ns = bpf_ktime_get_ns();

	if (old_state == TCP_LISTEN) {
		/* else it is a copy on its way to an accepted socket (inet_csk_clone_lock()) */
		if (new_state == TCP_CLOSE)
			listener_on_change(sk, true);
		return;
	}
	if (new_state == TCP_ESTABLISHED) {
		socket_on_established(sk, tp, old_state == TCP_SYN_SENT, now_ns);
		return;
	}
	st = socket_recorded(sk);
	if (!st)
		return;
	if (new_state != TCP_CLOSE)
		socket_has_news(st, sk);
	event_emit(st->cookie, TCP_EVENT_STATE, old_state, new_state, 0, 0, now_ns);
	if (detail_sent) /* ACKs of a FIN, and after it, pass no other hook */
		send_on_ack(sk, tp, tp->snd_una, SENT_BY_STATE, now_ns);
	if (detail_calls && ledger_try_lock(st)) {
		stages_on_closing(st, sk, tp, new_state, now_ns);
		ledger_unlock(st);
	}
	if (new_state != TCP_CLOSE)
		return;
	if (detail_sent)
		send_on_close(sk);
	if (only_summaries)
		watch_on_close(st, sk, tp, now_ns);
	else
		events_on_close(st, sk, tp, detail_calls, now_ns);
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
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		on_state(sk, tp, old_state, new_state);
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
	if (detail_calls && ledger_try_lock(st)) {
		stages_on_congestion_state(st, sk, tp, ca_state, now_ns);
		ledger_unlock(st);
	}
	return 0;
}

/* The tracepoint tells of retransmissions that failed, too (__tcp_retransmit_skb()), and has a third argument for it. */
const volatile bool retransmit_tells_error = false;

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

	if (!st || !tp || (retransmit_tells_error && (int)ctx[2]))
		return 0;
	socket_has_news(st, sk);
	now_ns = bpf_ktime_get_ns();
	if (detail_sent)
		send_on_retransmit(sk, SKB_CB(skb, u32, seq), SKB_CB(skb, u32, end_seq));
	kind = retransmit_kind(sk, tp);
	segments = SKB_CB(skb, u16, tcp_gso_segs); /* tcp_skb_pcount() */
	event_emit(st->cookie, kind, 0, 0, segments ? segments : 1, tp->snd_nxt - tp->snd_una,
		   now_ns);
	if (kind == TCP_EVENT_TAIL_LOSS_PROBE && detail_calls && ledger_try_lock(st)) {
		stages_on_tail_loss_probe(st, sk, tp, now_ns);
		ledger_unlock(st);
	}
	return 0;
}

/* ---- detail `calls`: the ledger and the call log ---- */

/* `now_ns`: 0 if the clock is not read yet, which takes longer than most of what is done here. */
static __always_inline void on_segment(struct socket_state *st, struct sock *sk,
				       const struct tcp_sock *tp, u32 ack_seq, bool bare,
				       u64 now_ns)
{
	if (!ledger_try_lock(st))
		return;
	if (!now_ns)
		now_ns = bpf_ktime_get_ns();
	events_on_segment(st, tp, now_ns);
	stages_on_segment(st, sk, tp, ack_seq, bare, now_ns);
	ledger_unlock(st);
}

static __always_inline void messages_on_segment(struct sock *sk, const struct tcp_sock *tp,
						const struct sk_buff *skb, bool bare, u64 now_ns)
{
	if (!bare)
		receive_on_segment(sk, tp, skb, SKB_CB(skb, u32, seq), SKB_CB(skb, u32, end_seq),
				   now_ns);
	if (detail_sent)
		send_on_ack(sk, tp, SKB_CB(skb, u32, ack_seq), SENT_BY_ACK, now_ns);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(handle_tcp_probe, struct sock *sk, struct sk_buff *skb)
{
	const struct tcp_sock *tp;
	struct socket_state *st;
	bool bare, late;
	u64 now_ns = 0;

	if (!must_look(sk))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	bare = SKB_CB(skb, u32, seq) == SKB_CB(skb, u32, end_seq);
	if (detail_messages && READ_ONCE(*targets_of(sk))) {
		now_ns = bpf_ktime_get_ns();
		messages_on_segment(sk, tp, skb, bare, now_ns);
	}
	late = bare && ack_may_be_by_timer(tp);
	if (!late && !segment_may_matter(sk, tp) && !segment_may_wake(tp))
		return 0;
	st = socket_recorded(sk);
	if (!st)
		return 0;
	socket_has_news(st, sk);
	note_ready(&st->ledger, tp);
	if (late || segment_matters(st, sk, tp))
		on_segment(st, sk, tp, SKB_CB(skb, u32, ack_seq), bare, now_ns);
	return 0;
}

/* With --all, a socket that was open before is met at its first call. One that fails for want of a stream does not
 * begin it. */
static __always_inline struct socket_state *socket_met(struct sock *sk)
{
	const struct tcp_sock *tp;
	struct socket_state *st;
	u64 now_ns;

	if (!select_all || sk->sk_protocol != IPPROTO_TCP || !is_selected_netns(sk) ||
	    !has_stream(sk->__sk_common.skc_state))
		return NULL;
	tp = bpf_skc_to_tcp_sock(sk);
	st = tp ? socket_choose(sk, CHOSEN_TARGET) : NULL;
	if (!st || st->cookie)
		return st;
	now_ns = bpf_ktime_get_ns();
	socket_begin(st, sk, tp, 0, now_ns);
	/* that of a process is told with its owner */
	if (bpf_get_current_task_btf()->flags & PF_KTHREAD)
		socket_emit(st, sk, tp, 0, now_ns);
	return st;
}

/*
 * The recorded socket of a call, or NULL; only TCP sockets are ever recorded. `late`: its connection has closed; what
 * came before may still be taken, and what went wrong is told. One that the program has disconnected itself has other
 * numbers by now.
 */
static __always_inline struct socket_state *socket_at_call(struct sock *sk, bool *late)
{
	struct socket_state *st = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	*late = false;
	if (st && st->cookie)
		return st;
	*late = st && st->ended_cookie && remote_port(sk);
	return *late ? st : socket_met(sk);
}

/* A call on a socket that is closed is looked at, whatever else is: there are few. */
static __always_inline bool is_closed(const struct sock *sk)
{
	return sk->__sk_common.skc_state == TCP_CLOSE;
}

static __always_inline int on_send_call(struct sock *sk, int result, int flags)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct socket_state *st;
	struct call_end end;
	u64 now_ns;
	bool quiet, late;

	if (!tp || (!select_all && !must_look(sk) && sender_is_quiet(sk, tp) && !is_closed(sk)))
		return 0;
	st = socket_at_call(sk, &late);
	if (!st || (late && only_summaries))
		return 0;
	if (result > 0 && !late)
		socket_has_news(st, sk);
	if (!late)
		socket_owner(st, sk, tp);
	quiet = send_is_quiet(st, sk, tp);
	now_ns = bpf_ktime_get_ns();
	if (!late && ledger_try_lock(st)) {
		stages_on_send(st, sk, tp, quiet, now_ns);
		ledger_unlock(st);
	}
	if (only_summaries) {
		call_count(st->calls.writes, result);
		return 0;
	}
	if (detail_sent && st->chosen == CHOSEN_TARGET)
		send_on_call(sk, tp, result, now_ns);
	end = call_end_of(sk, true);
	call_ended(&end, tp, st, true, result, flags, 0, now_ns);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(handle_sock_send_length, struct sock *sk, int result, int flags)
{
	if (detail_sent && udp_is(sk))
		udp_on_send_call(sk, result);
	return on_send_call(sk, result, flags);
}

/* Where there is no such tracepoint. */
SEC("fexit/tcp_sendmsg")
int BPF_PROG(handle_tcp_sendmsg, struct sock *sk, struct msghdr *msg, u64 size, int result)
{
	return on_send_call(sk, result, 0);
}

static __always_inline int on_receive_call(struct sock *sk, int result, int flags)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct socket_state *st;
	struct call_end end = {};
	u64 now_ns, unread_ns = 0;
	bool late;

	if (!tp || (!select_all && !must_look(sk) && reader_is_quiet(tp) && !is_closed(sk)))
		return 0;
	st = socket_at_call(sk, &late);
	if (!st || (late && only_summaries))
		return 0;
	if (result > 0 && !late)
		socket_has_news(st, sk);
	now_ns = bpf_ktime_get_ns();
	if (!late)
		socket_owner(st, sk, tp);
	if (only_summaries)
		receive_count(st, result, flags);
	else
		end = call_end_of(sk, false);
	if (detail_messages && st->chosen == CHOSEN_TARGET) {
		if (takes_bytes(result, flags))
			receive_on_call(sk, tp, st, result, now_ns);
		else
			receive_on_peek(sk);
	}
	if (result > 0 && !late && !(flags & (MSG_ERRQUEUE | MSG_OOB)))
		unread_ns = stages_on_receive(st, sk, tp, result, call_blocking(&end), now_ns);
	call_ended(&end, tp, st, false, result, flags, unread_ns, now_ns);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(handle_sock_recv_length, struct sock *sk, int result, int flags)
{
	if (detail_messages && udp_is(sk))
		udp_on_receive_call(sk, result, flags);
	return on_receive_call(sk, result, flags);
}

/* Where there is no such tracepoint. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(handle_tcp_recvmsg, struct sock *sk, struct msghdr *msg, u64 len, int flags,
	     int *addr_len, int result)
{
	return on_receive_call(sk, result, flags);
}

/* The same before Linux 5.19. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(handle_tcp_recvmsg_nonblock, struct sock *sk, struct msghdr *msg, u64 len,
	     int nonblock, int flags, int *addr_len, int result)
{
	return on_receive_call(sk, result, flags);
}

/* The thread gives its CPU away, because it cannot go on. Returns when, 0 if it is not recorded. */
static __always_inline u64 thread_on_block(void *ctx, struct task_struct *task, unsigned int state)
{
	struct thread_state *thread;
	struct syscall_args args;
	struct sock *sk;

	syscall_read(task, &args);
	if (!detail_waits && !is_socket_call(args.number))
		return 0;
	thread = thread_recorded(task);
	if (!thread)
		return 0;
	sk = call_socket(task, &args);
	if (!detail_waits && !sk)
		return 0;
	thread->out_ns = bpf_ktime_get_ns();
	thread->in_call = sk != NULL;
	if (sk)
		call_on_block(&thread->call, task, sk, args.number, thread->out_ns);
	if (detail_waits) {
		wait_begin(&thread->wait, task, &args, state, thread->out_ns);
		thread->wait.stack = stack_of_program(ctx, task, &thread->stacks);
	}
	return thread->out_ns;
}

/* The thread runs again. `now_ns`: 0 if the clock is not read yet. */
static __always_inline void thread_on_resume(struct task_struct *task, u64 now_ns)
{
	struct thread_state *thread = thread_known(task);

	if (!thread || !thread->out_ns)
		return;
	if (!now_ns)
		now_ns = bpf_ktime_get_ns();
	if (thread->in_call)
		call_on_resume(&thread->call, now_ns - thread->out_ns, now_ns);
	if (detail_waits && thread->wait.start_ns) {
		if (now_ns - thread->out_ns >= KERNEL_STACK_LEAST_NS)
			thread->wait.kernel_stack = stack_of_kernel(task, &thread->stacks);
		wait_end(&thread->wait, task, now_ns);
	}
	thread->blocked_ns = thread->out_ns;
	thread->back_ns = now_ns;
	thread->out_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(handle_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 now_ns = 0;

	if (prev_state && !preempt && !(prev->flags & PF_KTHREAD))
		now_ns = thread_on_block(ctx, prev, prev_state);
	if (!(next->flags & PF_KTHREAD))
		thread_on_resume(next, now_ns);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(handle_sched_waking, struct task_struct *task)
{
	struct thread_state *thread;

	if (task->flags & PF_KTHREAD)
		return 0;
	thread = thread_known(task);
	if (thread)
		wait_woken(&thread->wait, task);
	return 0;
}

/* ---- detail `messages` ---- */

SEC("tp_btf/netif_rx_entry")
int BPF_PROG(handle_netif_rx_entry, const struct sk_buff *skb)
{
	arrival_begins(skb);
	return 0;
}

SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(handle_napi_gro_receive_entry, const struct sk_buff *skb)
{
	arrival_begins(skb);
	return 0;
}

SEC("tp_btf/napi_gro_frags_entry")
int BPF_PROG(handle_napi_gro_frags_entry, const struct sk_buff *skb)
{
	arrival_begins(skb);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(handle_netif_receive_skb, struct sk_buff *skb)
{
	arrival_ends(skb);
	if (READ_ONCE(udp_recorded))
		udp_on_input(skb);
	return 0;
}

static __always_inline int on_data_ready(struct sock *sk)
{
	const struct tcp_sock *tp;

	if (!READ_ONCE(*targets_of(sk)))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		receive_on_ready(sk, tp);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(handle_sk_data_ready, const struct sock *sk)
{
	if (udp_is(sk))
		udp_on_ready((struct sock *)sk);
	return on_data_ready((struct sock *)sk);
}

/* Where there is no such tracepoint: what sk->sk_data_ready is, unless the kernel itself reads. */
SEC("fentry/sock_def_readable")
int BPF_PROG(handle_sock_def_readable, struct sock *sk)
{
	return on_data_ready(sk);
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(handle_skb_copy_datagram_iovec, const struct sk_buff *skb, int len)
{
	struct sock *sk = skb->sk;

	if (sk && READ_ONCE(*targets_of(sk)))
		receive_on_copy(sk);
	else if (!sk && READ_ONCE(udp_recorded))
		udp_on_copy(skb);
	return 0;
}

/* What the kernel itself reads, or decodes first (TLS), is not the program's. */
static __always_inline void on_take(struct sock *sk, struct task_struct *task, bool maps)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct socket_state *st;
	bool late;

	if (!tp || tp->inet_conn.icsk_ulp_ops || in_interrupt(task))
		return;
	st = socket_at_call(sk, &late);
	if (!st || st->chosen != CHOSEN_TARGET)
		return;
	if (!late)
		socket_owner(st, sk, tp);
	receive_on_take(sk, tp, st, maps, bpf_ktime_get_ns());
}

/* A receive call passes here, too, and tells of itself when it ends. */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(handle_tcp_rcv_space_adjust, struct sock *sk)
{
	struct task_struct *task;
	struct syscall_args args;

	if (!select_all && !READ_ONCE(*targets_of(sk)))
		return 0;
	task = bpf_get_current_task_btf();
	syscall_read(task, &args);
	if (args.number == SYS_splice || args.number == SYS_getsockopt || args.number == NO_SYSCALL)
		on_take(sk, task, args.number == SYS_getsockopt);
	return 0;
}

static __always_inline int on_sendmsg(struct sock *sk)
{
	const struct tcp_sock *tp;

	if (!READ_ONCE(*targets_of(sk)))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		send_on_begin(sk, tp);
	return 0;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(handle_tcp_sendmsg_locked, const struct sock *sk)
{
	return on_sendmsg((struct sock *)sk);
}

/* Where there is no such tracepoint: the function of that name. */
SEC("fentry/tcp_sendmsg_locked")
int BPF_PROG(handle_tcp_sendmsg_locked_entry, struct sock *sk)
{
	return on_sendmsg(sk);
}

/* Whose packet goes out, if it may be a target's: a TCP socket that has storage, unlike a request. */
static __always_inline bool is_sender(const struct sock *sk)
{
	return READ_ONCE(*targets_of(sk)) && sk->__sk_common.skc_state != TCP_NEW_SYN_RECV &&
	       sk->__sk_common.skc_state != TCP_TIME_WAIT && sk->sk_protocol == IPPROTO_TCP;
}

/* The same of UDP; sk_protocol is no field of what stands for a TCP socket in these states. */
static __always_inline bool is_udp_sender(const struct sock *sk)
{
	return READ_ONCE(udp_recorded) && sk->__sk_common.skc_state != TCP_NEW_SYN_RECV &&
	       sk->__sk_common.skc_state != TCP_TIME_WAIT && udp_is(sk);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(handle_net_dev_queue, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	if (sk && is_sender(sk))
		send_on_queue(sk, skb);
	else if (sk && is_udp_sender(sk))
		udp_on_queue(sk, skb);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(handle_net_dev_start_xmit, const struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	if (sk && is_sender(sk))
		send_on_driver(sk, skb);
	else if (sk && is_udp_sender(sk))
		udp_on_driver(sk, skb);
	return 0;
}

SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(handle_udp_fail_queue_rcv_skb, int rc, struct sock *sk)
{
	udp_on_drop(sk);
	return 0;
}

/* Where control groups of version 2 are: sockets are recorded from their creation on. */
SEC("cgroup/sock_create")
int handle_sock_create(struct bpf_sock *ctx)
{
	if (ctx->protocol == IPPROTO_UDP && (ctx->family == AF_INET || ctx->family == AF_INET6))
		udp_on_create(ctx);
	return 1;
}

SEC("cgroup/sock_release")
int handle_sock_release(struct bpf_sock *ctx)
{
	if (ctx->protocol == IPPROTO_UDP && READ_ONCE(udp_recorded))
		udp_on_close(ctx);
	return 1;
}

/* A clock's look at the CPU: in an interrupt, the thread that it interrupted is the current one. */
SEC("perf_event")
int look_at_cpu(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *thread;
	struct syscall_args args;

	if (task->flags & PF_KTHREAD)
		return 0;
	syscall_read(task, &args);
	if (!asks_without_waiting(task, &args))
		return 0;
	thread = thread_recorded(task);
	if (thread)
		spin_emit(thread, task, &args, stack_of_program(ctx, task, &thread->stacks));
	return 0;
}

/* ---- run by the recorder, attached to nothing ---- */

/* Learns where the CPU on which it is run keeps what is per CPU. */
SEC("raw_tp")
int learn_cpu(void *ctx)
{
	learn_cpu_distance();
	return 0;
}

/* Hands over the batches of the CPU on which it is run (BPF_F_TEST_RUN_ON_CPU). */
SEC("raw_tp")
int flush_batches(void *ctx)
{
	struct received_batch *received;
	struct call_batch *calls;
	struct wait_batch *waits;
	struct sent_batch *sent;

	for (u32 which = 0; which < 2; which++) {
		u32 key = which;

		calls = bpf_map_lookup_elem(&call_batches, &key);
		if (calls && batch_flush_begin(&calls->batch)) {
			call_batch_flush(calls);
			batch_flush_end(&calls->batch);
		}
	}
	for (u32 by = 0; by < SENT_BY_COUNT; by++) {
		sent = sent_batch(by);
		if (sent && batch_flush_begin(&sent->batch)) {
			sent_batch_flush(sent);
			batch_flush_end(&sent->batch);
		}
	}
	waits = wait_batch();
	if (waits && batch_flush_begin(&waits->batch)) {
		wait_batch_flush(waits);
		batch_flush_end(&waits->batch);
	}
	for (u32 by = 0; by < RECEIVED_BY_COUNT; by++) {
		received = received_batch(by);
		if (received && batch_flush_begin(&received->batch)) {
			received_batch_flush(received);
			batch_flush_end(&received->batch);
		}
	}
	return 0;
}

/* Walks all open files: sockets that were open before, and owners. */
SEC("iter/task_file")
int walk_task_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket || !socket->sk)
		return 0;
	if (socket->sk->sk_protocol == IPPROTO_TCP)
		socket_on_walk(task, socket->sk);
	else if (detail_messages && udp_is(socket->sk))
		udp_on_walk(task, socket->sk);
	return 0;
}

/* A poll begins: sockets that it has read already are left out by its further walks. */
SEC("raw_tp")
int BPF_PROG(begin_poll, u64 which, u64 over_active, u64 default_level, u64 has_levels)
{
	walk_begin(which, over_active, default_level, has_levels);
	return 0;
}

/* False if the ring is full. */
static __always_inline bool read_sample(struct socket_state *st, struct sock *sk,
					const struct tcp_sock *tp)
{
	struct tcp_sample_record *record = bpf_ringbuf_reserve(&readings, sizeof(*record), 0);

	if (!record)
		return false;
	record->header.kind = RECORD_TCP_SAMPLE;
	sample_fill(&record->sample, st, sk, tp, false, bpf_ktime_get_ns());
	sample_remember(&st->sampled, tp);
	record_submit(record);
	walked.sockets++;
	return true;
}

/* False if the ring is full. A ledger that a hook is changing at this moment is left to the next
 * poll. */
static __always_inline bool read_ledger(struct socket_state *st, struct sock *sk,
					const struct tcp_sock *tp)
{
	struct stage_reading_record *record = bpf_ringbuf_reserve(&readings, sizeof(*record), 0);
	u64 now_ns;

	/* its sample may be read already, and not be new any more */
	st->ledger.changed = 1;
	if (!record)
		return false;
	if (!ledger_try_lock(st)) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return true;
	}
	now_ns = bpf_ktime_get_ns();
	events_on_segment(st, tp, now_ns);
	stages_on_read(st, sk, tp, now_ns);
	st->ledger.changed = 0;
	stages_copy(&record->reading, st, sk, tp, false);
	ledger_unlock(st);
	record->header.kind = RECORD_STAGE_READING;
	record_submit(record);
	walked.ledgers++;
	return true;
}

/* Walks the recorded sockets: statistics and ledgers, where something happened since the last poll. */
SEC("iter/bpf_sk_storage_map")
int read_sockets(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	/* as the iterator shows it, to be read only at constant offsets */
	const struct socket_state *shown = ctx->value;
	struct sock *sk = ctx->sk;
	const struct tcp_sock *tp;
	struct socket_state *st;
	bool sampled;

	if (!sk || !shown) {
		walk_end();
		return 0;
	}
	if (!shown->cookie || shown->sampled.round == walked.round)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	sampled = sample_is_new(&shown->sampled, tp);
	if (!sampled && !(detail_calls && shown->ledger.changed)) {
		walk_count_unchanged();
		return 0;
	}
	st = socket_recorded(sk);
	if (!st)
		return 0;
	if ((!sampled || read_sample(st, sk, tp)) && (!detail_calls || read_ledger(st, sk, tp)))
		st->sampled.round = walked.round;
	else
		walked.postponed++;
	return 0;
}

/* The same of all that is watched, each socket at its own rate. */
SEC("iter/bpf_sk_storage_map")
int read_watched(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const struct socket_state *shown = ctx->value;
	struct sock *sk = ctx->sk;

	if (sk && shown)
		return watch_visit(sk, shown);
	walk_end();
	return 0;
}

/* The same of those that are active, over `active_sockets`. */
SEC("iter/bpf_sk_storage_map")
int read_active(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;

	if (sk && ctx->value)
		watch_visit_active(sk);
	else
		walk_end();
	return 0;
}

/* When nothing is attached any more: what was sent and is not acknowledged. */
SEC("iter/bpf_sk_storage_map")
int read_sending(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;

	if (sk && ctx->value)
		send_on_close(sk);
	return 0;
}

/* The same of UDP, and the last row of each socket. */
SEC("iter/bpf_sk_storage_map")
int read_udp(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;

	if (sk && ctx->value)
		udp_on_end(sk);
	return 0;
}

/*
 * Advances the ledgers of sockets of which an end has closed: no hook sees their ACKs. Their
 * statistics are not read, which is done at random times only.
 */
SEC("iter/bpf_sk_storage_map")
int read_draining(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const struct socket_state *shown = ctx->value;
	struct sock *sk = ctx->sk;
	const struct tcp_sock *tp;
	struct socket_state *st;

	if (!sk || !shown || !shown->cookie || !shown->ledger.unseen || shown->ledger.ended)
		return 0;
	walked.draining++;
	tp = bpf_skc_to_tcp_sock(sk);
	st = socket_recorded(sk);
	if (!tp || !st || tp->write_seq == tp->snd_una || !ledger_try_lock(st))
		return 0;
	stages_on_read(st, sk, tp, bpf_ktime_get_ns());
	ledger_unlock(st);
	return 0;
}
