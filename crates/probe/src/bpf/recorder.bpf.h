/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Programs that the recorder itself runs, attached to nothing. A part of hooks.bpf.c. */
#ifndef WHYLAT_RECORDER_BPF_H
#define WHYLAT_RECORDER_BPF_H

/* The process that runs this is never recorded, nor what it forks from now on. */
SEC("raw_tp")
int leave_out_self(void *ctx)
{
	task_put(bpf_get_current_pid_tgid() >> 32, TASK_OWN, BPF_ANY);
	return 0;
}

/* Puts a process into `tasks`. In: its id, and why. Out: 0, or the error. */
SEC("raw_tp")
int put_task(struct bpf_raw_tracepoint_args *ctx)
{
	return task_put(ctx->args[0], ctx->args[1], BPF_ANY);
}

/* Learns where the CPU on which it is run keeps what is per CPU. */
SEC("raw_tp")
int learn_cpu(void *ctx)
{
	learn_cpu_distance();
	return 0;
}

/* A window begins. In: for how long, unless it is extended. */
SEC("raw_tp")
int begin_window(struct bpf_raw_tracepoint_args *ctx)
{
	u64 now_ns = bpf_ktime_get_ns();

	*(volatile u64 *)&window_ended_ns = 0;
	*(volatile u64 *)&window_until_ns = now_ns + ctx->args[0];
	*(volatile u64 *)&window_latest_ns = now_ns;
	*(volatile u64 *)&window_since_ns = now_ns;
	return 0;
}

/* It lasts for so long from now on, or ends. In: for how long; 0: it ends. */
SEC("raw_tp")
int extend_window(struct bpf_raw_tracepoint_args *ctx)
{
	u64 now_ns = bpf_ktime_get_ns();

	if (ctx->args[0])
		*(volatile u64 *)&window_until_ns = now_ns + ctx->args[0];
	else if (READ_ONCE(window_since_ns))
		window_end(now_ns);
	return 0;
}

/* Hands over the batches of the CPU on which it is run (BPF_F_TEST_RUN_ON_CPU). */
SEC("raw_tp")
int flush_batches(void *ctx)
{
	struct received_batch *received;
	struct call_batch *calls;
	struct wait_batch *waits;
	struct sent_batch *sent;

	for (u32 which = 0; which < 2; which++) {
		u32 key = which;

		calls = bpf_map_lookup_elem(&call_batches, &key);
		if (calls && batch_flush_begin(&calls->batch)) {
			call_batch_flush(calls);
			batch_flush_end(&calls->batch);
		}
	}
	for (u32 by = 0; by < SENT_BY_COUNT; by++) {
		sent = sent_batch(by);
		if (sent && batch_flush_begin(&sent->batch)) {
			sent_batch_flush(sent);
			batch_flush_end(&sent->batch);
		}
	}
	waits = wait_batch();
	if (waits && batch_flush_begin(&waits->batch)) {
		wait_batch_flush(waits);
		batch_flush_end(&waits->batch);
	}
	for (u32 by = 0; by < RECEIVED_BY_COUNT; by++) {
		received = received_batch(by);
		if (received && batch_flush_begin(&received->batch)) {
			received_batch_flush(received);
			batch_flush_end(&received->batch);
		}
	}
	return 0;
}

/* Walks all open files: sockets that were open before, and owners. */
SEC("iter/task_file")
int walk_task_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;

	if (!ctx->meta->seq_num)
		kinds_begin_walk();
	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket || !socket->sk)
		return 0;
	if (file_on_walk(task, socket->sk) && detail_messages && udp_is(socket->sk))
		udp_on_walk(task, socket->sk);
	return 0;
}

/* Walks the TCP sockets of a network namespace: subflows, to which no descriptor leads. */
SEC("iter/tcp")
int walk_subflows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	const struct tcp_sock *tp;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (tp)
		subflow_on_walk((struct sock *)tp, tp);
	return 0;
}

/* A poll begins: sockets that it has read already are left out by its further walks. */
SEC("raw_tp")
int BPF_PROG(begin_poll, u64 which, u64 over_active, u64 default_level, u64 has_levels)
{
	walk_begin(which, over_active, default_level, has_levels);
	return 0;
}

/* False if the ring is full. */
static __always_inline bool read_sample(struct socket_state *st, struct sock *sk,
					const struct tcp_sock *tp)
{
	struct tcp_sample_record *record = bpf_ringbuf_reserve(&readings, sizeof(*record), 0);

	if (!record)
		return false;
	socket_refresh(st, sk, tp);
	record->header.kind = RECORD_TCP_SAMPLE;
	sample_fill(&record->sample, st, sk, tp, false, bpf_ktime_get_ns());
	sample_remember(&st->sampled, tp);
	record_submit(record);
	walked.sockets++;
	return true;
}

