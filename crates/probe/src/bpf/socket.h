/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the probes keep with each recorded socket, in its own storage. A socket without this
 * storage is not recorded: every hook leaves after one look-up.
 *
 * A listening socket's storage is copied to the sockets it accepts (BPF_F_CLONE), which is how
 * an accepted socket is chosen before anyone has called accept. A copy is known by its cookie.
 */
#ifndef WHYLAT_SOCKET_H
#define WHYLAT_SOCKET_H

#include "kernel.h"
#include "../inventory/inventory.h"
#include "../tcp_stages/tcp_stages.h"
#include "../watch/watch.h"

/* Time in which loss kept the sender far below its best rate, and the congestion window meanwhile. */
struct loss_limited {
	u64 ns;
	u64 cwnd_ns; /* snd_cwnd times ns, summed */
};

/*
 * The ledger that tcp_stages keeps: see tcp_stages.bpf.h for its rules. The first two lines are
 * those that a call on a healthy connection writes; nothing else writes them then.
 */
struct stage_ledger {
	u32 busy;      /* a hook is changing the ledger */
	u32 write_seq; /* as of the last hook */
	u32 snd_nxt;   /* as of the last hook */
	u32 srtt_us;   /* in the kernel's units, 8 times the value */
	u32 delivered;
	u32 rtt_samples;
	u32 reader_slow_waits;
	u8 stage;	  /* the stage since accounted_ns, if stage_known */
	u8 stage_known;	  /* the last hook saw the state that it left behind */
	u8 changed;	  /* since it was last read */
	u8 hold_stage;	  /* STAGE_NAGLE or STAGE_SEND_BUFFER while hold_ns runs */
	u64 accounted_ns; /* every nanosecond before this is in stage_ns */
	u64 sent_ns;	  /* when the newest segment left, or the latest that it can have */
	u64 rtt_sum_us;
	u64 reader_slow_ns;

	u64 ready_ns;	 /* since when bytes wait for the reader: see ready_number */
	u64 interval_ns; /* when the interval began that was accounted last */
	u64 due_ns;  /* since when the oldest unanswered segment's ACK is overdue; 0: it is not */
	u64 hold_ns; /* since when the present wait for an ACK lasts; 0: none */
	u64 window_closed_since_ns; /* 0: open */
	u8 interval_stage;	    /* to which it was accounted */
	u8 stalled;		    /* STALL_* */
	u8 probed_stage;	    /* where most of probed_ns came from */
	u8 late;		    /* some late_ns is not zero */
	u8 had_loss; /* LOSS_*: cwnd was reduced by loss and has not regained prior_cwnd; 0: no */
	u8 zero_window;		   /* the peer announces no room */
	u8 unseen;		   /* an end has closed: ACKs pass no hook */
	u8 ended;		   /* our FIN is acknowledged: nothing more will be sent */
	u64 stage_ns[STAGE_COUNT]; /* a healthy connection writes the first two */

