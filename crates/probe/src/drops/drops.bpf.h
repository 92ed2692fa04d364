/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Packets that this host drops, and resets. All are counted, by reason, place, namespace and device. Of those of what is
 * recorded, the first of each are handed over as records, and then a sample: a flood costs a count each.
 */
#ifndef WHYLAT_DROPS_BPF_H
#define WHYLAT_DROPS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/select.h"
#include "packet.bpf.h"
#include "ports.bpf.h"
#include "qdisc.bpf.h"

struct drop_record {
	struct record_header header;
	struct drop_seen seen;
};

/* Holds what the hooks are given: as numbers, see packet.bpf.h. */
struct drop_event {
	u64 skb; /* 0: none */
	u64 sk;	 /* 0: none */
	u64 location;
	u32 reason;
	u8 kind;
	u8 sent; /* by this socket; else it is to receive it */
};

/* Reasons that are no problem, by number: what has them is only counted. */
const volatile u8 drop_ordinary[256] = {};

/* How many arguments kfree_skb has: skb, location, since Linux 5.17 a reason, since 6.11 the receiving socket. */
const volatile u32 kfree_skb_arguments = 2;

/* tcp_send_reset has a third argument, the reason (Linux 6.10). */
const volatile bool reset_has_reason = false;

/* udp_fail_queue_rcv_skb has a third argument, the datagram (Linux 6.10). */
const volatile bool udp_drop_has_skb = false;

/* Reasons and places: more than some hundred would be a surprise. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048);
	__type(key, struct drop_key);
	__type(value, struct drop_count);
} drop_counts SEC(".maps");

/* By kind: counted here only, because `drop_counts` is full. */
u64 drops_uncounted[DROP_KINDS_MOST] = {};

/* Of each reason, place, namespace and device, so many are stored on each CPU, and then one a jiffy. */
#define DROPS_FIRST 256

/* The device of a packet, if skb->dev leads to one: it has a number, and a name. Returns it, or 0. */
static __always_inline u64 drop_device(u64 skb, struct drop_key *key)
{
	u64 device = (u64)READ_AT(struct sk_buff, skb, dev);
	u32 ifindex, begin;

	if (device) {
		ifindex = READ_AT(struct net_device, device, ifindex);
		begin = READ_AT(struct net_device, device, name[0]);
		if (ifindex && ifindex < 1 << 24 && begin > ' ' && begin < 127) {
			key->ifindex = ifindex;
			return device;
		}
	}
	key->ifindex = READ_AT(struct sk_buff, skb, skb_iif);
	return 0;
}

/* Where it happened: device and namespace. Returns the device, or 0. */
static __always_inline u64 drop_place(const struct drop_event *event, struct drop_key *key)
{
	u64 net = 0, device = 0;

	if (event->skb)
		device = drop_device(event->skb, key);
	if (event->sk)
		net = (u64)READ_AT(struct sock, event->sk, __sk_common.skc_net.net);
	else if (device)
		net = (u64)READ_AT(struct net_device, device, nd_net.net);
	if (net)
		key->netns = READ_AT(struct net, net, ns.inum);
	return device;
}

static __always_inline void device_name(char *name, u64 device)
{
	struct net_device *typed = (struct net_device *)device;

	if (device)
		bpf_probe_read_kernel_str(name, 16, __builtin_preserve_access_index(&typed->name));
}

/* Does it concern what is recorded? */
static __always_inline bool drop_is_selected(const struct drop_packet *packet, u32 netns)
{
	u8 protocol = packet->protocol == IPPROTO_UDP ? DROP_PORT_UDP : DROP_PORT_TCP;

	if (select_all)
		return !select_netns || netns == select_netns;
	if (!packet->has_ports)
		return false;
	if (select_port &&
	    (packet->source_port == select_port || packet->destination_port == select_port))
		return true;
	return (*drop_port(packet->source_port) | *drop_port(packet->destination_port)) & protocol;
}

