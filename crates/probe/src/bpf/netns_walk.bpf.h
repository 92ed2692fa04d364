/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The walks of recorder.bpf.h for kernels that refuse iterators over maps: each is over all sockets of one network
 * namespace, and leaves out those that are not recorded. User space has a walk done in every namespace of
 * `walked_netns`, and then says that it has ended. A part of hooks.bpf.c.
 */
#ifndef WHYLAT_NETNS_WALK_BPF_H
#define WHYLAT_NETNS_WALK_BPF_H

/* The TCP socket that a walk finds, as its storage is found by; NULL: one without a stream. */
static __always_inline struct sock *walked_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *found = ctx->sk_common;

	return found ? (struct sock *)bpf_skc_to_tcp_sock(found) : NULL;
}

static __always_inline struct socket_state *walked_state(struct sock *sk)
{
	return sk ? bpf_sk_storage_get(&sockets, sk, NULL, 0) : NULL;
}

/* A poll has walked all namespaces. */
SEC("raw_tp")
int end_poll(void *ctx)
{
	walk_end();
	return 0;
}

SEC("iter/tcp")
int read_sockets_of_netns(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = walked_tcp(ctx);
	struct socket_state *st = walked_state(sk);

	if (st)
		socket_visit(sk, st);
	return 0;
}

SEC("iter/tcp")
int read_watched_of_netns(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = walked_tcp(ctx);
	struct socket_state *st = walked_state(sk);

	return st ? watch_visit(sk, st) : 0;
}

SEC("iter/tcp")
int read_draining_of_netns(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = walked_tcp(ctx);
	struct socket_state *st = walked_state(sk);

	if (st)
		draining_visit(sk, st);
	return 0;
}

SEC("iter/tcp")
int read_sending_of_netns(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = walked_tcp(ctx);

	if (sk)
		send_on_close(sk, SENT_BY_LAST_STATE);
	return 0;
}

SEC("iter/tcp")
int read_zerocopy_of_netns(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = walked_tcp(ctx);

	if (sk)
		zerocopy_on_end(sk);
	return 0;
}

SEC("iter/udp")
int read_udp_of_netns(struct bpf_iter__udp *ctx)
{
	struct udp_sock *found = ctx->udp_sk;

	if (found)
		udp_on_end((struct sock *)found);
	return 0;
}

#endif