	u64 probed_ns; /* time moved to tail_loss by the last stall, should it prove spurious */
	u64 window_closed_ns;
	u64 longest_hold_ns;
	u64 asleep_ns; /* of a peer: accounted without a look, as nothing held it */
	u64 unseen_ns; /* accounted while unseen, and the stage changed between two hooks */
	u32 dsack_dups;
	u32 probed_retrans; /* total_retrans when that stall ended */
	u32 nagle_holds;
	u32 delayed_acks;
	u32 acks_by_timer;  /* segments, not ACKs */
	u32 first_data_seg; /* data_segs_out when the ledger began */
	u32 timeout_stalls;
	u32 tail_loss_stalls;
	u32 reader_slow_by_jiffy; /* of reader_slow_waits */
	u32 max_send_queue_bytes; /* most that was written and not acknowledged, at any hook */
	u32 max_snd_wnd_bytes;	  /* largest window of the peer, at any hook */
	u32 rwnd_jiffies;	  /* chronograph RWND_LIMITED as of the last hook, while unseen */
	u32 rate_delivered;	  /* tp->delivered at rate_since_ns */
	/* ready_ns of bytes before those, if a call has taken them and its hook has not run; else 0 */
	u64 taken_ready_ns;
	u32 ready_number; /* of the note of ready_ns; odd: it is just written */
	u32 ready_taken; /* that of the one which a call's hook has used: if they are the same, none holds */
	u64 rate_since_ns;  /* when the present interval of track_best_rate() began */
	u64 best_ns;	    /* the best interval, a microsecond if there was none yet */
	u32 best_delivered; /* segments in it */
	u8 reader_late;	    /* a peer: bytes waited for its reader, two jiffies or more */
	u8 fin_sent;
	u8 unsure;	/* while unseen: the last look did not say what stops the next byte */
	u8 timer_acked; /* the ACK taken last was sent by the delayed-ACK timer */
	u32 ready_begin; /* ready_ns is that of the bytes from this sequence number; written first, and read last */
	u32 ready_end;	       /* to this one */
	u32 taken_ready_begin; /* as ready_begin, of taken_ready_ns */
	u32 taken_ready_end;   /* as ready_end */
	u32 best_window;     /* segments that the best rate needs in flight on the unloaded path */
	u32 newly_delivered; /* segments, since the hook before */
	u32 newly_retrans;   /* the same of those retransmitted */
	u32 total_retrans;   /* as of the last hook with had_loss */
	u32 loss_limited_retrans;   /* segments retransmitted in the time below */
	u64 loss_limited_delivered; /* segments in it */
	struct loss_limited loss_limited;
	/* after due_ns: added to loss_limited when it proves to be no stall */
	struct loss_limited loss_limited_late;
	/* what stage_ns holds of the time after due_ns: moved when it proves to be one */
	u64 late_ns[STAGE_COUNT];
	struct stall_facts stalls;
	u64 timeout_ns;		 /* of the last retransmission timeout */
	u64 recovery_ns;	 /* of the last segment taken in recovery or loss */
	u64 unproven_ns;	 /* moved to retransmit_timeout since state Loss began */
	u64 unproven_thin_ns;	 /* of it in thin_stall_ns */
	u64 ack_held_ns;	 /* of timeout_ack_delayed_ns, since then */
	u64 stall_held_ns;	 /* the same of the present stall */
	u64 burst_loss_since_ns; /* the present recovery is from a burst after idle; 0: it is not */
	u32 unproven_stalls;	 /* as unproven_ns */
	u32 burst_end;		 /* sequence after the first window of the last flight after idle */
	u32 acks_held;		 /* as ack_held_ns */
	u8 unproven_stage;	 /* where most of unproven_ns came from */
	u8 thin;		 /* the present stall began with few segments out */
	u8 probed_thin;		 /* the stall of probed_ns did */
	u8 burst;		 /* burst_end holds */
	u32 grown_wnd_bytes; /* the peer's window when it was last twice as large as then; 0: none yet */
	u32 sndbuf_bytes;     /* largest limit of the send buffer */
	u64 wnd_grown_ns;     /* receiver_window when the peer's window was last twice as large */
	u64 wnd_growth_ns;    /* of it, waits for such growth */
	u64 sndbuf_grown_ns;  /* send_buffer when the limit last grew */
	u64 sndbuf_growth_ns; /* of it, waits for such growth */
};

/* Holds what the last sample of the socket's statistics saw: see tcp_stats.bpf.h. */
struct sample_memory {
	u32 segs_in;
	u32 segs_out;
	u32 write_seq;
	u16 round; /* the poll that last read all that there was */
	u8 busy;   /* bytes were queued in either direction, or there was no sample yet */
	u8 active; /* polls look at it: watch/active.bpf.h */
};

#define OWNERS_MOST 4

/*
 * The order of fields is that of who writes them. Segments are often taken on another CPU than the
 * one that makes the calls, and a line that both write travels between them at every turn, which
 * costs more than all accounting. So a quiet segment writes nothing, and reads only the first line
 * (56 bytes: the storage has 8 of its own before them), which is rarely written. A walk over idle
 * sockets reads that, and of the ledger whether it changed.
 */
struct socket_state {
	u64 cookie; /* 0: a listening socket */
	struct sample_memory sampled;
	u32 first_sent; /* sequence numbers of the two streams' first bytes */
	u32 first_received;
	u32 owner; /* process that last called on it */
	u8 role;
	u8 chosen;
	u8 owner_measured; /* is_measured(process.pid) */
	u8 owners;	   /* changes of owner so far, at most OWNERS_MOST */
	u16 left_out;	   /* the first poll since the last reading that left it out; 0: none did */
	u16 number;	   /* connection_number(), which the socket loses when it closes */
	u32 watched;	   /* the last hook left something that the next segment may end */
	u32 begun;	   /* socket_begin() has run */

