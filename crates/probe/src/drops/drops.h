/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Describes a drop or a reset, and counts of them, as they leave the kernel. */
#ifndef WHYLAT_DROPS_H
#define WHYLAT_DROPS_H

#include <linux/types.h>

enum drop_kind {
	DROP_PACKET,	     /* kfree_skb */
	DROP_RESET_SENT,     /* tcp_send_reset */
	DROP_RESET_RECEIVED, /* tcp_receive_reset */
	DROP_QUEUE_FULL,     /* sock_rcvqueue_full */
	DROP_UDP_QUEUE_FULL, /* udp_fail_queue_rcv_skb */
	DROP_ICMP_SENT,	     /* icmp_send */
};

/* A power of two. */
#define DROP_KINDS_MOST 8

/* The kernel gives no reason. */
#define DROP_NO_REASON 0xffffffff

/* Frames of the kernel's stack; the first few are those of the tracepoint itself. */
#define DROP_FRAMES 16

/* Holds what the headers of a packet say. */
struct drop_packet {
	__u8 source[16]; /* as IPv4-mapped IPv6 */
	__u8 destination[16];
	__u32 bytes; /* from the IP header on */
	__u32 seq;
	__u32 end_seq;
	__u16 source_port;
	__u16 destination_port;
	__u8 family; /* AF_INET, AF_INET6; 0: no addresses are known */
	__u8 protocol;
	__u8 tcp_flags;
	__u8 has_ports;
	__u8 has_seq;
	__u8 pad[3];
};

/* Counts are kept for each of these. */
struct drop_key {
	__u64 location;
	__u32 reason; /* of ICMP: type << 8 | code */
	__u32 netns;
	__u32 ifindex;
	__u8 kind;
	__u8 pad[3];
};

struct drop_count {
	__u64 count;
	__u64 selected; /* of these, of what is recorded */
	__u64 stored;	/* of these, as records */
	__u64 jiffy;	/* in which the last one was stored */
	char device[16];
};

/* The qdisc that dropped the packet; zeros: none did, or it is not known. */
struct drop_qdisc {
	char kind[16];
	char child[16]; /* kind of its child that dropped the packet, or that is the only one */
	/* kinds of children that may have dropped it, where several may; others are counted */
	char candidates[4][16];
	/* of the child, if there is one, right after the drop */
	__u32 limit; /* 0: none is known */
	__u32 packets;
	__u32 bytes;
	__u32 packet_bytes;    /* of the dropped packet, as qdiscs count it */
	__u16 has_level;       /* packets and bytes are known */
	__u16 candidate_count; /* 0: they are not in question */
};

struct drop_seen {
	struct drop_key key;
	struct drop_packet packet;
	__u64 time_ns;
	__u64 cookie; /* 0: no socket, or one that nobody asked for */
	__u64 stack[DROP_FRAMES];
	__u32 frames;
	struct drop_qdisc qdisc;
	char device[16];
};

#endif
