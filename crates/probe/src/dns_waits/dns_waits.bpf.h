/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Waits for name servers: those of table `waits` on a UDP socket that is connected to port 53, with the server's address
 * and whether anything came. Other waits pay one comparison. No payload is read.
 */
#ifndef WHYLAT_DNS_WAITS_BPF_H
#define WHYLAT_DNS_WAITS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/syscall.h"
#include "../bpf/thread.h"
#include "dns_waits.h"

#define DNS_PORT 53 /* RFC 1035, section 4.2.1 */

struct dns_wait_record {
	struct record_header header;
	struct dns_wait seen;
};

static __always_inline void read_server(u8 *out, struct sock *sk)
{
	u32 v4 = KERNEL_READ(struct sock, sk, __sk_common.skc_daddr);
	const struct in6_addr *v6 = &sk->__sk_common.skc_v6_daddr;

	__builtin_memset(out, 0, 16);
	if (KERNEL_READ(struct sock, sk, __sk_common.skc_family) == AF_INET6) {
		bpf_probe_read_kernel(out, 16, v6->in6_u.u6_addr8);
		return;
	}
	out[10] = 0xff;
	out[11] = 0xff;
	__builtin_memcpy(out + 12, &v4, 4);
}

/* The thread runs again, in the call in which it waited for a datagram. */
static __always_inline void dns_wait_over(struct task_struct *task, const struct thread_wait *wait,
					  u64 now_ns)
{
	struct dns_wait_record *record;
	struct sock *sk = file_socket(task_file(task, wait->fd));
	u16 port;

	if (!sk || KERNEL_READ(struct sock, sk, sk_protocol) != IPPROTO_UDP)
		return;
	port = bpf_ntohs(KERNEL_READ(struct sock, sk, __sk_common.skc_dport));
	if (port != DNS_PORT)
		return;
	record = record_reserve(RECORD_DNS_WAIT, sizeof(*record));
	if (!record)
		return;
	record->seen.start_ns = wait->start_ns;
	record->seen.end_ns = now_ns;
	record->seen.socket = wait->object;
	read_server(record->seen.server_addr, sk);
	record->seen.tid = task->pid;
	record->seen.pid = task->tgid;
	record->seen.error = KERNEL_READ(struct sock, sk, sk_err);
	record->seen.server_port = port;
	record->seen.answered = KERNEL_READ(struct sock, sk, sk_receive_queue.qlen) != 0;
	record->seen.pad = 0;
	record_submit(record);
}

/* For Rust, by way of the object's BTF. */
const struct dns_wait wire_dns_wait = {};

#endif
