/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Hooks of zero-copy sends: reports that they are over. A part of hooks.bpf.c. */
#ifndef WHYLAT_HOOKS_ZEROCOPY_BPF_H
#define WHYLAT_HOOKS_ZEROCOPY_BPF_H

SEC("tp_btf/inet_sk_error_report")
int BPF_PROG(handle_inet_sk_error_report, struct sock *sk)
{
	zerocopy_on_report(sk);
	return 0;
}

/* Up to Linux 6.14 the tracepoint has the parts of a completion, since then the completion. */
const volatile bool complete_has_cqe = false;

SEC("tp_btf/io_uring_complete")
int handle_io_uring_complete(u64 *ctx)
{
	const struct io_uring_cqe *cqe;

	if (complete_has_cqe) {
		cqe = (const void *)ctx[2];
		zerocopy_on_complete((const void *)ctx[0], (const void *)ctx[1],
				     BPF_CORE_READ(cqe, user_data), BPF_CORE_READ(cqe, res),
				     BPF_CORE_READ(cqe, flags));
	} else {
		zerocopy_on_complete((const void *)ctx[0], (const void *)ctx[1], ctx[2], ctx[3],
				     ctx[4]);
	}
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(handle_zerocopy_close, struct sock *sk, int old_state, int new_state)
{
	if (new_state == TCP_CLOSE && sk->sk_protocol == IPPROTO_TCP)
		zerocopy_on_end(sk);
	return 0;
}

/* When nothing is attached any more. */
SEC("iter/bpf_sk_storage_map")
int read_zerocopy(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;

	if (sk && ctx->value)
		zerocopy_on_end(sk);
	return 0;
}

/* One connection's zero-copy sends of io_uring. */
static long read_uring(void *map, u64 *cookie, struct zerocopy_socket *zc, void *ctx)
{
	if (zc->changed)
		zerocopy_emit(zc, bpf_ktime_get_ns());
	return 0;
}

/* The same of io_uring. */
SEC("raw_tp")
int read_zerocopy_uring(void *ctx)
{
	bpf_for_each_map_elem(&zerocopy_by_uring, read_uring, NULL, 0);
	return 0;
}

#endif
