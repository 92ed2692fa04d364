/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Describes what happens to a TCP connection, as it leaves the kernel. */
#ifndef WHYLAT_TCP_EVENTS_H
#define WHYLAT_TCP_EVENTS_H

#include <linux/types.h>

enum tcp_event_kind {
	TCP_EVENT_STATE,
	TCP_EVENT_CONGESTION_STATE,
	TCP_EVENT_FAST_RETRANSMIT,
	TCP_EVENT_TIMEOUT_RETRANSMIT,
	TCP_EVENT_TAIL_LOSS_PROBE,
	TCP_EVENT_SYN_RETRANSMIT,
	TCP_EVENT_SPURIOUS,
	TCP_EVENT_ZERO_WINDOW_OPEN,
	TCP_EVENT_ZERO_WINDOW_CLOSE,
};

struct tcp_event {
	__u64 cookie;
	__u64 time_ns;
	__u32 segments;
	__u32 in_flight_bytes;
	__u32 seq; /* of a retransmission */
	__u32 end_seq;
	__u8 kind;
	__u8 old_state;
	__u8 new_state;
	__u8 pad[5];
};

#endif
