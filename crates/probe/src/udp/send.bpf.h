/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Sent datagrams: no hook shows that a call begins, but its packets come to the queue of the device, and mostly
 * to the driver, before it ends, in its own thread. So a message begins with its first packet, or with the end
 * of the call if none was found: what is corked waits for the call that lets it go, and what waits for the
 * address of a neighbour goes out when that is known. It is handed over when the call has ended and all its
 * packets have gone to the driver.
 */
#ifndef WHYLAT_UDP_SEND_BPF_H
#define WHYLAT_UDP_SEND_BPF_H

#include "../messages/send.bpf.h"
#include "socket.bpf.h"

/* A power of two. */
#define UDP_SENDS 16

#define UDP_SEND_CORKED 4 /* beside SEND_*: later calls may add to the datagram */

struct udp_send {
	u64 skb; /* its packet, of several the last; 0: none yet */
	u64 queue_ns;
	u64 driver_ns;
	u64 done_ns;
	u64 offset_end;
	u32 bits; /* SEND_*, UDP_SEND_CORKED */
	u32 bytes;
	u32 tid;
	u32 pid;
	u32 queued; /* packets that came to the queue */
	u32 driven;
	u16 cpu;
	u16 driver_cpu;
	u32 pad;
};

struct udp_sender {
	u64 cookie;
	u32 tail;
	u32 waiting; /* not handed over */
	struct udp_send sends[UDP_SENDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_sender);
} udp_senders SEC(".maps");

static __always_inline void udp_sent_fill(struct sent_record *to, u64 cookie,
					  const struct udp_send *send)
{
	to->cookie = cookie;
	to->call_ns = to->tcp_ns = to->acked_ns = 0;
	to->done_ns = send->done_ns;
	to->queue_ns = send->queue_ns;
	to->driver_ns = send->driver_ns;
	to->offset_end = send->offset_end;
	to->bytes = send->bytes;
	to->spliced_bytes = 0;
	to->tid = send->tid;
	to->pid = send->pid;
	to->resent = 0;
	to->cpu = send->cpu;
	to->driver_cpu = send->driver_cpu;
	to->packets = send->queued;
	to->bits = MESSAGE_DATAGRAM;
}

/* Lets go of a message, and hands it over if it is one; unless that was done already. */
__noinline int udp_send_end(struct udp_sender *sender, struct udp_send *send, u32 by)
{
	struct sent_batch *batch;
	u32 at, bits;

	if (!sender || !send)
		return 0;
	bits = __sync_fetch_and_or(&send->bits, SEND_HANDED);
	if (bits & SEND_HANDED)
		return 0;
	__sync_fetch_and_add(&sender->waiting, -1);
	if (!(bits & SEND_DONE))
		return 0;
	batch = sent_batch(by);
	if (!batch)
		return 0;
	at = batch_begin(&batch->batch);
	if (at < SENT_BATCH_LEN) {
		udp_sent_fill(&batch->records[at], sender->cookie, send);
		batch_made(&batch->batch, at);
		if (at + 1 == SENT_BATCH_LEN)
			sent_batch_flush(batch);
	}
	batch_end(&batch->batch);
	return 0;
}

/* A new message of this thread. The oldest is dropped, though not all of it has been seen. */
__noinline int udp_send_begin(struct udp_sender *sender, u32 tid, u32 pid, u32 by)
{
	struct udp_send *send;
	u32 at;

	if (!sender)
		return 0;
	at = __sync_fetch_and_add(&sender->tail, 1) & (UDP_SENDS - 1);
	send = &sender->sends[at];
	if (send->tid)
		udp_send_end(sender, send, by);
	__sync_fetch_and_add(&sender->waiting, 1);
	send->skb = send->queue_ns = send->driver_ns = 0;
	send->queued = send->driven = 0;
	send->tid = tid;
	send->pid = pid;
	barrier();
	send->bits = 0;
	return at;
}

#define NO_SEND UDP_SENDS

/* Masked in sight of the verifier, which does not know what functions return. */
static __always_inline struct udp_send *udp_send_at(struct udp_sender *sender, u32 at)
{
	barrier_var(at);
	return &sender->sends[at & (UDP_SENDS - 1)];
}

/* Holds what is searched for: by its packet, else by thread, else the oldest of a state. */
struct udp_wanted {
	u64 skb;
	u32 tid;      /* thread with a call under way; 0: none */
	u32 unqueued; /* ended, and without a packet; else with a packet that is not driven */
	u32 found;    /* or NO_SEND */
	u32 by_packet;
};

