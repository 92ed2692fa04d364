/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Hooks of details `calls` and `waits`: ledger, call log, threads. A part of hooks.bpf.c. */
#ifndef WHYLAT_HOOKS_CALLS_BPF_H
#define WHYLAT_HOOKS_CALLS_BPF_H

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
	bool bare, late, unstamped;
	u32 seq, end_seq, ack_seq;
	u64 now_ns = 0;

	if (window_is_closed() || !is_watched(sk))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	seq = SKB_CB(skb, u32, seq);
	end_seq = SKB_CB(skb, u32, end_seq);
	ack_seq = SKB_CB(skb, u32, ack_seq);
	bare = seq == end_seq;
	if (detail_messages && READ_ONCE(*targets_of(sk))) {
		now_ns = bpf_ktime_get_ns();
		messages_on_segment(sk, tp, skb, bare, now_ns);
	}
	late = bare && ack_may_be_by_timer(tp);
	unstamped = data_is_unstamped(tp, seq, end_seq, ack_seq);
	if (!late && !unstamped && !segment_may_matter(sk, tp) && !segment_may_wake(tp))
		return 0;
	st = socket_recorded(sk);
	if (!st)
		return 0;
	socket_has_news(st, sk);
	if (unstamped) {
		now_ns = now_ns ? now_ns : bpf_ktime_get_ns();
		note_arrival(&st->ledger, tp, end_seq, now_ns);
	} else {
		note_ready(st, tp);
	}
	if (detail_ledger && (late || segment_matters(st, sk, tp)))
		on_segment(st, sk, tp, ack_seq, bare, now_ns);
	return 0;
}

/*
 * A socket that no other hook saw is found at its first call: with --all one that was open before, else one that
 * another process has passed to a recorded one. A call that fails without a stream does not begin it.
 */
static __always_inline struct socket_state *socket_find(struct sock *sk)
{
	const struct tcp_sock *tp;
	struct socket_state *st;
	u64 now_ns;

	if (!is_target_current() || sk->sk_protocol != IPPROTO_TCP || !is_selected_netns(sk) ||
	    !has_stream(sk->__sk_common.skc_state))
		return NULL;
	tp = bpf_skc_to_tcp_sock(sk);
	st = tp ? socket_choose(sk, CHOSEN_TARGET) : NULL;
	if (!st || st->cookie)
		return st;
	now_ns = bpf_ktime_get_ns();
	socket_begin(st, sk, tp, 0, now_ns);
	/* that of a process is reported with its owner */
	if (bpf_get_current_task_btf()->flags & PF_KTHREAD)
		socket_emit(st, sk, tp, 0, now_ns);
	return st;
}

/*
 * The recorded socket of a call, or NULL; only TCP sockets are ever recorded. `late`: its connection has closed; what
 * came before may still be taken, and what went wrong is reported. One that the program has disconnected itself has other
 * numbers by now.
 */
static __always_inline struct socket_state *socket_at_call(struct sock *sk, bool *late)
{
	struct socket_state *st = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	*late = false;
	if (st && st->cookie)
		return st;
	*late = st && st->ended_cookie && remote_port(sk);
	return *late ? st : socket_find(sk);
}

/* A call on a socket that is closed is examined, whatever else is: there are few. */
static __always_inline bool is_closed(const struct sock *sk)
{
	return sk->__sk_common.skc_state == TCP_CLOSE;
}

/* A call on an MPTCP socket, which moves bytes of its subflows. */
static __always_inline void on_mptcp_call(struct sock *sk, bool is_send, int result, int flags)
{
	u64 key = (u64)sk;
	struct mptcp_connection *known = bpf_map_lookup_elem(&mptcp_connections, &key);

	if (!known)
		return;
	mptcp_owner(known);
	if (!only_summaries)
		mptcp_call_ended(known, sk, is_send, result, flags);
	else if (is_send)
		call_count(known->calls.writes, result);
	else if (takes_bytes(result, flags))
		call_count(known->calls.reads, result);
}

/* A call on a UDP socket. */
static __always_inline void on_udp_call(struct sock *sk, bool is_send, int result, int flags)
{
	udp_owner_found(sk);
	if (detail_sent && is_send)
		udp_on_send_call(sk, result);
	if (detail_messages && !is_send)
		udp_on_receive_call(sk, result, flags);
	if (detail_waits && !only_summaries)
		udp_flow_on_call(sk, is_send, result, flags);
}

