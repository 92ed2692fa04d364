/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The socket-call log. A record is made where the call ends (sock_send_length,
 * sock_recv_length). Nothing is hooked where it begins: the caller's saved registers still show
 * what it asked for, and a call that blocks is found in sched_switch.
 */
#ifndef WHYLAT_CALLS_BPF_H
#define WHYLAT_CALLS_BPF_H

#include "../bpf/batch.bpf.h"
#include "../bpf/select.h"
#include "../bpf/socket.h"
#include "../bpf/syscall.h"
#include "../bpf/thread.h"
#include "../inventory/mptcp.bpf.h"
#include "calls.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
} call_ring SEC(".maps");

/* See batch_flush(). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} call_overflow SEC(".maps");

/* One batch a CPU for each program: 0 sends, 1 receives. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct call_batch);
} call_batches SEC(".maps");

static __always_inline void call_batch_flush(struct call_batch *batch)
{
	batch_flush(&batch->batch, batch->records, sizeof(struct call_record), CALL_BATCH_LEN,
		    &call_ring, &call_overflow);
	window_end_if_due();
}

/*
 * Returns whether the thread leaves the CPU because a signal, a debugger or its control group stopped it. It
 * does not wait then: data that comes meanwhile does not wake it.
 */
static __always_inline bool is_halted(const struct task_struct *task, unsigned int state)
{
	return (state & TASK_HALTED) ||
	       (bpf_core_field_exists(task->frozen) && BPF_CORE_READ_BITFIELD(task, frozen));
}

/*
 * The thread leaves the CPU inside a call on this socket. Of some calls the end is not seen (what sendfile() sends
 * before Linux 6.5): what they waited is no other call's.
 */
static __always_inline void call_on_block(struct call_wait *wait, struct task_struct *task,
					  struct sock *sk, s64 number, unsigned int state,
					  u64 now_ns)
{
	wait->halted = is_halted(task, state);
	if (wait->sk != (u64)sk || wait->number != number) {
		wait->sk = (u64)sk;
		wait->number = number;
		wait->start_ns = 0;
	}
	if (wait->start_ns)
		return;
	wait->start_ns = now_ns;
	wait->waited_ns = 0;
	wait->run_delay_ns = task->sched_info.run_delay;
}

/* Notes that the thread of a call runs again after so long. */
static __always_inline void call_on_resume(struct call_wait *wait, u64 away_ns, u64 now_ns)
{
	if (!wait->start_ns)
		return;
	if (!wait->halted)
		wait->back_ns = now_ns;
	wait->waited_ns += away_ns;
}

/* The other end's FIN has come (tcp_fin()): it counts in rcv_nxt and bytes_received, and is no byte. */
static __always_inline bool fin_received(const struct tcp_sock *tp)
{
	return READ_ONCE(tp->inet_conn.icsk_inet.sk.__sk_common.skc_flags) & (1UL << SOCK_DONE);
}

/*
 * Stream offset of write_seq, or of copied_seq, counted from the connection's first byte. The call has let
 * go of the socket, and what others change meanwhile (the bytes acknowledged, or received) does not fit
 * together: it only shows which 4 GiB of the stream it is.
 */
static __always_inline u64 stream_offset(const struct socket_state *st, const struct tcp_sock *tp,
					 bool is_send)
{
	bool fin = fin_received(tp); /* so it is in the numbers read after it */
	u32 end = is_send ? tp->write_seq : tp->copied_seq;
	u64 near;

	if (is_send) {
		end -= st->first_sent;
		near = tp->bytes_acked;
	} else {
		end -= (fin && end == READ_ONCE(tp->rcv_nxt)) + st->first_received;
		near = tp->bytes_received;
	}
	return near + (s32)(end - (u32)near);
}

/*
 * The wait that belongs to this call, or NULL if it did not block. A thread that has not left the
 * CPU by itself since the last record on this CPU has not blocked, and needs no look-up. `cut`: it may have blocked before
 * the window.
 */
static __always_inline struct call_wait *
call_wait_of(struct call_batch *batch, struct task_struct *task, struct sock *sk, bool *cut)
{
	struct thread_state *thread;
	struct syscall_args args;
	struct call_wait *wait;
	u64 switches = task->nvcsw;
	u32 tid = task->pid;

	if (batch->last_tid == tid && batch->last_switches == switches)
		return NULL;
	batch->last_tid = tid;
	batch->last_switches = switches;
	thread = thread_known(task);
	*cut = has_windows && (!thread || thread->cut_call || !thread_is_current(thread));
	if (!thread)
		return NULL;
	thread_begin_window(thread);
	thread->cut_call = false;
	wait = &thread->call;
	if (!wait->start_ns || wait->sk != (u64)sk)
		return NULL;
	syscall_read(task, &args);
	return wait->number == args.number ? wait : NULL;
}

/* Holds what a call is a call on. */
struct call_subject {
	u64 cookie;	     /* of the connection */
	u64 offset_end;	     /* where in the stream it has come to */
	bool owner_measured; /* the blocking of its owner's threads is measured */
};

/* The call in which a thread of io_uring blocks is not known. */
static __always_inline bool blocking_is_seen(const struct call_subject *subject,
					     const struct task_struct *task)
{
	return subject->owner_measured && !(task->flags & PF_IO_WORKER);
}

static __always_inline u32 unread_us(u64 unread_ns)
{
	if (unread_ns == UNREAD_UNSEEN)
		return 0;
	unread_ns /= 1000;
	return unread_ns > (u32)-1 ? (u32)-1 : unread_ns;
}

