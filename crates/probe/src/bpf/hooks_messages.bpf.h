/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Hooks of detail `messages`. A part of hooks.bpf.c. */
#ifndef WHYLAT_HOOKS_MESSAGES_BPF_H
#define WHYLAT_HOOKS_MESSAGES_BPF_H

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

/* Bytes that the kernel itself reads, or decodes first (TLS), are not the program's. */
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
		socket_owner(st, bpf_get_current_task_btf(), sk, tp);
	receive_on_take(sk, tp, st, maps, bpf_ktime_get_ns());
}

/* A receive call passes here, too, and reports itself when it ends. */
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

/* Returns the sender of a packet, if it may be a target: a TCP socket that has storage, unlike a request. */
static __always_inline bool is_sender(const struct sock *sk)
{
	return READ_ONCE(*targets_of(sk)) && sk->__sk_common.skc_state != TCP_NEW_SYN_RECV &&
	       sk->__sk_common.skc_state != TCP_TIME_WAIT && sk->sk_protocol == IPPROTO_TCP;
}

/* The same of UDP; sk_protocol is no field of what represents a TCP socket in these states. */
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
	if (detail_messages)
		udp_on_drop(sk);
	drop_on_udp(ctx);
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
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *thread;
	struct syscall_args args;
	u32 stack;
	u64 ip;

	if (window_is_closed() || task->flags & PF_KTHREAD)
		return 0;
	thread = thread_measured(task);
	if (!thread || thread->only_calls)
		return 0;
	syscall_read(task, &args);
	stack = stack_of_sample(ctx, task, &thread->stacks, &ip);
	on_cpu_sample_emit(ctx, task, &args, stack, ip);
	if (asks_without_waiting(task, &args))
		spin_emit(thread, task, &args, stack, ip);
	return 0;
}

#endif
