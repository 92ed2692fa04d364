/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Describes what may be a datagram, when the stack takes it: which packet this CPU is about to hand to a socket. */
#ifndef WHYLAT_UDP_INPUT_BPF_H
#define WHYLAT_UDP_INPUT_BPF_H

#include "../messages/arrival.bpf.h"
#include "udp.h"

#define IPV4_HEADER_LEN 20 /* without options */
#define IPV6_HEADER_LEN 40
#define UDP_HEADER_LEN 8
#define IP_PART 0x3fff /* of frag_off: more parts follow, or where this one lies */

/*
 * The packet that the stack took last on this CPU. It is handed to its socket before the stack takes the next,
 * unless the driver gave several at once: then all are taken first.
 */
struct udp_input {
	u64 skb;
	u64 head;  /* of its data, which clones have too */
	u64 netns; /* struct net * */
	u64 arrived_ns;
	u64 taken_ns;
	u64 state;     /* taken_ns: no socket was notified of it; else INPUT_* */
	u16 port;      /* to which the datagram goes; 0: the packet is not one whole datagram */
	u16 bytes;     /* that it has */
	u16 segments;  /* datagrams that it was joined of, or is to be cut into */
	u8 is_cloned;  /* it goes to several sockets, or is cut: what they get are other packets */
	u8 is_not_one; /* no socket was notified of the one before, either */
};

#define INPUT_NOTED 1 /* its socket was notified */
#define INPUT_TAKEN 2 /* a call had it before, and has noted it */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct udp_input);
} udp_inputs SEC(".maps");

/* May it be a datagram? Its data begins with the header of IP; of a part of one it does, too. */
static __always_inline bool udp_may_be(const struct sk_buff *skb)
{
	u16 protocol = bpf_ntohs(skb->protocol);
	void *header = skb->data;

	if (protocol == ETH_P_IP)
		return KERNEL_READ(struct iphdr, header, protocol) == IPPROTO_UDP;
	return protocol == ETH_P_IPV6 &&
	       KERNEL_READ(struct ipv6hdr, header, nexthdr) != IPPROTO_TCP;
}

static __always_inline u16 udp_segments(const struct sk_buff *skb)
{
	return KERNEL_READ(struct skb_shared_info, (void *)((u64)skb->head + skb->end), gso_segs);
}

/*
 * Returns the start of the UDP header, and the length of the datagram with it; NULL: it is not complete, or
 * elsewhere.
 */
static __always_inline void *udp_header(const struct sk_buff *skb, u16 *len)
{
	void *header = skb->data;

	if (bpf_ntohs(skb->protocol) == ETH_P_IP) {
		if (BPF_CORE_READ_BITFIELD_PROBED((struct iphdr *)header, ihl) !=
			    IPV4_HEADER_LEN / 4 ||
		    KERNEL_READ(struct iphdr, header, frag_off) & bpf_htons(IP_PART))
			return NULL;
		*len = bpf_ntohs(KERNEL_READ(struct iphdr, header, tot_len)) - IPV4_HEADER_LEN;
		return header + IPV4_HEADER_LEN;
	}
	if (KERNEL_READ(struct ipv6hdr, header, nexthdr) != IPPROTO_UDP)
		return NULL;
	*len = bpf_ntohs(KERNEL_READ(struct ipv6hdr, header, payload_len));
	return header + IPV6_HEADER_LEN;
}

/* Reads the port to which the packet brings bytes, and their number, if it is one datagram. */
static __always_inline void udp_input_to(struct udp_input *in, const struct sk_buff *skb)
{
	void *header;
	u16 len;

	in->port = 0;
	if (in->is_cloned)
		return;
	header = udp_header(skb, &len);
	if (!header || len < UDP_HEADER_LEN)
		return;
	in->bytes = len - UDP_HEADER_LEN;
	in->port = bpf_ntohs(KERNEL_READ(struct udphdr, header, dest));
}

/* netif_receive_skb, after arrival_ends(). */
static __always_inline void udp_on_input(const struct sk_buff *skb)
{
	struct arrival *arrival;
	struct udp_input *in;
	u32 key = 0;

	if (!udp_may_be(skb))
		return;
	arrival = arrival_of(skb);
	in = bpf_map_lookup_elem(&udp_inputs, &key);
	if (!arrival || !in)
		return;
	in->is_not_one = in->state > INPUT_TAKEN;
	in->state = INPUT_NOTED;
	barrier();
	in->skb = (u64)skb;
	in->head = (u64)skb->head;
	in->netns = (u64)skb->dev->nd_net.net;
	in->taken_ns = bpf_ktime_get_ns();
	in->arrived_ns = arrived_ns(skb);
	in->segments = udp_segments(skb);
	in->is_cloned = in->segments > 1 || BPF_CORE_READ_BITFIELD(skb, pkt_type) != PACKET_HOST;
	udp_input_to(in, skb);
	if (in->arrived_ns) {
		arrival->taken_ns = in->taken_ns;
		arrival->head = in->head;
		arrival->unseen_cpu = bpf_get_smp_processor_id() + 1;
	}
	barrier();
	in->state = in->taken_ns;
}

#endif
