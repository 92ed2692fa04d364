/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Zero-copy sends that the kernel copied after all. It reports the end of each send to the program, and says there
 * whether it copied; the report stays where the program finds it.
 *
 * MSG_ZEROCOPY: the report is an skb at the end of the socket's error queue (__msg_zerocopy_callback()), which names the
 * first and the last send that it is about. A further send extends the report before it, if nobody has read that.
 *
 * io_uring: a completion with IORING_CQE_F_NOTIF. It says whether the kernel copied if the program asked for that
 * (IORING_SEND_ZC_REPORT_USAGE), and does not name the socket. The completion of the send itself comes before, has the
 * same user_data, and does.
 */
#ifndef WHYLAT_ZEROCOPY_BPF_H
#define WHYLAT_ZEROCOPY_BPF_H

#include "../bpf/ring.h"
#include "../bpf/select.h"
#include "../bpf/socket.h"
#include "../inventory/inventory.bpf.h"
#include "zerocopy.h"

/* include/uapi/linux/errqueue.h */
#define SO_EE_ORIGIN_ZEROCOPY 5
#define SO_EE_CODE_ZEROCOPY_COPIED 1

/* include/uapi/linux/io_uring.h */
#define IORING_OP_SEND_ZC 47
#define IORING_OP_SENDMSG_ZC 48
#define IORING_CQE_F_MORE (1U << 1)
#define IORING_CQE_F_NOTIF (1U << 3)
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)

/* A record is made so often at most for each connection. */
#define ZEROCOPY_RECORD_NS (100 * 1000000ULL)

struct zerocopy_record {
	struct record_header header;
	struct zerocopy_seen seen;
};

struct zerocopy_socket {
	struct zerocopy_seen seen;
	u64 recorded_ns; /* 0: never */
	u32 busy;	 /* a hook is changing it */
	u32 first;	 /* of the last report */
	u32 last;
	u32 next; /* after all sends that are counted */
	u8 has_report;
	u8 is_whole; /* the recording has all sends of the socket */
	u8 closed;
	u8 changed; /* since its last record */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct zerocopy_socket);
} zerocopy_sockets SEC(".maps");

/* The connection of a send by io_uring, until its report comes. */
struct zerocopy_request {
	u64 ring;
	u64 user_data;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct zerocopy_request);
	__type(value, u64);
} zerocopy_requests SEC(".maps");

/* Sends by io_uring, by connection. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct zerocopy_socket);
} zerocopy_by_uring SEC(".maps");

static __always_inline void zerocopy_emit(struct zerocopy_socket *zc, u64 now_ns)
{
	struct zerocopy_record *record = record_reserve(RECORD_ZEROCOPY, sizeof(*record));

	if (!record)
		return;
	zc->recorded_ns = now_ns;
	zc->changed = 0;
	zc->seen.time_ns = now_ns;
	record->seen = zc->seen;
	record_submit(record);
}

static __always_inline void zerocopy_changed(struct zerocopy_socket *zc)
{
	u64 now_ns = bpf_ktime_get_ns();

	zc->changed = 1;
	if (zc->closed || now_ns - zc->recorded_ns >= ZEROCOPY_RECORD_NS)
		zerocopy_emit(zc, now_ns);
}

/* Report of the kernel on the sends from the first to the last. */
struct zerocopy_report {
	u32 first;
	u32 last;
	bool copied;
};

/* Counts sends without a report up to this one: the program took it before the hook saw it. */
static __always_inline void zerocopy_skip(struct zerocopy_socket *zc, u32 next)
{
	s32 skipped = seq_diff(next, zc->next);

	if (skipped <= 0)
		return;
	zc->seen.counts.unknown += skipped;
	zc->next = next;
	zc->changed = 1;
}

/* Some of these reports come late. */
static __always_inline void zerocopy_late(struct zerocopy_socket *zc, u32 sends)
{
	u64 unknown = zc->seen.counts.unknown;

	zc->seen.counts.unknown -= sends < unknown ? sends : unknown;
}

/* Counts those sends of a report that were in none before. */
static __always_inline void zerocopy_count(struct zerocopy_socket *zc,
					   const struct zerocopy_report *report)
{
	u32 first = report->first, last = report->last;
	u32 from = zc->has_report && zc->first == first ? zc->last + 1 : first;
	u32 sends = last + 1 - from;

	if (!zc->has_report && !zc->is_whole)
		zc->next = first;
	zc->has_report = 1;
	zc->first = first;
	zc->last = last;
	if (!sends)
		return;
	zerocopy_skip(zc, from);
	if (seq_diff(last + 1, zc->next) > 0)
		zc->next = last + 1;
	else
		zerocopy_late(zc, sends);
	if (report->copied)
		zc->seen.counts.copied += sends;
	else
		zc->seen.counts.not_copied += sends;
	zerocopy_changed(zc);
}