/* A call on what is no TCP socket. */
static __always_inline int on_other_call(struct sock *sk, bool is_send, int result, int flags)
{
	kinds_on_call(sk, is_send, result, flags);
	if (udp_is(sk))
		on_udp_call(sk, is_send, result, flags);
	else if (has_mptcp_calls && is_mptcp(sk))
		on_mptcp_call(sk, is_send, result, flags);
	else if (detail_waits && !only_summaries && unix_is_stream(sk))
		unix_on_call(sk, is_send, result, flags);
	return 0;
}

/* Returns whether no hook needs a call: its socket is not recorded, and its process was not selected. */
static __always_inline bool is_unasked_call(const struct sock *sk, const struct tcp_sock *tp,
					    bool is_send)
{
	return !select_all && !is_watched(sk) &&
	       (is_send ? sender_is_quiet(sk, tp) : reader_is_quiet(tp)) && !is_closed(sk) &&
	       !is_target_current();
}

static __always_inline int on_send_call(struct sock *sk, const struct tcp_sock *tp, int result,
					int flags)
{
	struct task_struct *task;
	struct socket_state *st;
	struct call_end end;
	u64 now_ns;
	bool quiet, late, cut = false;

	if (is_unasked_call(sk, tp, true))
		return 0;
	st = socket_at_call(sk, &late);
	if (!st || (late && only_summaries))
		return 0;
	task = bpf_get_current_task_btf();
	if (result > 0 && !late)
		socket_has_news(st, sk);
	if (!late)
		cut = socket_owner(st, task, sk, tp);
	quiet = send_is_quiet(st, sk, tp);
	now_ns = bpf_ktime_get_ns();
	if (detail_ledger && !late && ledger_try_lock(st)) {
		stages_on_send(st, sk, tp, quiet, now_ns);
		ledger_unlock(st);
	}
	if (only_summaries) {
		call_count(st->calls.writes, result);
		return 0;
	}
	if (detail_sent && st->chosen == CHOSEN_TARGET)
		send_on_call(sk, tp, result, now_ns);
	end = call_end_of(task, sk, true);
	end.cut |= cut;
	if (result > 0)
		end.transmit_ns = transmit_ns(tp, now_ns);
	call_ended(&end, tp, st, true, result, flags, 0, now_ns);
	return 0;
}

/* ---- addresses of datagrams (cgroup2): of calls that name one ---- */

SEC("cgroup/sendmsg4")
int udp_sendmsg4(struct bpf_sock_addr *ctx)
{
	return udp_note_address(ctx, false);
}

SEC("cgroup/sendmsg6")
int udp_sendmsg6(struct bpf_sock_addr *ctx)
{
	return udp_note_address(ctx, true);
}

SEC("cgroup/recvmsg4")
int udp_recvmsg4(struct bpf_sock_addr *ctx)
{
	return udp_note_address(ctx, false);
}

SEC("cgroup/recvmsg6")
int udp_recvmsg6(struct bpf_sock_addr *ctx)
{
	return udp_note_address(ctx, true);
}

/* A datagram has come into a socket's queue. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(handle_udp_data_ready, const struct sock *sk)
{
	if (udp_is(sk))
		udp_time_note((struct sock *)sk);
	return 0;
}

/* A send call on a socket of any family has ended. */
static __always_inline int on_socket_send(struct sock *sk, int result, int flags)
{
	const struct tcp_sock *tp;

	if (!sk || window_is_closed())
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	return tp ? on_send_call(sk, tp, result, flags) : on_other_call(sk, true, result, flags);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(handle_sock_send_length, struct sock *sk, int result, int flags)
{
	return on_socket_send(sk, result, flags);
}

/* Where there is no such tracepoint (before Linux 6.3): functions of the socket layer. */
SEC("fexit/inet_sendmsg")
int BPF_PROG(handle_inet_sendmsg, struct socket *sock, struct msghdr *msg, u64 size, int result)
{
	return on_socket_send(sock->sk, result, 0);
}

SEC("fexit/inet6_sendmsg")
int BPF_PROG(handle_inet6_sendmsg, struct socket *sock, struct msghdr *msg, u64 size, int result)
{
	return on_socket_send(sock->sk, result, 0);
}

/* Where those cannot be attached. */
SEC("fexit/tcp_sendmsg")
int BPF_PROG(handle_tcp_sendmsg, struct sock *sk, struct msghdr *msg, u64 size, int result)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	return !tp || window_is_closed() ? 0 : on_send_call(sk, tp, result, 0);
}

