/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Watching for as long as the host runs: no record a call and none an event, but counts in the socket's
 * storage, read together with its statistics and its ledger by walks over the sockets (read_watched),
 * and once more when it closes.
 *
 * A walk reads the sockets on which something has happened, each at its own rate: at level l every 2^l-th
 * walk. One that is left out has news since the first walk that left it out. Where hooks see all that
 * happens, WALK_DUE looks at active sockets only (active.bpf.h); if it is over all, a socket that rests and yet
 * has news is read at once, since nobody would know later which walk saw it first.
 */
#ifndef WHYLAT_WATCH_BPF_H
#define WHYLAT_WATCH_BPF_H

#include "../bpf/ring.h"
#include "../bpf/socket.h"
#include "../bpf/walk.h"
#include "../tcp_events/tcp_events.bpf.h"
#include "active.bpf.h"
#include "watch.h"

struct socket_reading_record {
	struct record_header header;
	struct socket_reading reading;
};

/* Levels of sockets that are not read at the default one, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} walk_levels SEC(".maps");

static __always_inline u32 call_class(u32 bytes)
{
	if (bytes <= 512)
		return bytes > 64;
	if (bytes <= 32768)
		return 2 + (bytes > 4096);
	return 4 + (bytes > 262144);
}

/* A call moved bytes. Several threads may do so at once. */
static __always_inline void call_count(u64 classes[CALL_CLASSES], s32 bytes)
{
	u32 class;

	if (bytes <= 0)
		return;
	class = call_class(bytes);
	if (class < CALL_CLASSES)
		__sync_fetch_and_add(&classes[class], (1ULL << CALL_COUNT_SHIFT) + bytes);
}

static __always_inline void receive_count(struct socket_state *st, s32 bytes, int msg_flags)
{
	if (takes_bytes(bytes, msg_flags))
		call_count(st->calls.reads, bytes);
}

/* False if a hook is changing the ledger at this moment: it is left to the next walk. */
static __always_inline bool reading_ledger(struct stage_reading *out, struct socket_state *st,
					   struct sock *sk, const struct tcp_sock *tp, bool closed,
					   u64 now_ns)
{
	bool locked = ledger_try_lock(st);

	/* nobody waits for the last word: without the lock it may count one interval twice */
	if (!locked && !closed)
		return false;
	events_on_segment(st, tp, now_ns);
	stages_on_read(st, sk, tp, now_ns);
	stages_copy(out, st, sk, tp, closed);
	if (locked)
		ledger_unlock(st);
	return true;
}

static __always_inline bool is_at_rest(const struct socket_state *st)
{
	return watch_active && !st->sampled.active;
}

/* Before this the socket had no news since its last reading: of one that rests no hook has seen them. */
static __always_inline u64 reading_since(const struct socket_state *st, bool closed)
{
	if (is_at_rest(st) && !closed)
		return walk_over_active ? full_walk_ns : full_walk_before_ns;
	return walk_began_before(st->left_out);
}

/* Those on an MPTCP socket are notified of its first subflow. */
static __always_inline void calls_copy(struct call_summary *out, struct socket_state *st)
{
	struct mptcp_connection *known = NULL;
	u64 key = st->mptcp;

	if (key)
		known = bpf_map_lookup_elem(&mptcp_connections, &key);
	if (known && known->cookie == st->cookie)
		__builtin_memcpy(out, &known->calls, sizeof(*out));
	else
		__builtin_memcpy(out, &st->calls, sizeof(*out));
}

/* False if the ledger is not in it that belongs there. */
static __always_inline bool reading_fill(struct socket_reading *out, struct socket_state *st,
					 struct sock *sk, const struct tcp_sock *tp, bool closed,
					 u64 now_ns)
{
	out->since_ns = reading_since(st, closed);
	sample_fill(&out->sample, st, sk, tp, closed, now_ns);
	calls_copy(&out->calls, st);
	__builtin_memset(&out->stages, 0, sizeof(out->stages));
	return !detail_ledger || reading_ledger(&out->stages, st, sk, tp, closed, now_ns);
}

/* The last word on a connection. */
static __always_inline void watch_on_close(struct socket_state *st, struct sock *sk,
					   const struct tcp_sock *tp, u64 now_ns)
{
	struct socket_reading_record *last = record_reserve(RECORD_SOCKET_READING, sizeof(*last));

	if (!last)
		return;
	reading_fill(&last->reading, st, sk, tp, true, now_ns);
	record_submit(last);
}

