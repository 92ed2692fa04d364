/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The qdisc that dropped a packet. The kernel frees what a qdisc drops after the qdisc has done its work
 * (__dev_xmit_skb()), so the skb alone leads there: its device and queue have a qdisc, and that may have a child.
 */
#ifndef WHYLAT_DROPS_QDISC_BPF_H
#define WHYLAT_DROPS_QDISC_BPF_H

#include "packet.bpf.h"

/* include/net/sch_generic.h: its numbers are kept per CPU. */
#define TCQ_F_CPUSTATS 0x20

/* include/uapi/linux/pkt_sched.h: the first half of a handle */
#define QDISC_MAJOR(handle) ((handle) >> 16)

/* Children that may have dropped the packet: drops.h has as many kinds. */
#define QDISC_CANDIDATES 4

/* Buckets of net_device->qdisc_hash (include/linux/netdevice.h), and how much of each is followed. */
#define QDISC_BUCKETS 16
#define QDISC_CHAIN 8

/* Reasons of qdiscs, by number. */
const volatile u8 drop_by_qdisc[256] = {};

/* Since Linux 7.1 the packet has a reason of its own (enum qdisc_drop_reason), where kfree_skb is given this one. */
const volatile u32 qdisc_general_reason = DROP_NO_REASON;
const volatile u32 qdisc_reason_base = 0;
#define QDISC_REASON_MASK 0xffff0000

/* The bytes of skb->cb from `offset` on: struct tc_skb_cb, while a qdisc has the packet. */
static __always_inline u32 read_packet_cb(u64 skb, u32 offset)
{
	struct sk_buff *typed = (struct sk_buff *)skb;
	u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value),
			      (void *)__builtin_preserve_access_index(&typed->cb) + offset);
	return value;
}

/* The reason that a qdisc gave, if kfree_skb was given the general one. */
static __always_inline u32 refine_qdisc_reason(u64 skb, u32 reason)
{
	struct tc_skb_cb *cb = 0;
	u32 refined;

	if (!qdisc_reason_base || reason != qdisc_general_reason ||
	    !bpf_core_field_exists(cb->drop_reason))
		return reason;
	refined = read_packet_cb(skb, bpf_core_field_offset(cb->drop_reason));
	return (refined & QDISC_REASON_MASK) == qdisc_reason_base ? refined : reason;
}

static __always_inline bool is_qdisc_reason(u32 reason)
{
	if (reason < 256)
		return drop_by_qdisc[reason & 255];
	return qdisc_reason_base && (reason & QDISC_REASON_MASK) == qdisc_reason_base;
}

static __always_inline void read_qdisc_kind(char *kind, u64 qdisc)
{
	u64 ops = (u64)READ_AT(struct Qdisc, qdisc, ops);
	struct Qdisc_ops *typed = (struct Qdisc_ops *)ops;

	if (ops)
		bpf_probe_read_kernel_str(kind, 16, __builtin_preserve_access_index(&typed->id));
}

static __always_inline void read_qdisc_level(struct drop_qdisc *out, u64 qdisc)
{
	u32 flags = READ_AT(struct Qdisc, qdisc, flags);

	out->limit = READ_AT(struct Qdisc, qdisc, limit);
	out->has_level = !(flags & TCQ_F_CPUSTATS);
	if (!out->has_level)
		return;
	out->packets = READ_AT(struct Qdisc, qdisc, q.qlen);
	out->bytes = READ_AT(struct Qdisc, qdisc, qstats.backlog);
}

/* The children of a qdisc. */
struct qdisc_children {
	u64 latest;			/* one of them; 0: there is none */
	u64 droppers[QDISC_CANDIDATES]; /* those that have ever dropped a packet */
	u32 count;
	u32 dropper_count; /* more than are kept, if some are not seen */
};

/* A child counts its own drops. One that counts per CPU may have dropped. */
static __always_inline bool may_have_dropped(u64 qdisc)
{
	return READ_AT(struct Qdisc, qdisc, qstats.drops) ||
	       READ_AT(struct Qdisc, qdisc, flags) & TCQ_F_CPUSTATS;
}

/*
 * Adds a qdisc, if it is a child of the one with this handle. A function of its own, as the verifier follows each outcome
 * to the end of the program.
 */
__noinline int add_child(struct qdisc_children *children, u64 qdisc, u32 handle)
{
	u32 at;

	if (!children || QDISC_MAJOR(READ_AT(struct Qdisc, qdisc, parent)) != QDISC_MAJOR(handle))
		return 0;
	children->latest = qdisc;
	children->count++;
	if (!may_have_dropped(qdisc))
		return 0;
	at = children->dropper_count++;
	if (at < QDISC_CANDIDATES)
		children->droppers[at & (QDISC_CANDIDATES - 1)] = qdisc;
	return 0;
}

static __always_inline void find_children(struct qdisc_children *children, u64 device, u32 handle)
{
	u64 at = device + bpf_core_field_offset(struct net_device, qdisc_hash);
	u64 node;

	for (int bucket = 0; bucket < QDISC_BUCKETS; bucket++) {
		node = (u64)KERNEL_READ_POINTER((void *)(at + bucket * sizeof(u64)));
		for (int step = 0; step < QDISC_CHAIN && node; step++) {
			add_child(children, node - bpf_core_field_offset(struct Qdisc, hash),
				  handle);
			node = (u64)KERNEL_READ_POINTER((void *)node);
		}
		/* others are not seen: any of them may be the one */
		if (node)
			children->dropper_count += QDISC_CANDIDATES + 1;
	}
}

/*
 * The child that dropped the packet: the only one, or the only one that ever dropped any. Of several that did, the kernel
 * does not say which it was. 0: not known, or the qdisc did so itself.
 */
static __always_inline u64 find_dropping_child(struct drop_qdisc *out, u64 device, u32 handle)
{
	struct qdisc_children children = {};

	find_children(&children, device, handle);
	if (children.count == 1 && children.dropper_count <= 1)
		return children.latest;
	if (children.dropper_count == 1)
		return children.droppers[0];
	out->candidate_count = children.dropper_count;
	for (int at = 0; at < QDISC_CANDIDATES; at++)
		if (children.droppers[at])
			read_qdisc_kind(out->candidates[at], children.droppers[at]);
	return 0;
}

/* The qdisc of the packet's queue, and what waited in it. `device`: of the packet. */
static __always_inline void read_qdisc(struct drop_qdisc *out, u64 skb, u64 device)
{
	u32 queue = READ_AT(struct sk_buff, skb, queue_mapping);
	u64 queues, qdisc, child = 0;
	u32 handle;

	if (queue >= READ_AT(struct net_device, device, num_tx_queues))
		return;
	queues = (u64)READ_AT(struct net_device, device, _tx);
	queues += (u64)queue * bpf_core_type_size(struct netdev_queue);
	qdisc = (u64)READ_AT(struct netdev_queue, queues, qdisc);
	if (!qdisc)
		return;
	read_qdisc_kind(out->kind, qdisc);
	out->packet_bytes = read_packet_cb(skb, 0);
	handle = READ_AT(struct Qdisc, qdisc, handle);
	if (handle && bpf_core_field_exists(((struct net_device *)0)->qdisc_hash))
		child = find_dropping_child(out, device, handle);
	if (child)
		read_qdisc_kind(out->child, child);
	read_qdisc_level(out, child ? child : qdisc);
}

#endif
