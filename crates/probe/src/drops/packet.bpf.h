/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The headers of a packet that is dropped. Its pointers are read as numbers: where a packet is dropped, some of its fields
 * hold something else (skb->sk the place of a fragment, skb->dev the size of a datagram), and the verifier takes some
 * arguments of tracepoints that are NULL at times for pointers that never are.
 */
#ifndef WHYLAT_DROPS_PACKET_BPF_H
#define WHYLAT_DROPS_PACKET_BPF_H

#include "../bpf/kernel.h"
#include "drops.h"

/* skb->network_header and the like: not set (include/linux/skbuff.h) */
#define HEADER_NOT_SET 0xffff

/* A field of what lies at an address, which is evaluated first: members in it are of this program, not of the kernel. */
#define READ_AT(type, address, field)                                                              \
	({                                                                                         \
		const void *at_ = (const void *)(address);                                         \
		KERNEL_READ(type, at_, field);                                                     \
	})

#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define TCP_BYTES 20
#define TCP_FLAG_FIN 0x01
#define TCP_FLAG_SYN 0x02

static __always_inline u32 read_u32(const u8 *at)
{
	return (u32)at[0] << 24 | (u32)at[1] << 16 | (u32)at[2] << 8 | at[3];
}

static __always_inline u16 read_u16(const u8 *at)
{
	return (u16)(at[0] << 8 | at[1]);
}

/* The header of TCP or UDP, with `bytes` from it to the end of the packet. */
static __always_inline void packet_read_transport(struct drop_packet *packet, u64 at, u32 bytes)
{
	u8 header[TCP_BYTES] = {};
	u32 payload, header_bytes;

	if (packet->protocol != IPPROTO_TCP && packet->protocol != IPPROTO_UDP)
		return;
	if (bpf_probe_read_kernel(header, 8, (void *)at))
		return;
	packet->source_port = read_u16(header);
	packet->destination_port = read_u16(header + 2);
	packet->has_ports = 1;
	if (packet->protocol != IPPROTO_TCP || bytes < TCP_BYTES ||
	    bpf_probe_read_kernel(header, TCP_BYTES, (void *)at))
		return;
	header_bytes = (header[12] >> 4) * 4;
	payload = bytes > header_bytes ? bytes - header_bytes : 0;
	packet->tcp_flags = header[13];
	packet->seq = read_u32(header + 4);
	packet->end_seq = packet->seq + payload + !!(header[13] & TCP_FLAG_SYN) +
			  !!(header[13] & TCP_FLAG_FIN);
	packet->has_seq = 1;
}

static __always_inline void packet_set_ipv4(u8 *out, const u8 *address)
{
	out[10] = 0xff;
	out[11] = 0xff;
	__builtin_memcpy(out + 12, address, 4);
}

/* `rest`: bytes from the IP header to the end of the packet. Returns whether there is an IP header. */
static __always_inline bool packet_read_ip(struct drop_packet *packet, u64 at, u32 rest)
{
	u8 header[IPV6_BYTES] = {};
	u32 header_bytes, bytes;

	if (rest < IPV4_BYTES || bpf_probe_read_kernel(header, IPV4_BYTES, (void *)at))
		return false;
	if (header[0] >> 4 == 4) {
		header_bytes = (header[0] & 15) * 4;
		bytes = read_u16(header + 2);
		packet->family = AF_INET;
		packet->protocol = header[9];
		packet_set_ipv4(packet->source, header + 12);
		packet_set_ipv4(packet->destination, header + 16);
	} else if (header[0] >> 4 == 6) {
		if (rest < IPV6_BYTES || bpf_probe_read_kernel(header, IPV6_BYTES, (void *)at))
			return false;
		header_bytes = IPV6_BYTES;
		bytes = read_u16(header + 4);
		bytes = bytes ? bytes + IPV6_BYTES : 0;
		packet->family = AF_INET6;
		packet->protocol = header[6];
		__builtin_memcpy(packet->source, header + 8, 16);
		__builtin_memcpy(packet->destination, header + 24, 16);
	} else {
		return false;
	}
	/* zero: more than the field holds; less than the rest: the frame was filled up */
	packet->bytes = bytes && bytes < rest ? bytes : rest;
	/* of a fragment, the first one alone has ports */
	if (packet->family == AF_INET && (read_u16(header + 6) & 0x1fff))
		return true;
	packet_read_transport(packet, at + header_bytes,
			      packet->bytes > header_bytes ? packet->bytes - header_bytes : 0);
	return true;
}

/* A socket of IP: its fields hold. */
static __always_inline bool is_ip_socket(u64 sk)
{
	u16 family;

	if (!sk)
		return false;
	family = READ_AT(struct sock, sk, __sk_common.skc_family);
	return family == AF_INET || family == AF_INET6;
}

/* Not what represents a connection that has ended or has yet to begin, which has but the first fields. */
static __always_inline bool is_full_socket(u64 sk)
{
	u8 state = READ_AT(struct sock, sk, __sk_common.skc_state);

	return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV;
}

