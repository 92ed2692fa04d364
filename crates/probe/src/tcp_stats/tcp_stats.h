/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The statistics of a TCP socket as they leave the kernel. */
#ifndef WHYLAT_TCP_STATS_H
#define WHYLAT_TCP_STATS_H

#include <linux/types.h>

/* A field that the running kernel does not have has its bit clear in `present`. */
#define HAS_BYTES_SENT 1
#define HAS_DSACK_DUPS 2
#define HAS_TOTAL_RTO 4
#define HAS_RCV_OOOPACK 8
#define HAS_MIN_RTT 16

/* The statistics of a socket: struct tcp_info's fields in its units. */
struct tcp_sample {
	__u64 cookie;
	__u64 time_ns;
	__u64 pacing_rate_bytes_per_s;
	__u64 delivery_rate_bytes_per_s;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u64 busy_us;
	__u64 rwnd_limited_us;
	__u64 sndbuf_limited_us;
	__u32 send_queue_bytes;
	__u32 max_send_queue_bytes;
	__u32 receive_queue_bytes;
	__u32 notsent_bytes;
	__u32 unacked;
	__u32 sacked;
	__u32 lost;
	__u32 retrans;
	__u32 total_retrans;
	__u32 total_rto_time_ms;
	__u32 rto_us;
	__u32 ato_us;
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 min_rtt_us;
	__u32 rcv_rtt_us;
	__u32 cwnd;
	__u32 ssthresh;
	__u32 mss_bytes;
	__u32 snd_wnd_bytes;
	__u32 rcv_wnd_bytes;
	__u32 segs_out;
	__u32 segs_in;
	__u32 data_segs_out;
	__u32 data_segs_in;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 dsack_dups;
	__u32 reord_seen;
	__u32 rcv_ooopack;
	__u32 rcvbuf_bytes;
	__u32 sndbuf_bytes;
	__u32 wmem_queued_bytes;
	__u32 drops;
	__u16 total_rto;
	__u16 total_rto_recoveries;
	__u8 state;
	__u8 ca_state;
	__u8 backoff;
	__u8 app_limited;
	__u8 present;
	__u8 closed;
	__u8 pad[2];
};

#endif