	struct stage_ledger ledger;
	struct call_summary calls;

	struct process_seen process; /* who owns it, as last written out */
	u64 connect_ns;		     /* when connect() was called; 0: not seen */
	u64 listen_ns;	    /* of the listening socket: when listen() was called; 0: not seen */
	u64 opened_ns;	    /* 0: open before */
	u64 since_ns;	    /* when the ledger began */
	u64 closed_ns;	    /* when it closed, between the two programs that see that */
	u64 ended_cookie;   /* of a target's connection that has closed; 0: none */
	u64 ulp_ops;	    /* the protocol above TCP, as last written out; 0: none */
	u64 mptcp;	    /* the MPTCP socket above it: a key of mptcp_connections; 0: none */
	u32 mptcp_token;    /* its token, as last written out; 0: none */
	u32 max_send_queue; /* of all samples so far */
	u32 syn_retries;    /* SYNs retransmitted */
	u32 connect_tid;    /* thread that called connect(), as connect_ns */
	u8 serves; /* a recorded process has opened the connection: who owns this end is followed */
};

/* A receive call has taken bytes of the stream: not copied them only, nor read what is beside it. */
static __always_inline bool takes_bytes(int result, int msg_flags)
{
	return result > 0 && !(msg_flags & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB));
}

/* The connection that a call on the socket belongs to, also after its end. */
static __always_inline u64 connection_of(const struct socket_state *st)
{
	return st->cookie ? st->cookie : st->ended_cookie;
}

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct socket_state);
} sockets SEC(".maps");

/*
 * When a call was blocked: from its first time to its last. since_ns may be that of an earlier call,
 * which was not examined; 0: it was not blocked.
 */
struct call_blocked {
	u64 since_ns;
	u64 until_ns;
};

/* How long bytes were unread, if nobody saw it. */
#define UNREAD_UNSEEN ((u64) - 1)

/*
 * Chooses sockets before their storage is read: how many targets fall on the number of a socket, and
 * how many watched sockets on that of a connection, which is the same at both its ends. So a peer
 * with nothing to report costs no look-up, and is examined as soon as either end has
 * something to say.
 */
#define NUMBERS 4096

u32 targets_by_number[NUMBERS] = {};
u32 watched_by_number[NUMBERS] = {};

static __always_inline u32 *targets_of(const struct sock *sk)
{
	return &targets_by_number[sk->__sk_common.skc_hash & (NUMBERS - 1)];
}

/* By its ports: the two ends of an IPv6 connection need not agree in skc_daddr, nor in family. */
static __always_inline u16 connection_number(const struct sock *sk)
{
	u32 ports = sk->__sk_common.skc_num ^ bpf_ntohs(sk->__sk_common.skc_dport);

	return ports & (NUMBERS - 1);
}

static __always_inline bool may_be_watched(const struct sock *sk)
{
	return READ_ONCE(watched_by_number[connection_number(sk)]);
}

static __always_inline bool is_watched(const struct sock *sk)
{
	return READ_ONCE(*targets_of(sk)) || may_be_watched(sk);
}

/* Several hooks may do so at once: each change is counted once. */
static __always_inline void set_watched(struct socket_state *st, u32 watch)
{
	u16 number = st->number;

	if (st->watched == watch || number >= NUMBERS || (watch && !st->cookie))
		return;
	if (__sync_lock_test_and_set(&st->watched, watch) != watch)
		__sync_fetch_and_add(&watched_by_number[number], watch ? 1 : -1);
}

/*
 * Hooks of one socket can run at the same time: a send call ends on one CPU while softirq takes
 * an ACK on another, or interrupts it on the same. The loser leaves: the ledger accounts whole
 * intervals, so the next hook accounts what this one did not.
 */
static __always_inline bool ledger_try_lock(struct socket_state *st)
{
	return __sync_lock_test_and_set(&st->ledger.busy, 1) == 0;
}

static __always_inline void ledger_unlock(struct socket_state *st)
{
	barrier();
	*(volatile u32 *)&st->ledger.busy = 0;
}

#endif