/* Returns the count of this kind of drop; makes it first. Add to it atomically: other CPUs do, too. */
static __always_inline struct drop_count *drop_count_of(const struct drop_key *key, u64 device)
{
	struct drop_count *count = bpf_map_lookup_elem(&drop_counts, key);
	struct drop_count first = {};

	if (count)
		return count;
	device_name(first.device, device);
	bpf_map_update_elem(&drop_counts, key, &first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&drop_counts, key);
}

/* Is the next one of these to be stored, if it is of what is recorded? A jiffy is read faster than a clock. */
static __always_inline bool drop_is_due(const struct drop_count *count)
{
	return count->stored < DROPS_FIRST || count->jiffy != bpf_jiffies64();
}

static __always_inline void drop_emit(void *ctx, const struct drop_event *event,
				      const struct drop_key *key, const struct drop_packet *packet,
				      u64 device)
{
	struct drop_record *record = record_reserve(RECORD_DROP_SEEN, sizeof(*record));
	struct drop_seen *seen;
	long bytes;

	if (!record)
		return;
	seen = &record->seen;
	seen->key = *key;
	seen->packet = *packet;
	seen->time_ns = bpf_ktime_get_ns();
	seen->cookie = 0;
	if (event->sk)
		seen->cookie = READ_AT(struct sock, event->sk, __sk_common.skc_cookie.counter);
	bytes = bpf_get_stack(ctx, seen->stack, sizeof(seen->stack), 0);
	seen->frames = bytes > 0 ? (u32)bytes / sizeof(u64) : 0;
	__builtin_memset(&seen->qdisc, 0, sizeof(seen->qdisc));
	if (device && event->kind == DROP_PACKET && is_qdisc_reason(event->reason))
		read_qdisc(&seen->qdisc, event->skb, device);
	__builtin_memset(seen->device, 0, sizeof(seen->device));
	device_name(seen->device, device);
	record_submit(record);
}

/* A packet of a flood: its ports alone are read. */
static __always_inline bool drop_is_selected_quickly(const struct drop_event *event, u32 netns)
{
	struct drop_packet packet = {};

	if (!select_all && event->skb)
		packet_read_ports(&packet, event->skb);
	return drop_is_selected(&packet, netns);
}

static __noinline int drop_note(void *ctx, struct drop_event *event)
{
	struct drop_key key = {
		.location = event->location, .reason = event->reason, .kind = event->kind};
	struct drop_packet packet = {};
	struct drop_count *count;
	u64 device;

	if (!is_ip_socket(event->sk))
		event->sk = 0;
	if (event->skb && !is_ip_packet(event->skb, event->sk))
		return 0;
	device = drop_place(event, &key);
	count = drop_count_of(&key, device);
	if (!count) {
		__sync_fetch_and_add(&drops_uncounted[event->kind & (DROP_KINDS_MOST - 1)], 1);
		return 0;
	}
	__sync_fetch_and_add(&count->count, 1);
	if (event->kind == DROP_PACKET && event->reason < 256 && drop_ordinary[event->reason & 255])
		return 0;
	if (!drop_is_due(count)) {
		if (drop_is_selected_quickly(event, key.netns))
			__sync_fetch_and_add(&count->selected, 1);
		return 0;
	}
	if (event->skb) {
		packet_read(&packet, event->skb, event->sk, event->sent);
	} else if (event->sk) {
		packet_read_socket(&packet, event->sk, event->sent);
		packet.protocol = socket_protocol(event->sk);
	}
	if (!drop_is_selected(&packet, key.netns))
		return 0;
	__sync_fetch_and_add(&count->selected, 1);
	__sync_fetch_and_add(&count->stored, 1);
	count->jiffy = bpf_jiffies64();
	drop_emit(ctx, event, &key, &packet, device);
	return 0;
}