/* A call on a UNIX socket has ended, where no tracepoint sees it. */
static __always_inline int on_unix_function(struct sock *sk, bool is_send, int result, int flags)
{
	if (sk && !window_is_closed())
		unix_on_call(sk, is_send, result, flags);
	return 0;
}

SEC("fexit/unix_stream_sendmsg")
int BPF_PROG(handle_unix_stream_sendmsg, struct socket *sock, struct msghdr *msg, u64 size,
	     int result)
{
	return on_unix_function(sock->sk, true, result, 0);
}

SEC("fexit/unix_seqpacket_sendmsg")
int BPF_PROG(handle_unix_seqpacket_sendmsg, struct socket *sock, struct msghdr *msg, u64 size,
	     int result)
{
	return on_unix_function(sock->sk, true, result, 0);
}

SEC("fexit/unix_stream_recvmsg")
int BPF_PROG(handle_unix_stream_recvmsg, struct socket *sock, struct msghdr *msg, u64 size,
	     int flags, int result)
{
	return on_unix_function(sock->sk, false, result, flags);
}

SEC("fexit/unix_seqpacket_recvmsg")
int BPF_PROG(handle_unix_seqpacket_recvmsg, struct socket *sock, struct msghdr *msg, u64 size,
	     int flags, int result)
{
	return on_unix_function(sock->sk, false, result, flags);
}

static __always_inline int on_receive_call(struct sock *sk, const struct tcp_sock *tp, int result,
					   int flags)
{
	struct task_struct *task;
	struct socket_state *st;
	struct call_end end = {};
	u64 now_ns, unread_ns = 0;
	bool late, cut = false;

	if (is_unasked_call(sk, tp, false))
		return 0;
	st = socket_at_call(sk, &late);
	if (!st || (late && only_summaries))
		return 0;
	task = bpf_get_current_task_btf();
	if (result > 0 && !late)
		socket_has_news(st, sk);
	now_ns = bpf_ktime_get_ns();
	if (!late)
		cut = socket_owner(st, task, sk, tp);
	if (only_summaries)
		receive_count(st, result, flags);
	else
		end = call_end_of(task, sk, false);
	end.cut |= cut;
	if (result > 0 && !late && !(flags & (MSG_ERRQUEUE | MSG_OOB)))
		unread_ns = stages_on_receive(st, sk, tp, takes_bytes(result, flags) ? result : 0,
					      call_blocking(&end), now_ns);
	if (detail_messages && st->chosen == CHOSEN_TARGET) {
		if (takes_bytes(result, flags))
			receive_on_call(sk, tp, st, result, now_ns);
		else
			receive_on_peek(sk);
	}
	call_ended(&end, tp, st, false, result, flags, unread_ns, now_ns);
	return 0;
}