/* False if the ring is full. */
static __always_inline bool watch_read(struct socket_state *st, struct sock *sk,
				       const struct tcp_sock *tp)
{
	struct socket_reading_record *record = bpf_ringbuf_reserve(&readings, sizeof(*record), 0);
	bool whole;

	if (!record)
		return false;
	socket_refresh(st, sk, tp);
	record->header.kind = RECORD_SOCKET_READING;
	record->header.pad = 0;
	whole = reading_fill(&record->reading, st, sk, tp, false, bpf_ktime_get_ns());
	sample_remember(&st->sampled, tp);
	if (!whole)
		st->sampled.busy = true;
	record_submit(record);
	return true;
}

static __always_inline bool is_walk_due(const struct socket_state *st)
{
	u64 cookie = st->cookie;
	u8 level = walk_default_level, *own = NULL;

	if (walk_has_levels)
		own = bpf_map_lookup_elem(&walk_levels, &cookie);
	if (own)
		level = *own;
	/* not all at the same walk */
	return !((walked.round + (u32)cookie) & ((1U << (level & WALK_LEVEL_MASK)) - 1));
}

/* Where it can be, without a look at what type the socket is: that is in other lines of its memory. */
static __always_inline const struct tcp_sock *tcp_sock_of(struct sock *sk)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}

/*
 * Returns whether the socket has no news. Reading it costs the first line of the storage and two of the
 * socket.
 */
static __always_inline bool is_unchanged(const struct socket_state *shown, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sock_of(sk);

	return tp && !sample_is_new(&shown->sampled, tp);
}

/* Reads a socket that has news, or any if all are asked for, if it is due. */
static __always_inline void watch_visit_changed(struct socket_state *st, struct sock *sk)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp)
		return;
	if (walk_which == WALK_DUE && !is_at_rest(st) && !is_walk_due(st)) {
		if (!walk_is_further)
			walked.left_out++;
		if (!st->left_out)
			st->left_out = walked.round;
		return;
	}
	if (!watch_read(st, sk, tp)) {
		walked.postponed++;
		return;
	}
	walked.sockets++;
	st->sampled.round = walked.round;
	st->left_out = 0;
}

static __always_inline int watch_visit(struct sock *sk, const struct socket_state *shown)
{
	struct socket_state *st;
	bool unchanged;

	if (!shown->cookie || shown->sampled.round == walked.round)
		return 0;
	unchanged = is_unchanged(shown, sk);
	if (walk_which != WALK_EVERY && unchanged) {
		walk_count_unchanged();
		return 0;
	}
	st = socket_recorded(sk);
	if (!st)
		return 0;
	watch_visit_changed(st, sk);
	/* after its reading, which shows by it since when there is news */
	if (!unchanged && st->sampled.round == walked.round)
		socket_has_news(st, sk);
	return 0;
}

/* A hook will see the next news of this socket, and those that there may be are too old to matter to hooks. */
static __always_inline bool may_rest(const struct socket_state *st, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sock_of(sk);

	if (!st->cookie)
		return true;
	return tp && sk->__sk_common.skc_state == TCP_ESTABLISHED && is_silent(tp, active_jiffies);
}

/*
 * Without the mark a hook makes the socket active again. One that examined the mark just before it was
 * taken away had counted its news before (tcp_v4_rcv() counts a segment before tcp_probe, a call ends
 * after it wrote), so that they are seen here. Of a change of state that is not so, but the FIN that follows
 * it is answered or retransmitted, which is one more.
 */
static __always_inline void socket_rests(struct socket_state *st, struct sock *sk)
{
	bpf_sk_storage_delete(&active_sockets, sk);
	st->sampled.active = 0;
	active_barrier();
	if (may_rest(st, sk) && (!st->cookie || is_unchanged(st, sk)))
		walked.rested++;
	else
		socket_activate(st, sk);
}

static __always_inline void watch_visit_active(struct sock *sk)
{
	struct socket_state *st = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	if (!st || st->sampled.round == walked.round)
		return;
	if (st->cookie && !is_unchanged(st, sk)) {
		watch_visit_changed(st, sk);
		return;
	}
	if (st->cookie)
		walk_count_unchanged();
	if (may_rest(st, sk))
		socket_rests(st, sk);
}

/* For Rust, by way of the object's BTF. */
const struct socket_reading wire_socket_reading = {};

#endif
