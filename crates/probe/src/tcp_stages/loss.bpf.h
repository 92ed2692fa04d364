/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Does loss make a flow slower than it was? Recovery alone slows nobody: what counts is the time in
 * which, after a loss, the flow's own best rate could not have been kept.
 */
#ifndef WHYLAT_LOSS_BPF_H
#define WHYLAT_LOSS_BPF_H

#include "send_limit.bpf.h"

/*
 * The best rate that lasted for ten round trips of the path: as long as BBR keeps a sample
 * (bbr_bw_rtts). Over one round trip, as the kernel's own samples are, it can be too high by any
 * factor, when segments or ACKs that were held up on the way arrive together.
 */
#define BEST_RATE_RTTS 10

static __always_inline void track_best_rate(struct stage_ledger *led, const struct tcp_sock *tp,
					    u64 now_ns)
{
	u64 passed_ns = now_ns - led->rate_since_ns, least_ns = BEST_RATE_RTTS * path_rtt_ns(tp);
	u64 segments = tp->delivered - led->rate_delivered;

	if (!least_ns || (led->rate_since_ns && passed_ns < least_ns))
		return;
	if (led->rate_since_ns && segments * (led->best_ns / NSEC_PER_USEC) >
					  (u64)led->best_delivered * (passed_ns / NSEC_PER_USEC)) {
		led->best_delivered = segments;
		led->best_ns = passed_ns;
	}
	led->best_window = led->best_delivered * path_rtt_ns(tp) / led->best_ns;
	led->rate_since_ns = now_ns;
	led->rate_delivered = tp->delivered;
}

/* 0: no rate has lasted yet. best_ns is ten round trips at least, so some microseconds. */
static __always_inline u64 best_rate_bytes_per_s(const struct stage_ledger *led,
						 const struct tcp_sock *tp)
{
	if (!led->best_delivered)
		return 0;
	return (u64)led->best_delivered * tp->mss_cache * USEC_PER_SEC /
	       (led->best_ns / NSEC_PER_USEC);
}

/* Holds what led->had_loss says: what found the loss. */
#define LOSS_BY_DUP_ACKS 1
#define LOSS_BY_TIMEOUT 2

static __always_inline u8 loss_of_state(u8 ca_state)
{
	return ca_state == TCP_CA_Loss ? LOSS_BY_TIMEOUT : LOSS_BY_DUP_ACKS;
}

/* Has loss reduced the congestion window, which has not regained its earlier value? */
static __always_inline void track_loss(struct stage_ledger *led, const struct tcp_sock *tp)
{
	if (tcp_ca_state(tp) >= TCP_CA_Recovery)
		led->had_loss = loss_of_state(tcp_ca_state(tp));
	else if (tp->snd_cwnd >= tp->prior_cwnd)
		led->had_loss = 0;
}

/* The initial window, which is all that a flight may be after the kernel's slow start after idle. */
#define TCP_INIT_CWND 10
/* TCP_RTO_MIN */
#define TCP_RTO_MIN_NS (NSEC_PER_SEC / 5)

/*
 * A flight begins at start_ns, after a pause of a retransmission timeout or more: what was learnt of
 * the path is old (tcp_cwnd_restart()). Until its first window is acknowledged it is a burst, unless
 * it is paced. While losses were repaired, something was sent, too.
 */
static __always_inline void note_pause(struct stage_ledger *led, const struct tcp_sock *tp,
				       u64 start_ns)
{
	u64 sent_ns = led->recovery_ns > led->sent_ns ? led->recovery_ns : led->sent_ns;
	u64 pause_ns = start_ns - sent_ns;

	if ((s64)pause_ns < (s64)TCP_RTO_MIN_NS || pause_ns < tp->inet_conn.icsk_rto * jiffy_ns() ||
	    tp->snd_cwnd <= TCP_INIT_CWND ||
	    tp->inet_conn.icsk_inet.sk.sk_pacing_status != SK_PACING_NONE)
		return;
	led->burst = 1;
	led->burst_end = led->write_seq + tp->snd_cwnd * tp->mss_cache;
	led->stalls.bursts_after_idle++;
}

/*
 * The congestion state changes. A loss belongs to a burst after idle if more was out than slow start
 * would have sent, and what is lost first is of its first window.
 */
static __always_inline void track_burst_loss(struct stage_ledger *led, const struct tcp_sock *tp,
					     u8 state, u64 now_ns)
{
	bool loses = state >= TCP_CA_Recovery, lost = tcp_ca_state(tp) >= TCP_CA_Recovery;

	if (loses && !lost) {
		led->stalls.loss_episodes++;
		if (led->burst && tp->packets_out > TCP_INIT_CWND &&
		    seq_diff(led->burst_end, tp->snd_una) > 0) {
			led->stalls.burst_losses++;
			led->burst_loss_since_ns = led->due_ns ? led->due_ns : now_ns;
		}
		led->burst = 0;
	} else if (!loses && led->burst_loss_since_ns) {
		led->stalls.burst_loss_ns += now_ns - led->burst_loss_since_ns;
		led->burst_loss_since_ns = 0;
	}
}

/*
 * Is what congestion control turns down upon loss far below what the best rate so far needs? That
 * is the window; BBR sends at its estimate of the path through recovery, so there it is the pacing
 * rate. Far is seven tenths: a healthy flow swings to 717/1024 (beta of cubic), or to 3/4 * 0.99
 * (bbr_pacing_gain, bbr_pacing_margin_percent).
 */
static __always_inline bool is_far_below_best(const struct stage_ledger *led,
					      const struct tcp_sock *tp)
{
	u64 rate = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;

	if (is_bbr(tp))
		return rate < best_rate_bytes_per_s(led, tp) / 10 * 7;
	return tp->snd_cwnd * 10 < led->best_window * 7;
}

static __always_inline void add_loss_limited(struct loss_limited *limited,
					     const struct tcp_sock *tp, u64 length_ns)
{
	limited->ns += length_ns;
	limited->cwnd_ns += length_ns * tp->snd_cwnd;
}

/*
 * The network is the limit from accounted_ns to now: does loss that duplicate ACKs reported make it one,
 * and what arrives? After a timeout it is that which has made the window small.
 */
static __always_inline void track_loss_limited(struct stage_ledger *led, const struct tcp_sock *tp,
					       u64 now_ns)
{
	u64 from_ns = led->accounted_ns, due_ns = led->due_ns;

	if (led->had_loss != LOSS_BY_DUP_ACKS || now_ns <= from_ns || led->ended ||
	    !is_far_below_best(led, tp))
		return;
	if (due_ns && due_ns < now_ns) {
		if (due_ns < from_ns)
			due_ns = from_ns;
		add_loss_limited(&led->loss_limited_late, tp, now_ns - due_ns);
	} else {
		due_ns = now_ns;
	}
	add_loss_limited(&led->loss_limited, tp, due_ns - from_ns);
	led->loss_limited_delivered += led->newly_delivered;
	led->newly_delivered = 0;
	led->loss_limited_retrans += led->newly_retrans;
	led->newly_retrans = 0;
}

#endif