/* A receive call on a socket of any family has ended. */
static __always_inline int on_socket_receive(struct sock *sk, int result, int flags)
{
	const struct tcp_sock *tp;

	if (!sk || window_is_closed())
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	return tp ? on_receive_call(sk, tp, result, flags)
		  : on_other_call(sk, false, result, flags);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(handle_sock_recv_length, struct sock *sk, int result, int flags)
{
	return on_socket_receive(sk, result, flags);
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(handle_inet_recvmsg, struct socket *sock, struct msghdr *msg, u64 size, int flags,
	     int result)
{
	return on_socket_receive(sock->sk, result, flags);
}

SEC("fexit/inet6_recvmsg")
int BPF_PROG(handle_inet6_recvmsg, struct socket *sock, struct msghdr *msg, u64 size, int flags,
	     int result)
{
	return on_socket_receive(sock->sk, result, flags);
}

/* Where those cannot be attached. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(handle_tcp_recvmsg, struct sock *sk, struct msghdr *msg, u64 len, int flags,
	     int *addr_len, int result)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	return !tp || window_is_closed() ? 0 : on_receive_call(sk, tp, result, flags);
}

/* The same before Linux 5.19. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(handle_tcp_recvmsg_nonblock, struct sock *sk, struct msghdr *msg, u64 len,
	     int nonblock, int flags, int *addr_len, int result)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	return !tp || window_is_closed() ? 0 : on_receive_call(sk, tp, result, flags);
}

/* The thread gives its CPU away, because it cannot go on. Returns when, 0 if that is not measured. */
static __always_inline u64 thread_on_block(void *ctx, struct task_struct *task, unsigned int state)
{
	struct thread_state *thread;
	struct syscall_args args;
	struct sock *sk;
	bool is_recorded;

	syscall_read(task, &args);
	if (!detail_waits && !is_socket_call(args.number))
		return 0;
	thread = thread_measured(task);
	if (!thread)
		return 0;
	thread_begin_window(thread);
	is_recorded = detail_waits && !thread->only_calls;
	sk = call_socket(task, &args);
	if (!is_recorded && !sk)
		return 0;
	thread->out_ns = bpf_ktime_get_ns();
	thread->in_call = sk != NULL;
	if (sk)
		call_on_block(&thread->call, task, sk, args.number, state, thread->out_ns);
	if (is_recorded) {
		wait_begin(&thread->wait, task, &args, state, thread->out_ns);
		thread->wait.stack = stack_of_program(ctx, task, &thread->stacks);
	}
	return thread->out_ns;
}

/* The thread leaves its CPU and could go on. Returns when, 0 if that is not measured. */
static __always_inline u64 thread_on_preempt(struct task_struct *task, struct task_struct *next,
					     bool preempt)
{
	struct thread_state *thread = thread_measured(task);
	u64 now_ns;

	if (!thread || thread->only_calls)
		return 0;
	thread_begin_window(thread);
	/* if it was blocked, no hook saw the end of that: it is not now */
	thread->out_ns = 0;
	thread->wait.start_ns = 0;
	now_ns = bpf_ktime_get_ns();
	preemption_begin(thread, task, next, preempt, now_ns);
	return now_ns;
}

/* Begins the window of a thread that left its CPU before it: a call that is open then is cut. */
static __always_inline void thread_begin_cut(struct thread_state *thread, struct task_struct *task)
{
	struct syscall_args args;

	syscall_read(task, &args);
	thread_begin_window(thread);
	thread->cut_call = is_socket_call(args.number);
}

/* The thread runs again. `now_ns`: 0 if the clock is not read yet. */
static __always_inline void thread_on_resume(struct task_struct *task, u64 now_ns)
{
	struct thread_state *thread = has_windows ? thread_measured(task) : thread_known(task);

	if (thread && !thread_is_current(thread)) {
		thread_begin_cut(thread, task);
		return;
	}
	if (!thread || (!thread->out_ns && !thread->preempted))
		return;
	if (!now_ns)
		now_ns = bpf_ktime_get_ns();
	if (detail_waits && thread->preempted)
		preemption_end(thread, task, now_ns);
	if (!thread->out_ns)
		return;
	if (thread->in_call)
		call_on_resume(&thread->call, now_ns - thread->out_ns, now_ns);
	if (detail_waits && thread->wait.start_ns) {
		if (now_ns - thread->out_ns >= KERNEL_STACK_LEAST_NS)
			thread->wait.kernel_stack = stack_of_kernel(task, &thread->stacks);
		wait_end(&thread->wait, task, now_ns);
		preemptions_waited(thread, now_ns);
	}
	thread->left_ns = thread->out_ns;
	thread->resumed_ns = now_ns;
	thread->out_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(handle_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 now_ns = 0;

	if (window_is_closed())
		return 0;
	if (!(prev->flags & PF_KTHREAD)) {
		if (prev_state && !preempt)
			now_ns = thread_on_block(ctx, prev, prev_state);
		else if (detail_waits)
			now_ns = thread_on_preempt(prev, next, preempt);
	}
	if (!(next->flags & PF_KTHREAD))
		thread_on_resume(next, now_ns);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(handle_sched_waking, struct task_struct *task)
{
	struct thread_state *thread;

	if (window_is_closed() || task->flags & PF_KTHREAD)
		return 0;
	thread = thread_known(task);
	if (thread && thread_is_current(thread))
		wait_woken(&thread->wait, task);
	return 0;
}

#endif