static __always_inline u8 socket_protocol(u64 sk)
{
	return is_full_socket(sk) ? READ_AT(struct sock, sk, sk_protocol) : IPPROTO_TCP;
}

/* Not skc_num: inet_put_port() clears that before the socket is closed. */
static __always_inline u16 socket_port(u64 sk)
{
	u16 port;

	if (!is_full_socket(sk))
		return READ_AT(struct sock, sk, __sk_common.skc_num);
	port = READ_AT(struct inet_sock, sk, inet_sport);
	return bpf_ntohs(port);
}

/* Addresses of a packet without an IP header, or of no packet: `sent` by this socket. */
static __always_inline void packet_read_socket(struct drop_packet *packet, u64 sk, bool sent)
{
	u8 *local = sent ? packet->source : packet->destination;
	u8 *remote = sent ? packet->destination : packet->source;
	u16 local_port = socket_port(sk);
	u16 dport = READ_AT(struct sock, sk, __sk_common.skc_dport);
	u16 remote_port = bpf_ntohs(dport);
	struct sock *typed = (struct sock *)sk;

	packet->family = READ_AT(struct sock, sk, __sk_common.skc_family);
	if (packet->family == AF_INET6) {
		bpf_probe_read_kernel(
			local, 16,
			__builtin_preserve_access_index(&typed->__sk_common.skc_v6_rcv_saddr));
		bpf_probe_read_kernel(
			remote, 16,
			__builtin_preserve_access_index(&typed->__sk_common.skc_v6_daddr));
	} else {
		u32 own = READ_AT(struct sock, sk, __sk_common.skc_rcv_saddr);
		u32 other = READ_AT(struct sock, sk, __sk_common.skc_daddr);

		packet_set_ipv4(local, (u8 *)&own);
		packet_set_ipv4(remote, (u8 *)&other);
	}
	packet->source_port = sent ? local_port : remote_port;
	packet->destination_port = sent ? remote_port : local_port;
	packet->has_ports = 1;
}

/* Is it a packet of IP? `sk`: 0, or a socket of IP that sent or is to receive it. */
static __always_inline bool is_ip_packet(u64 skb, u64 sk)
{
	u16 protocol = READ_AT(struct sk_buff, skb, protocol);

	return sk || protocol == bpf_htons(ETH_P_IP) || protocol == bpf_htons(ETH_P_IPV6);
}

/* Where the IP header should be, and how many bytes follow; 0: it is not set. */
static __always_inline u64 ip_header(u64 skb, u32 *rest)
{
	u64 head = (u64)READ_AT(struct sk_buff, skb, head);
	u32 network = READ_AT(struct sk_buff, skb, network_header);
	u32 end = READ_AT(struct sk_buff, skb, tail) + READ_AT(struct sk_buff, skb, data_len);

	if (!head || !network || network == HEADER_NOT_SET || end <= network)
		return 0;
	*rest = end - network;
	return head + network;
}

static __always_inline void packet_read(struct drop_packet *packet, u64 skb, u64 sk, bool sent)
{
	u32 transport, end, rest = 0;
	u64 at = ip_header(skb, &rest);
	u64 head;

	if ((at && packet_read_ip(packet, at, rest)) || !sk)
		return;
	packet_read_socket(packet, sk, sent);
	packet->protocol = socket_protocol(sk);
	packet->bytes = READ_AT(struct sk_buff, skb, len);
	head = (u64)READ_AT(struct sk_buff, skb, head);
	transport = READ_AT(struct sk_buff, skb, transport_header);
	end = READ_AT(struct sk_buff, skb, tail) + READ_AT(struct sk_buff, skb, data_len);
	if (head && transport && transport != HEADER_NOT_SET && end > transport)
		packet_read_transport(packet, head + transport, end - transport);
}

/* Eight bytes of the packet, the first one lowest. */
static __always_inline u64 read_word(u64 at)
{
	return READ_AT(struct timespec64, at, tv_sec);
}

/*
 * Protocol and ports alone, as packet_read() finds them, in a few loads: of the packets of a flood. Returns whether it has
 * some.
 */
static __always_inline bool packet_read_ports(struct drop_packet *packet, u64 skb)
{
	u32 rest = 0, header_bytes;
	u64 at = ip_header(skb, &rest), first, second, ports;

	if (!at || rest < IPV4_BYTES)
		return false;
	first = read_word(at);
	if ((first >> 4 & 15) == 4) {
		second = read_word(at + 8);
		header_bytes = (first & 15) * 4;
		packet->protocol = second >> 8;
		/* of a fragment, the first one alone has ports */
		if (first >> 48 & 0xff1f)
			return false;
	} else {
		header_bytes = IPV6_BYTES;
		packet->protocol = first >> 48;
	}
	if (packet->protocol != IPPROTO_TCP && packet->protocol != IPPROTO_UDP)
		return false;
	ports = read_word(at + header_bytes);
	packet->source_port = bpf_ntohs((u16)ports);
	packet->destination_port = bpf_ntohs((u16)(ports >> 16));
	packet->has_ports = 1;
	return true;
}

#endif
