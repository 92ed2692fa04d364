/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Receive calls of UDP: when one ends, the datagram that it took is found among those that were noted when they
 * arrived, and both become a record.
 */
#ifndef WHYLAT_UDP_RECEIVE_BPF_H
#define WHYLAT_UDP_RECEIVE_BPF_H

#include "../messages/receive.bpf.h"
#include "take.bpf.h"

#define MSG_TRUNC 0x20 /* include/linux/socket.h */
#define EFAULT 14

/* When this thread last copied of a packet that is no socket's, on this CPU. */
struct udp_copy {
	u64 skb;
	u64 copy_ns;
	u32 tid;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct udp_copy);
} udp_copies SEC(".maps");

/* skb_copy_datagram_iovec, of a packet that is no socket's: of large datagrams. */
static __always_inline void udp_on_copy(const struct sk_buff *skb)
{
	struct udp_copy *copy;
	u32 key = 0;

	copy = bpf_map_lookup_elem(&udp_copies, &key);
	if (!copy)
		return;
	copy->skb = (u64)skb;
	copy->copy_ns = bpf_ktime_get_ns();
	copy->tid = bpf_get_current_task_btf()->pid;
}

/* When this thread copied of the packet that it has taken. */
static __always_inline void udp_copied(struct udp_copy *copied, u32 tid)
{
	u32 key = 0;
	struct udp_copy *copy = bpf_map_lookup_elem(&udp_copies, &key);

	if (!copy || copy->tid != tid)
		return;
	*copied = *copy;
	copy->tid = 0;
}

/* Returns when the call began to copy the datagram; 0: not seen, or it was another packet of that address. */
static __always_inline u64 datagram_copied_ns(const struct datagram *at,
					      const struct udp_copy *copied)
{
	if (!at || at->skb != copied->skb || copied->copy_ns < at->arrived_ns + at->until_taken_ns)
		return 0;
	return copied->copy_ns;
}

/* `had_ns`: when the reader had it for certain, though its socket may be known later. */
static __always_inline void udp_received_fill(struct received_record *to, const struct datagram *at,
					      const struct thread_state *thread, u64 had_ns)
{
	bool known = at && at->arrived_ns && at->arrived_ns + at->until_taken_ns <= had_ns;

	to->first_ns = to->last_ns = known ? at->arrived_ns : 0;
	to->tcp_ns = known ? at->arrived_ns + at->until_taken_ns : 0;
	to->ready_ns = known ? at->arrived_ns + at->until_ready_ns : 0;
	if (to->ready_ns > had_ns)
		to->ready_ns = had_ns;
	to->segments = at ? at->segments : 1;
	to->receive_cpu = at ? at->cpu : 0;
	if (thread)
		message_wake(to, thread, to->ready_ns);
	else
		to->woken_ns = to->run_ns = 0;
}

static __always_inline void udp_received(const struct udp_socket *udp, const struct datagram *at,
					 const struct udp_taking *taking,
					 const struct udp_copy *copied, u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct received_batch *batch = received_batch(RECEIVED_BY_CALL);
	struct received_record *to;
	u32 place;

	if (!batch)
		return;
	place = batch_begin(&batch->batch);
	if (place < RECEIVED_BATCH_LEN) {
		to = &batch->records[place];
		to->cookie = udp->seen.cookie;
		to->done_ns = now_ns;
		to->copy_ns = datagram_copied_ns(at, copied);
		udp_received_fill(to, at, thread_known(task), to->copy_ns ? to->copy_ns : now_ns);
		to->doubt_ns = 0;
		to->offset_end = udp->received_bytes;
		to->bytes = taking->bytes;
		to->spliced_bytes = 0;
		to->tid = task->pid;
		to->pid = task->tgid;
		to->cpu = bpf_get_smp_processor_id();
		to->bits = MESSAGE_DATAGRAM;
		to->cut_or_nic = 0;
		if (at && at->len != LEN_UNKNOWN && at->len > taking->bytes)
			to->cut_or_nic = at->len - taking->bytes;
		batch_made(&batch->batch, place);
		if (place + 1 == RECEIVED_BATCH_LEN)
			received_batch_flush(batch);
	}
	batch_end(&batch->batch);
}

/* struct user_msghdr */
struct message_header {
	u64 name;
	u64 name_len;
	u64 pieces; /* struct iovec * */
	u64 pieces_len;
};

struct message_piece {
	u64 at;
	u64 len;
};

/* Bytes for which a recvmsg() has room, if it is in one piece; -1: not known. */
static __always_inline s64 message_room(struct task_struct *task)
{
	struct message_header header;
	struct message_piece piece;
	struct syscall_args args;

	syscall_read(task, &args);
	if (args.number != SYS_recvmsg || has_ring(task) ||
	    bpf_probe_read_user(&header, sizeof(header), (const void *)args.second) ||
	    header.pieces_len != 1 ||
	    bpf_probe_read_user(&piece, sizeof(piece), (const void *)header.pieces))
		return -1;
	return piece.len;
}

/* sock_recv_length: a call has ended. */
static __always_inline void udp_on_receive_call(struct sock *sk, int result, int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct udp_socket *udp = udp_socket_find(sk, true);
	struct udp_taking taking = {};
	struct udp_copy copied = {};
	struct datagram *at;
	u64 now_ns;

	udp_copied(&copied, task->pid);
	if (!udp || flags & (MSG_PEEK | MSG_ERRQUEUE) || (result < 0 && result != -EFAULT))
		return;
	now_ns = bpf_ktime_get_ns();
	taking.asked = asked_bytes(task, sk);
	if (taking.asked < 0)
		taking.asked = message_room(task);
	taking.tid = task->pid;
	taking.bytes = result;
	taking.copied = copied.skb;
	taking.had_ns = copied.copy_ns ? copied.copy_ns : now_ns;
	taking.port = sk->__sk_common.skc_num;
	taking.netns = (u64)sk->__sk_common.skc_net.net;
	at = udp_take(sk, &taking);
	/* it failed and the datagram is lost, or there was none: the socket is shut down */
	if (result < 0 || (!result && !at))
		return;
	if (flags & MSG_TRUNC && taking.asked >= 0 && taking.asked < result)
		taking.bytes = taking.asked;
	__sync_fetch_and_add(&udp->seen.received, 1);
	udp->received_bytes += taking.bytes;
	udp_on_message(udp, sk, now_ns);
	udp_received(udp, at, &taking, &copied, now_ns);
}

#endif