/* The report at the end of the error queue; false: what is there is none. */
static __always_inline bool zerocopy_report(const struct sock *sk, struct zerocopy_report *report)
{
	const struct sk_buff *tail = sk->sk_error_queue.prev;
	const struct sock_exterr_skb *error;

	if ((const void *)tail == (const void *)&sk->sk_error_queue)
		return false;
	error = (const void *)tail->cb;
	if (BPF_CORE_READ(error, ee.ee_origin) != SO_EE_ORIGIN_ZEROCOPY ||
	    BPF_CORE_READ(error, ee.ee_errno))
		return false;
	report->first = BPF_CORE_READ(error, ee.ee_info);
	report->last = BPF_CORE_READ(error, ee.ee_data);
	report->copied = BPF_CORE_READ(error, ee.ee_code) & SO_EE_CODE_ZEROCOPY_COPIED;
	return true;
}

/* inet_sk_error_report: something came to the error queue. */
static __always_inline void zerocopy_on_report(struct sock *sk)
{
	struct zerocopy_report report;
	struct zerocopy_socket *zc;
	struct socket_state *st;

	if (sk->sk_protocol != IPPROTO_TCP || !zerocopy_report(sk, &report))
		return;
	st = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!st || st->chosen != CHOSEN_TARGET || !connection_of(st))
		return;
	zc = sk_storage_made(&zerocopy_sockets, sk);
	if (!zc) {
		__sync_fetch_and_add(&lost_socket_storage, 1);
		return;
	}
	/* the loser leaves: the next report, or the end, counts what it did not */
	if (__sync_lock_test_and_set(&zc->busy, 1))
		return;
	zc->seen.cookie = connection_of(st);
	zc->seen.interface = ZEROCOPY_MSG;
	zc->is_whole = st->opened_ns != 0;
	zerocopy_count(zc, &report);
	barrier();
	*(volatile u32 *)&zc->busy = 0;
}

/* Counts the last report of a socket: it has closed, or the recording ends. */
static __always_inline void zerocopy_on_end(struct sock *sk)
{
	struct zerocopy_socket *zc = bpf_sk_storage_get(&zerocopy_sockets, sk, NULL, 0);
	struct zerocopy_report report;

	if (!zc || __sync_lock_test_and_set(&zc->busy, 1))
		return;
	zc->closed = 1;
	if (zerocopy_report(sk, &report))
		zerocopy_count(zc, &report);
	zerocopy_skip(zc, sk->sk_zckey.counter);
	if (zc->changed)
		zerocopy_emit(zc, bpf_ktime_get_ns());
	barrier();
	*(volatile u32 *)&zc->busy = 0;
}

/* The cookie of a request's socket; 0: it is of no recorded connection. */
static __always_inline u64 zerocopy_request_cookie(const struct io_kiocb *req)
{
	u8 opcode = BPF_CORE_READ(req, opcode);
	const struct socket *socket;
	const struct sock *sk;

	if (opcode != IORING_OP_SEND_ZC && opcode != IORING_OP_SENDMSG_ZC)
		return 0;
	socket = BPF_CORE_READ(req, file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	if (!sk || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP ||
	    !targets_by_number[BPF_CORE_READ(sk, __sk_common.skc_hash) & (NUMBERS - 1)])
		return 0;
	return BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
}

/* The counts of a connection's sends by io_uring; NULL: there is no room. */
static __always_inline struct zerocopy_socket *zerocopy_uring_of(u64 cookie)
{
	struct zerocopy_socket *zc = bpf_map_lookup_elem(&zerocopy_by_uring, &cookie);
	struct zerocopy_socket first = {};

	if (zc)
		return zc;
	first.seen.cookie = cookie;
	first.seen.interface = ZEROCOPY_URING;
	bpf_map_update_elem(&zerocopy_by_uring, &cookie, &first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&zerocopy_by_uring, &cookie);
}

/* io_uring_complete: `res` and `flags` are those of the completion. */
static __always_inline void zerocopy_on_complete(const void *ring, const struct io_kiocb *req,
						 u64 user_data, u32 res, u32 flags)
{
	struct zerocopy_request request = {.ring = (u64)ring, .user_data = user_data};
	struct zerocopy_socket *zc;
	const struct io_notif_data *notif = (const void *)req;
	u64 cookie, *known;
	bool reports = false;

	if (!(flags & (IORING_CQE_F_MORE | IORING_CQE_F_NOTIF)) || !req)
		return;
	if (!(flags & IORING_CQE_F_NOTIF)) {
		cookie = zerocopy_request_cookie(req);
		if (cookie)
			bpf_map_update_elem(&zerocopy_requests, &request, &cookie, BPF_ANY);
		return;
	}
	known = bpf_map_lookup_elem(&zerocopy_requests, &request);
	zc = known ? zerocopy_uring_of(*known) : NULL;
	if (!zc)
		return;
	if (bpf_core_field_exists(notif->zc_report))
		reports = BPF_CORE_READ(notif, zc_report);
	/* not by one thread alone: several rings may share a socket */
	if (!reports)
		__sync_fetch_and_add(&zc->seen.counts.unknown, 1);
	else if (res & IORING_NOTIF_USAGE_ZC_COPIED)
		__sync_fetch_and_add(&zc->seen.counts.copied, 1);
	else
		__sync_fetch_and_add(&zc->seen.counts.not_copied, 1);
	zerocopy_changed(zc);
}

/* For Rust, by way of the object's BTF. */
const struct zerocopy_seen wire_zerocopy_seen = {};
const enum zerocopy_interface wire_zerocopy_interface = 0;

#endif
