/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The stage ledger of a TCP socket as it leaves the kernel. Included by the BPF programs; Rust
 * takes the types from the object's BTF.
 */
#ifndef WHYLAT_TCP_STAGES_H
#define WHYLAT_TCP_STAGES_H

#include <linux/types.h>

/*
 * What stops the next byte of a sending socket. First the two that a healthy connection alternates
 * between (they share a cache line with what every call writes), then in order of decision.
 */
enum stage {
	STAGE_SENDER_APP,
	STAGE_IN_FLIGHT,
	STAGE_RETRANSMIT_TIMEOUT,
	STAGE_TAIL_LOSS,
	STAGE_RECEIVER_WINDOW,
	STAGE_FAST_RETRANSMIT,
	STAGE_CWND_STARTUP,
	STAGE_CWND_LOSS,
	STAGE_CWND_CWR,
	STAGE_CWND_PROBING,
	STAGE_PACING,
	STAGE_LOCAL_QUEUE,
	STAGE_CORK,
	STAGE_NAGLE,
	STAGE_DELAYED_ACK,
	STAGE_SEND_BUFFER,
	STAGE_UNKNOWN,
	STAGE_COUNT,
	STAGE_NETWORK_FIRST = STAGE_FAST_RETRANSMIT,
	STAGE_NETWORK_LAST = STAGE_PACING,
};

/* Holds what is known of stalls and losses beside how long they took. */
struct stall_facts {
	__u64 thin_stall_ns;	      /* stalls with too few segments out for duplicate ACKs */
	__u64 spurious_timeout_ns;    /* waits that were taken for a loss, and were none */
	__u64 timeout_ack_delayed_ns; /* of stalls: the receiver held back the ACK that ends them */
	__u64 burst_loss_ns;	      /* recoveries of bursts after idle */
	__u32 thin_stalls;
	__u32 spurious_timeouts;
	__u32 timeout_acks_delayed;
	__u32 bursts_after_idle;
	__u32 burst_losses;
	__u32 loss_episodes; /* times that recovery or loss began */
};

/* One reading of a ledger. All times are cumulative nanoseconds since since_ns. */
struct stage_reading {
	__u64 cookie;
	__u64 time_ns;
	__u64 since_ns;
	__u64 stage_ns[STAGE_COUNT];
	__u64 longest_hold_ns;
	__u64 rtt_sum_us;
	__u64 reader_slow_ns;
	__u64 window_closed_ns;
	__u64 best_rate_bytes_per_s; /* 0: no sample */
	__u64 unseen_ns;
	__u64 asleep_ns;
	__u64 loss_limited_ns;
	__u64 loss_limited_bytes;
	__u64 loss_limited_retrans_bytes;
	__u64 loss_limited_cwnd_byte_ms;
	__u64 window_growth_ns;
	__u64 send_buffer_growth_ns;
	struct stall_facts stalls;
	__u32 rtt_samples;
	__u32 nagle_holds;
	__u32 delayed_acks;
	__u32 acks_by_timer;
	__u32 data_segs_out;
	__u32 timeout_stalls;
	__u32 tail_loss_stalls;
	__u32 reader_slow_waits;
	__u32 reader_slow_by_jiffy;
	__u32 max_send_queue_bytes;
	__u32 max_snd_wnd_bytes;
	__u8 closed;
	__u8 nodelay;
	__u8 pad[2];
};

#endif