static __always_inline void call_record_fill(struct call_record *record, struct task_struct *task,
					     const struct sock *sk,
					     const struct call_subject *subject, bool is_send,
					     int result, int msg_flags, u64 unread_ns, u64 now_ns)
{
	s64 asked = asked_bytes(task, sk);

	record->cookie = subject->cookie;
	record->end_ns = now_ns;
	record->blocked_ns = 0;
	record->runq_us = 0;
	record->unread_us = unread_us(unread_ns);
	record->offset_end = subject->offset_end;
	record->asked_bytes = asked < 0 ? 0 : asked;
	record->result = result;
	record->msg_flags = is_send ? 0 : msg_flags;
	record->tid = task->pid;
	record->pid = task->tgid;
	record->cpu = bpf_get_smp_processor_id();
	record->bits = (is_send ? CALL_SEND : 0) | (asked < 0 ? 0 : CALL_ASKED) |
		       (blocking_is_seen(subject, task) ? CALL_BLOCKING_SEEN : 0) |
		       (unread_ns == UNREAD_UNSEEN ? CALL_UNREAD_UNSEEN : 0);
}

static __always_inline void call_record_wait(struct call_record *record, struct call_wait *wait,
					     struct task_struct *task)
{
	u64 runq_ns = task->sched_info.run_delay - wait->run_delay_ns;

	if (runq_ns > wait->waited_ns)
		runq_ns = wait->waited_ns;
	record->start_ns = wait->start_ns;
	record->blocked_ns = wait->waited_ns - runq_ns;
	record->runq_us = runq_ns / 1000;
	record->bits |= CALL_BLOCKED;
}

/*
 * When TCP last began to transmit, or 0: that was not in this send call. If all bytes are sent, those of
 * the call are: the call had begun by then. With pacing the time may lie ahead.
 */
static __always_inline u64 transmit_ns(const struct tcp_sock *tp, u64 now_ns)
{
	u64 at_ns = tp->tcp_wstamp_ns;

	return tp->write_seq == tp->snd_nxt && at_ns <= now_ns ? at_ns : 0;
}

/* A call on its way out: where its record goes, and how it had blocked. */
struct call_end {
	struct task_struct *task;
	struct call_batch *batch;
	struct call_wait *wait; /* NULL: it did not block */
	bool cut; /* whether it did is not known: it may have begun before the window, or before its process was followed */
	u64 transmit_ns; /* see transmit_ns() */
};

static __always_inline void call_log(const struct call_end *end, const struct sock *sk,
				     const struct call_subject *subject, bool is_send, int result,
				     int msg_flags, u64 unread_ns, u64 now_ns)
{
	struct task_struct *task = end->task;
	struct call_batch *batch = end->batch;
	u32 at = batch_begin(&batch->batch);

	if (at < CALL_BATCH_LEN) {
		struct call_record *record = &batch->records[batch_place(at, CALL_BATCH_LEN)];

		call_record_fill(record, task, sk, subject, is_send, result, msg_flags, unread_ns,
				 now_ns);
		record->start_ns = end->transmit_ns;
		if (end->cut)
			record->bits &= ~CALL_BLOCKING_SEEN;
		if (end->wait)
			call_record_wait(record, end->wait, task);
		batch_made(&batch->batch, at);
		if (at + 1 == CALL_BATCH_LEN)
			call_batch_flush(batch);
	}
	batch_end(&batch->batch);
}

/* The same of the running thread's. */
static __always_inline struct call_end call_end_of(struct task_struct *task, struct sock *sk,
						   bool is_send)
{
	struct call_end end = {.task = task};
	u32 which = !is_send;

	end.batch = bpf_map_lookup_elem(&call_batches, &which);
	if (end.batch)
		end.wait = call_wait_of(end.batch, task, sk, &end.cut);
	return end;
}

/* Returns when the call was blocked. */
static __always_inline struct call_blocked call_blocking(const struct call_end *end)
{
	struct call_blocked blocked = {};

	if (end->wait) {
		blocked.since_ns = end->wait->start_ns;
		blocked.until_ns = end->wait->back_ns;
	}
	return blocked;
}

/*
 * A call ended. The calls of a peer's process are not what was asked for: its sockets have a ledger,
 * and no log.
 */
static __always_inline void call_ended(const struct call_end *end, const struct tcp_sock *tp,
				       const struct socket_state *st, bool is_send, int result,
				       int msg_flags, u64 unread_ns, u64 now_ns)
{
	struct call_subject subject;

	if (end->batch && st->chosen == CHOSEN_TARGET) {
		subject.cookie = connection_of(st);
		subject.offset_end = stream_offset(st, tp, is_send);
		subject.owner_measured = st->owner_measured;
		call_log(end, &tp->inet_conn.icsk_inet.sk, &subject, is_send, result, msg_flags,
			 unread_ns, now_ns);
	}
	if (end->wait)
		end->wait->start_ns = 0;
}

/*
 * The same of a call on an MPTCP socket: it is one on its first subflow's connection. Since when its bytes were ready
 * nobody saw: subflows hand them over as they come.
 */
static __always_inline void mptcp_call_ended(struct mptcp_connection *known, struct sock *sk,
					     bool is_send, int result, int msg_flags)
{
	struct call_end end = call_end_of(bpf_get_current_task_btf(), sk, is_send);
	struct call_subject subject = {};

	if (end.batch && known->chosen == CHOSEN_TARGET) {
		subject.cookie = known->cookie;
		subject.offset_end = mptcp_offset(known, sk, is_send);
		subject.owner_measured = known->owner_measured;
		call_log(&end, sk, &subject, is_send, result, msg_flags, UNREAD_UNSEEN,
			 bpf_ktime_get_ns());
	}
	if (end.wait)
		end.wait->start_ns = 0;
}

/* For Rust, by way of the object's BTF. */
const struct call_record wire_call_record = {};
const struct call_batch wire_call_batch = {};

#endif
