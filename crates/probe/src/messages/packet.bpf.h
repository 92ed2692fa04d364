/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Decides which bytes of its stream a packet carries. */
#ifndef WHYLAT_PACKET_BPF_H
#define WHYLAT_PACKET_BPF_H

#include "../bpf/kernel.h"

/* The bytes of the stream in a packet with TCP's header; false: none. */
static __always_inline bool packet_bytes(const struct sk_buff *skb, u32 *seq, u32 *end_seq)
{
	bool tunnelled = BPF_CORE_READ_BITFIELD(skb, encapsulation);
	u64 header =
		(u64)skb->head + (tunnelled ? skb->inner_transport_header : skb->transport_header);
	/* what follows ack_seq begins with the header's length, in words */
	u32 word = bpf_ntohl(KERNEL_READ(struct tcphdr, (void *)(header + 4), ack_seq));
	u32 before = header - (u64)skb->data + (word >> 28) * 4;

	*seq = bpf_ntohl(KERNEL_READ(struct tcphdr, (void *)header, seq));
	*end_seq = *seq + skb->len - before;
	return *end_seq != *seq;
}

/*
 * The same of a socket's packet on its way out. An end that is acknowledged, or not written yet, is none: the packet
 * is retransmitted unnecessarily, or where TCP's header was is another's by now (IPsec).
 */
static __always_inline bool packet_range(const struct sock *sk, const struct sk_buff *skb, u32 *seq,
					 u32 *end_seq)
{
	return packet_bytes(skb, seq, end_seq) &&
	       seq_diff(*end_seq, KERNEL_READ(struct tcp_sock, (void *)sk, snd_una)) > 0 &&
	       seq_diff(*end_seq, KERNEL_READ(struct tcp_sock, (void *)sk, write_seq)) <= 0;
}

#endif