static __always_inline bool udp_is_wanted(const struct udp_send *send,
					  const struct udp_wanted *wanted)
{
	if (wanted->tid)
		return send->tid == wanted->tid && !(send->bits & SEND_DONE);
	if (wanted->unqueued)
		return !send->queued && send->bits == SEND_DONE;
	return send->queued > send->driven;
}

/* Looks at one. Whether it is the one that was searched for. */
__noinline int udp_send_try(struct udp_sender *sender, struct udp_wanted *wanted, u32 at)
{
	const struct udp_send *send;

	if (!sender || !wanted)
		return 1;
	at &= UDP_SENDS - 1;
	send = &sender->sends[at];
	if (!send->tid || send->bits & SEND_HANDED)
		return 0;
	wanted->by_packet = wanted->skb && send->skb == wanted->skb;
	if (!wanted->by_packet && !udp_is_wanted(send, wanted))
		return 0;
	wanted->found = at;
	return wanted->by_packet || wanted->tid;
}

/* The newest first. A round is one call: Linux 6.1 refuses loops that run from their end into their start. */
__noinline int udp_send_find(struct udp_sender *sender, struct udp_wanted *wanted)
{
	u32 newest;

	if (!sender || !wanted)
		return 0;
	newest = sender->tail - 1;
	for (u32 i = 0; i < UDP_SENDS; i++) {
		if (udp_send_try(sender, wanted, newest - i))
			break;
	}
	return 0;
}

/* Corked data goes out with this packet. */
__noinline int udp_uncork(struct udp_sender *sender, const struct udp_wanted *wanted, u64 now_ns)
{
	u64 skb;

	if (!sender || !wanted)
		return 0;
	skb = wanted->skb;
	for (u32 at = 0; at < UDP_SENDS; at++) {
		struct udp_send *send = &sender->sends[at];

		if (!send->tid || send->skb || send->bits != (SEND_DONE | UDP_SEND_CORKED))
			continue;
		send->skb = skb;
		send->queue_ns = now_ns;
		send->queued = 1;
	}
	return 0;
}

/* Hands over what is corked and went to the driver with this packet. */
__noinline int udp_uncorked(struct udp_sender *sender, const struct udp_wanted *wanted, u64 now_ns)
{
	u64 skb;

	if (!sender || !wanted)
		return 0;
	skb = wanted->skb;
	for (u32 at = 0; at < UDP_SENDS; at++) {
		struct udp_send *send = &sender->sends[at];

		if (!send->tid || send->skb != skb || send->bits != (SEND_DONE | UDP_SEND_CORKED))
			continue;
		send->driver_ns = now_ns;
		send->driver_cpu = bpf_get_smp_processor_id();
		udp_send_end(sender, send, SENT_BY_DRIVER);
	}
	return 0;
}

/* The thread with the call in which a packet passes; 0: none, but in an interrupt. */
static __always_inline u32 udp_caller(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->flags & PF_KTHREAD || in_interrupt(task) ? 0 : task->pid;
}

static __always_inline struct udp_sender *udp_sender(struct sock *sk)
{
	return bpf_sk_storage_get(&udp_senders, sk, NULL, 0);
}

static __always_inline struct udp_sender *udp_sender_begin(struct sock *sk,
							   const struct udp_socket *udp)
{
	struct udp_sender *sender = sk_storage_made(&udp_senders, sk);

	if (sender)
		sender->cookie = udp->seen.cookie;
	return sender;
}

/* net_dev_queue: a packet comes to the queue of a device. */
static __always_inline void udp_on_queue(struct sock *sk, const struct sk_buff *skb)
{
	struct udp_wanted wanted = {.skb = (u64)skb, .unqueued = 1, .found = NO_SEND};
	struct udp_socket *udp =
		udp_socket(sk); /* a socket of a packet has no bpf_get_socket_cookie() */
	struct udp_sender *sender;
	struct udp_send *send;
	u64 now_ns;

	if (!udp)
		return;
	sender = udp_sender(sk);
	if (!sender)
		sender = udp_sender_begin(sk, udp);
	if (!sender)
		return;
	wanted.tid = udp_caller();
	if (sender->waiting)
		udp_send_find(sender, &wanted);
	if (wanted.by_packet)
		return; /* of devices on top of each other, the first counts */
	now_ns = bpf_ktime_get_ns();
	if (sender->waiting)
		udp_uncork(sender, &wanted, now_ns);
	if (wanted.found == NO_SEND && wanted.tid)
		wanted.found = udp_send_begin(sender, wanted.tid, bpf_get_current_task_btf()->tgid,
					      SENT_BY_QUEUE);
	if (wanted.found >= UDP_SENDS)
		return;
	send = udp_send_at(sender, wanted.found);
	send->skb = (u64)skb;
	send->queue_ns = now_ns;
	send->queued++;
}

