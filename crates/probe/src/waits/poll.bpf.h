/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * poll() and select(): the descriptors that a thread waits for, read from the call's own arguments when
 * the thread leaves the CPU, and which of them was ready when it was woken. One that waits for a single
 * descriptor waits for its file.
 */
#ifndef WHYLAT_POLL_BPF_H
#define WHYLAT_POLL_BPF_H

#include "../bpf/kernel.h"
#include "../bpf/syscall.h"
#include "../bpf/thread.h"

/* Descriptors of a select() that are examined: a program with more of them has left it behind. */
#define SELECT_DESCRIPTORS 256
#define SET_WORD_BITS 64

/* include/uapi/asm-generic/poll.h */
struct pollfd {
	s32 fd;
	short events;
	short revents;
};

/* Functions that the verifier looks at by themselves: their loops would be too much in one piece. */

__noinline int polled_by_poll(struct polled *polled, const struct syscall_args *args)
{
	struct pollfd one;
	u64 len;

	if (!polled || !args)
		return 0;
	len = args->second;
	polled->has_more = len > POLLED;
	for (u32 i = 0; i < POLLED && i < len; i++) {
		const struct pollfd *at = (const struct pollfd *)args->fd + i;

		if (bpf_probe_read_user(&one, sizeof(one), at))
			return 0;
		polled->fds[i] = one.fd;
		polled->len = i + 1;
	}
	return 0;
}

/* Those of one word of a set, which begins with descriptor `fd` and holds `bits`. */
__noinline int polled_by_word(struct polled *polled, u64 bits, u32 fd)
{
	if (!polled)
		return 0;
	for (u32 i = 0; i < SET_WORD_BITS && bits; i++, fd++, bits >>= 1) {
		if (!(bits & 1))
			continue;
		if (polled->len >= POLLED) {
			polled->has_more = 1;
			return 0;
		}
		/* kept in memory only: the verifier must not distinguish the numbers of bits */
		polled->fds[polled->len & (POLLED - 1)] = fd;
		polled->len++;
	}
	return 0;
}

__noinline int polled_by_select(struct polled *polled, const struct syscall_args *args)
{
	u64 bits, most;

	if (!polled || !args)
		return 0;
	most = args->fd;
	/* the other sets, of descriptors to be written or with errors, are not examined */
	polled->has_more = args->len || most > SELECT_DESCRIPTORS;
	for (u32 fd = 0; fd < SELECT_DESCRIPTORS && fd < most; fd += SET_WORD_BITS) {
		const u64 *word = (const u64 *)args->second + fd / SET_WORD_BITS;

		if (bpf_probe_read_user(&bits, sizeof(bits), word))
			return 0;
		if (most - fd < SET_WORD_BITS)
			bits &= (1ULL << (most - fd)) - 1;
		polled_by_word(polled, bits, fd);
	}
	return 0;
}

/* The only descriptor that is waited for; -1: there are none or several. */
static __always_inline s32 polled_alone(const struct polled *polled)
{
	return polled->len == 1 && !polled->has_more ? polled->fds[0] : -1;
}

/* Returns whether the socket has data to read, or the other end has closed. Notified of sockets only. */
static __always_inline bool sock_is_readable(struct sock *sk)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	u8 state;

	if (KERNEL_READ(struct sock, sk, sk_receive_queue.qlen))
		return true;
	if (KERNEL_READ(struct sock, sk, sk_protocol) != IPPROTO_TCP)
		return false;
	state = KERNEL_READ(struct sock, sk, __sk_common.skc_state);
	if (state == TCP_LISTEN)
		return BPF_CORE_READ(&tp->inet_conn, icsk_accept_queue.rskq_accept_head) != NULL;
	return state != TCP_ESTABLISHED && state != TCP_SYN_SENT && state != TCP_SYN_RECV;
}

/* sched_waking: the first descriptor that is ready, as the call will find it. */
static __always_inline s32 polled_ready(const struct polled *polled, struct task_struct *task)
{
	for (u32 i = 0; i < POLLED && i < polled->len; i++) {
		struct sock *sk = file_socket(task_file(task, polled->fds[i]));

		if (sk && sock_is_readable(sk))
			return polled->fds[i];
	}
	return -1;
}

#endif