/* False if the ring is full. A ledger that a hook is changing at this moment is left to the next
 * poll. */
static __always_inline bool read_ledger(struct socket_state *st, struct sock *sk,
					const struct tcp_sock *tp)
{
	struct stage_reading_record *record = bpf_ringbuf_reserve(&readings, sizeof(*record), 0);
	u64 now_ns;

	/* its sample may be read already, and not be new any more */
	st->ledger.changed = 1;
	if (!record)
		return false;
	if (!ledger_try_lock(st)) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return true;
	}
	now_ns = bpf_ktime_get_ns();
	events_on_segment(st, tp, now_ns);
	stages_on_read(st, sk, tp, now_ns);
	st->ledger.changed = 0;
	stages_copy(&record->reading, st, sk, tp, false);
	ledger_unlock(st);
	record->header.kind = RECORD_STAGE_READING;
	record_submit(record);
	walked.ledgers++;
	return true;
}

/* A recorded socket: its statistics and ledger, if something happened since the last poll. */
static __always_inline void socket_visit(struct sock *sk, const struct socket_state *shown)
{
	const struct tcp_sock *tp;
	struct socket_state *st;
	bool sampled;

	if (!shown->cookie || shown->sampled.round == walked.round)
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	sampled = sample_is_new(&shown->sampled, tp);
	if (!sampled && !(detail_ledger && shown->ledger.changed)) {
		walk_count_unchanged();
		return;
	}
	st = socket_recorded(sk);
	if (!st)
		return;
	if ((!sampled || read_sample(st, sk, tp)) && (!detail_ledger || read_ledger(st, sk, tp)))
		st->sampled.round = walked.round;
	else
		walked.postponed++;
}

/* Advances the ledger of a socket with an end that has closed. */
static __always_inline void draining_visit(struct sock *sk, const struct socket_state *shown)
{
	const struct tcp_sock *tp;
	struct socket_state *st;

	if (!shown->cookie || !shown->ledger.unseen || shown->ledger.ended)
		return;
	walked.draining++;
	tp = bpf_skc_to_tcp_sock(sk);
	st = socket_recorded(sk);
	if (!tp || !st || tp->write_seq == tp->snd_una || !ledger_try_lock(st))
		return;
	stages_on_read(st, sk, tp, bpf_ktime_get_ns());
	ledger_unlock(st);
}

/* Walks the recorded sockets. What the iterator shows of a socket's storage is to be read only at constant offsets. */
SEC("iter/bpf_sk_storage_map")
int read_sockets(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const struct socket_state *shown = ctx->value;
	struct sock *sk = ctx->sk;

	if (sk && shown)
		socket_visit(sk, shown);
	else
		walk_end();
	return 0;
}

/* The same of all that is watched, each socket at its own rate. */
SEC("iter/bpf_sk_storage_map")
int read_watched(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const struct socket_state *shown = ctx->value;
	struct sock *sk = ctx->sk;

	if (sk && shown)
		return watch_visit(sk, shown);
	walk_end();
	return 0;
}

/* The same of those that are active, over `active_sockets`. */
SEC("iter/bpf_sk_storage_map")
int read_active(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;

	if (sk && ctx->value)
		watch_visit_active(sk);
	else
		walk_end();
	return 0;
}

/* When nothing is attached any more: what was sent and is not acknowledged. */
SEC("iter/bpf_sk_storage_map")
int read_sending(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;

	if (sk && ctx->value)
		send_on_close(sk, SENT_BY_LAST_STATE);
	return 0;
}

/* The same: sums of short preemptions. */
SEC("iter/task")
int read_preemptions(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		preemptions_end(task);
	return 0;
}

/* The same of UDP, and the last row of each socket. */
SEC("iter/bpf_sk_storage_map")
int read_udp(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;

	if (sk && ctx->value)
		udp_on_end(sk);
	return 0;
}

/*
 * Advances the ledgers of sockets with an end that has closed: no hook sees their ACKs. Their
 * statistics are not read, which is done at random times only.
 */
SEC("iter/bpf_sk_storage_map")
int read_draining(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const struct socket_state *shown = ctx->value;
	struct sock *sk = ctx->sk;

	if (sk && shown)
		draining_visit(sk, shown);
	return 0;
}

#endif