/* Copies the arguments of a tracepoint as numbers: the verifier then knows no type of them. */
static __always_inline void drop_arguments(u64 *to, const u64 *ctx, u32 bytes)
{
	bpf_probe_read_kernel(to, bytes, ctx);
}

SEC("tp_btf/kfree_skb")
int handle_kfree_skb(u64 *ctx)
{
	struct drop_event event = {.kind = DROP_PACKET, .reason = DROP_NO_REASON};
	u64 arguments[4] = {};

	if (only_summaries)
		return 0;
	drop_arguments(arguments, ctx,
		       kfree_skb_arguments >= 4	  ? 32
		       : kfree_skb_arguments == 3 ? 24
						  : 16);
	event.skb = arguments[0];
	event.location = arguments[1];
	if (kfree_skb_arguments >= 3)
		event.reason = refine_qdisc_reason(event.skb, (u32)arguments[2]);
	event.sk = arguments[3];
	if (!event.sk) {
		event.sk = (u64)READ_AT(struct sk_buff, event.skb, sk);
		event.sent = 1;
	}
	return drop_note(ctx, &event);
}

SEC("tp_btf/tcp_send_reset")
int handle_tcp_send_reset(u64 *ctx)
{
	struct drop_event event = {.kind = DROP_RESET_SENT, .reason = DROP_NO_REASON};
	u64 arguments[3] = {};

	if (only_summaries)
		return 0;
	drop_arguments(arguments, ctx, reset_has_reason ? 24 : 16);
	event.sk = arguments[0];
	event.skb = arguments[1]; /* which it answers */
	event.sent = !event.skb;
	if (reset_has_reason)
		event.reason = (u32)arguments[2];
	return drop_note(ctx, &event);
}

SEC("tp_btf/tcp_receive_reset")
int handle_tcp_receive_reset(u64 *ctx)
{
	struct drop_event event = {.kind = DROP_RESET_RECEIVED, .reason = DROP_NO_REASON};

	if (only_summaries)
		return 0;
	drop_arguments(&event.sk, ctx, 8);
	return drop_note(ctx, &event);
}

SEC("tp_btf/sock_rcvqueue_full")
int handle_sock_rcvqueue_full(u64 *ctx)
{
	struct drop_event event = {.kind = DROP_QUEUE_FULL, .reason = DROP_NO_REASON};
	u64 arguments[2] = {};

	if (only_summaries)
		return 0;
	drop_arguments(arguments, ctx, 16);
	event.sk = arguments[0];
	event.skb = arguments[1];
	if (!is_ip_socket(event.sk))
		return 0;
	return drop_note(ctx, &event);
}

/* A UDP socket did not take a datagram; a part of the hook, which serves messages, too. */
static __always_inline void drop_on_udp(u64 *ctx)
{
	struct drop_event event = {.kind = DROP_UDP_QUEUE_FULL, .reason = DROP_NO_REASON};
	u64 arguments[3] = {};

	if (only_summaries)
		return;
	drop_arguments(arguments, ctx, udp_drop_has_skb ? 24 : 16);
	event.sk = arguments[1];
	event.skb = arguments[2];
	drop_note(ctx, &event);
}

SEC("tp_btf/icmp_send")
int handle_icmp_send(u64 *ctx)
{
	struct drop_event event = {.kind = DROP_ICMP_SENT};
	u64 arguments[3] = {};

	if (only_summaries)
		return 0;
	drop_arguments(arguments, ctx, 24);
	event.skb = arguments[0];
	event.reason = ((u32)arguments[1] & 255) << 8 | ((u32)arguments[2] & 255);
	return drop_note(ctx, &event);
}

/* For Rust, by way of the object's BTF. */
const struct drop_seen wire_drop_seen = {};
const struct drop_count wire_drop_count = {};
const struct drop_key wire_drop_key = {};
const enum drop_kind wire_drop_kind = 0;

#endif
