/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Describes what stops the next byte of a socket, read off its present state. Nothing is written here. */
#ifndef WHYLAT_SEND_LIMIT_BPF_H
#define WHYLAT_SEND_LIMIT_BPF_H

#include "../bpf/kernel.h"
#include "../bpf/socket.h"

/* Jiffies in a second: the kernel's configuration, which not every machine has at hand. */
const volatile u32 kernel_hz = 100;

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_SEC 1000000000ULL
#define NSEC_PER_MSEC 1000000ULL
#define USEC_PER_SEC 1000000ULL
/* TCP_DELACK_MIN and TCP_ATO_MIN are HZ / 25 (include/net/tcp.h). */
#define DELACK_MIN_PER_S 25
#define TCP_DELACK_MIN_NS (NSEC_PER_SEC / DELACK_MIN_PER_S)

static __always_inline u64 jiffy_ns(void)
{
	return NSEC_PER_SEC / kernel_hz;
}

static __always_inline u64 srtt_ns(const struct tcp_sock *tp)
{
	return (u64)(tp->srtt_us >> 3) * NSEC_PER_USEC;
}

/* The path's round-trip time: the least in the kernel's window, 0 before the first sample. */
static __always_inline u64 path_rtt_ns(const struct tcp_sock *tp)
{
	u32 min_rtt_us = tp->rtt_min.s[0].v;

	return min_rtt_us == ~0U ? 0 : (u64)min_rtt_us * NSEC_PER_USEC;
}

/* The last delivery, or the start of the flight that has none yet. */
static __always_inline u64 delivered_ns(const struct tcp_sock *tp)
{
	return tp->delivered_mstamp * NSEC_PER_USEC;
}

static __always_inline u8 tcp_chrono_type(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, chrono_type);
}

static __always_inline u8 tcp_ca_state(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
}

static __always_inline u8 tcp_nonagle(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, nonagle);
}

/* tcp_packets_in_flight() */
static __always_inline u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

static __always_inline bool pacing_timer_armed(const struct tcp_sock *tp)
{
	if (bpf_core_field_exists(struct hrtimer, state))
		return tp->pacing_timer.state & HRTIMER_STATE_ENQUEUED;
	return BPF_CORE_READ((struct hrtimer___is_queued *)&tp->pacing_timer, is_queued);
}

static __always_inline bool is_bbr(const struct tcp_sock *tp)
{
	char name[4] = {};

	bpf_probe_read_kernel(name, sizeof(name), tp->inet_conn.icsk_ca_ops->name);
	return name[0] == 'b' && name[1] == 'b' && name[2] == 'r';
}

/* Why the congestion window is small. BBR leaves ssthresh infinite for life: not a start. */
static __always_inline u32 cwnd_cause(const struct stage_ledger *led, const struct tcp_sock *tp)
{
	if (tcp_ca_state(tp) == TCP_CA_CWR)
		return STAGE_CWND_CWR;
	if (led->had_loss)
		return STAGE_CWND_LOSS;
	if (tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH && !is_bbr(tp))
		return STAGE_CWND_STARTUP;
	return STAGE_CWND_PROBING;
}

/* The congestion window is full: by its cause. */
static __always_inline u32 cwnd_stage(const struct stage_ledger *led, const struct tcp_sock *tp)
{
	return tcp_ca_state(tp) == TCP_CA_Recovery ? STAGE_FAST_RETRANSMIT : cwnd_cause(led, tp);
}

/* Returns what stops the next byte while some are unsent; the order of tcp_write_xmit()'s tests. */
static __always_inline u32 send_limit_on_unsent(const struct stage_ledger *led, struct sock *sk,
						const struct tcp_sock *tp, u32 unsent)
{
	bool tail = unsent < tp->mss_cache;
	u8 nonagle;

	if (tcp_chrono_type(tp) == TCP_CHRONO_RWND_LIMITED)
		return STAGE_RECEIVER_WINDOW;
	if (packets_in_flight(tp) >= tp->snd_cwnd)
		return cwnd_stage(led, tp);
	if (pacing_timer_armed(tp))
		return STAGE_PACING;
	nonagle = tcp_nonagle(tp);
	if (tail && (nonagle & TCP_NAGLE_CORK))
		return STAGE_CORK;
	if (sk->sk_tsq_flags & TSQ_HELD)
		/* tcp_should_autocork() sets TSQ_THROTTLED for a short tail, too */
		return tail ? STAGE_CORK : STAGE_LOCAL_QUEUE;
	if (tail && tp->packets_out && !(nonagle & (TCP_NAGLE_OFF | TCP_NAGLE_PUSH)))
		return STAGE_NAGLE;
	if (tail && !tp->packets_out)
		return STAGE_CORK; /* MSG_MORE: nothing in flight, and not pushed */
	/* tcp_tso_should_defer() waits for room for a larger segment */
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return cwnd_stage(led, tp);
	/* a segment is taken while a thread has the socket: it was queued until that let go, and so
	 * was what the pacing timer would have sent */
	return sk->sk_lock.owned ? STAGE_SENDER_APP : STAGE_UNKNOWN;
}

/* sk_stream_is_writeable(): no writer can be waiting for room. */
static __always_inline bool writer_has_room(const struct sock *sk)
{
	return sk->sk_wmem_queued + (sk->sk_wmem_queued >> 1) <= sk->sk_sndbuf;
}

/* A writer is waiting for room in the send buffer. */
static __always_inline bool writer_waits(struct sock *sk)
{
	struct socket *socket;

	if (writer_has_room(sk))
		return false;
	socket = KERNEL_POINTER(struct sock, sk, sk_socket);
	return socket && (socket->flags & (1UL << SOCK_NOSPACE));
}

/*
 * What stops the next byte now. STAGE_IN_FLIGHT means "all sent, not all acknowledged". With
 * all sent and a writer waiting it is the send buffer, unless a byte more in it could not leave
 * either.
 */
static __always_inline u32 send_limit(const struct stage_ledger *led, struct sock *sk,
				      const struct tcp_sock *tp)
{
	s32 unsent = seq_diff(tp->write_seq, tp->snd_nxt);

	if (unsent > 0)
		return send_limit_on_unsent(led, sk, tp, unsent);
	if (tp->write_seq == tp->snd_una)
		return STAGE_SENDER_APP;
	if (!writer_waits(sk))
		return STAGE_IN_FLIGHT;
	if (packets_in_flight(tp) >= tp->snd_cwnd)
		return cwnd_stage(led, tp);
	if (seq_diff(tp->snd_una + tp->snd_wnd, tp->snd_nxt) < (s32)tp->mss_cache)
		return STAGE_RECEIVER_WINDOW;
	return STAGE_SEND_BUFFER;
}

#endif