/* net_dev_start_xmit: a packet goes to the driver. */
static __always_inline void udp_on_driver(struct sock *sk, const struct sk_buff *skb)
{
	struct udp_wanted wanted = {.skb = (u64)skb, .found = NO_SEND};
	struct udp_sender *sender = udp_sender(sk);
	struct udp_send *send;
	u64 now_ns;

	if (!sender || !sender->waiting)
		return;
	now_ns = bpf_ktime_get_ns();
	wanted.tid = udp_caller();
	udp_uncorked(sender, &wanted, now_ns);
	udp_send_find(sender, &wanted);
	if (wanted.found >= UDP_SENDS)
		return;
	send = udp_send_at(sender, wanted.found);
	send->driver_ns = now_ns;
	send->driver_cpu = bpf_get_smp_processor_id();
	if (__sync_fetch_and_add(&send->driven, 1) + 1 >= send->queued &&
	    READ_ONCE(send->bits) == SEND_DONE)
		udp_send_end(sender, send, SENT_BY_DRIVER);
}

/* sock_send_length: a call has ended. */
static __always_inline void udp_on_send_call(struct sock *sk, int result)
{
	struct udp_wanted wanted = {.found = NO_SEND};
	struct task_struct *task = bpf_get_current_task_btf();
	struct udp_socket *udp = udp_socket_find(sk, true);
	struct udp_sender *sender;
	struct udp_send *send;
	u32 bits = SEND_DONE;

	if (!udp)
		return;
	sender = udp_sender(sk);
	if (!sender)
		sender = udp_sender_begin(sk, udp);
	if (!sender)
		return;
	wanted.tid = task->pid;
	if (sender->waiting)
		udp_send_find(sender, &wanted);
	if (KERNEL_READ(struct udp_sock, sk, pending))
		bits |= UDP_SEND_CORKED;
	/* a packet of a thread that failed, or that uncorked by setsockopt(), is no message of its own */
	if (wanted.found < UDP_SENDS && (result < 0 || bits & UDP_SEND_CORKED)) {
		udp_send_end(sender, udp_send_at(sender, wanted.found), SENT_BY_CALL);
		wanted.found = NO_SEND;
	}
	if (result < 0)
		return;
	if (wanted.found == NO_SEND)
		wanted.found = udp_send_begin(sender, task->pid, task->tgid, SENT_BY_CALL);
	if (wanted.found >= UDP_SENDS)
		return;
	send = udp_send_at(sender, wanted.found);
	send->done_ns = bpf_ktime_get_ns();
	send->bytes = result;
	send->cpu = bpf_get_smp_processor_id();
	send->offset_end = __sync_fetch_and_add(&udp->sent_bytes, result) + result;
	__sync_fetch_and_add(&udp->seen.sent, 1);
	udp_on_message(udp, sk, send->done_ns);
	__sync_fetch_and_or(&send->bits, bits);
	if (send->queued && READ_ONCE(send->driven) >= send->queued)
		udp_send_end(sender, send, SENT_BY_CALL);
}

/* Nothing more of these will be seen. */
__noinline int udp_send_end_all(struct udp_sender *sender, u32 by)
{
	if (!sender)
		return 0;
	for (u32 i = 0; i < UDP_SENDS; i++) {
		struct udp_send *send = &sender->sends[(sender->tail + i) & (UDP_SENDS - 1)];

		if (send->tid)
			udp_send_end(sender, send, by);
	}
	return 0;
}

/* The process closes the socket. */
static __always_inline void udp_on_close(struct bpf_sock *ctx)
{
	struct udp_socket *udp = bpf_sk_storage_get(&udp_sockets, ctx, NULL, 0);
	struct udp_sender *sender;

	if (!udp)
		return;
	sender = bpf_sk_storage_get(&udp_senders, ctx, NULL, 0);
	if (sender)
		udp_send_end_all(sender, SENT_BY_CLOSE);
	udp->seen.closed_ns = bpf_ktime_get_ns();
	if (__sync_lock_test_and_set(&udp->in_netns, 0))
		netns_remove_socket(udp->seen.netns);
	if (udp->has_row)
		udp_emit(udp, udp->seen.closed_ns);
}

/* The recording ends. */
static __always_inline void udp_on_end(struct sock *sk)
{
	struct udp_socket *udp = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);
	struct udp_sender *sender = udp_sender(sk);

	if (sender)
		udp_send_end_all(sender, SENT_BY_STATE);
	if (udp && udp->has_row && !udp->seen.closed_ns)
		udp_emit(udp, bpf_ktime_get_ns());
}

#endif
