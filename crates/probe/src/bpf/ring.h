/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * How records leave the kernel, and the counts that make loss exact. The consumer looks at its own
 * pace, because a wake-up costs more than everything else a hook does, and is woken only when a ring
 * fills faster than that.
 */
#ifndef WHYLAT_RING_H
#define WHYLAT_RING_H

#include "kernel.h"

/* The ledger is kept: detail `calls` and above, if no call passes unseen. */
const volatile bool detail_ledger = false;

/* Calls are counted and not logged, and events are not reported: watch.bpf.h. */
const volatile bool only_summaries = false;

/* Holds what a record in `records` is; its first four bytes. */
enum record_kind {
	RECORD_SOCKET_SEEN,
	RECORD_TCP_EVENT,
	RECORD_TCP_SAMPLE,
	RECORD_STAGE_READING,
	RECORD_LISTENER_SEEN,
	RECORD_PROGRAM_SEEN,
	RECORD_SPIN_SEEN,
	RECORD_UDP_SEEN,
	RECORD_SOCKET_READING,
	RECORD_PREEMPTION_SEEN,
	RECORD_ON_CPU_SAMPLE,
	RECORD_FAILED_CONNECT,
	RECORD_DNS_WAIT,
	RECORD_UNIX_SEEN,
	RECORD_DROP_SEEN,
	RECORD_UDP_FLOW_SEEN,
	RECORD_ZEROCOPY,
	RECORD_KIND_COUNT,
};

struct record_header {
	u32 kind;
	u32 pad;
};

/* Rare records: sockets, events, last readings. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024);
} records SEC(".maps");

/*
 * Records that the recorder itself asks for, by running `read_sockets`. What does not fit is not
 * lost: it stays to be read, by the next walk.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024);
} readings SEC(".maps");

/* Preemptions: many come at once, and then only they are lost. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1024 * 1024);
} preemption_records SEC(".maps");

/* Records of the clock on each CPU: samples, and threads that ask without waiting. Three seconds of 128 busy CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024);
} clock_records SEC(".maps");

/* Produced and lost records of each kind, one set a CPU. */
struct record_count {
	u64 produced;
	u64 lost_ring_full;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RECORD_KIND_COUNT);
	__type(key, u32);
	__type(value, struct record_count);
} record_counts SEC(".maps");

/* Sockets that could not be recorded because their storage could not be allocated. */
u64 lost_socket_storage = 0;

/* Flags for what is put into a ring: its consumer is woken when a quarter of it is filled. */
static __always_inline u64 ring_wakeup(void *ring)
{
	u64 filled = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	return filled > bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 4 ? BPF_RB_FORCE_WAKEUP
								      : BPF_RB_NO_WAKEUP;
}

/*
 * Room for a record, or NULL when the ring is full; counted either way. A hook in an interrupt
 * can run inside another on the same CPU, hence the atomic additions. Every record is a struct
 * that begins with its header.
 */
static __always_inline void *record_reserve_in(void *ring, u32 kind, u64 size)
{
	struct record_count *count = bpf_map_lookup_elem(&record_counts, &kind);
	struct record_header *header;

	if (!count)
		return NULL;
	__sync_fetch_and_add(&count->produced, 1);
	header = bpf_ringbuf_reserve(ring, size, 0);
	if (!header) {
		__sync_fetch_and_add(&count->lost_ring_full, 1);
		return NULL;
	}
	header->kind = kind;
	header->pad = 0;
	return header;
}

static __always_inline void *record_reserve(u32 kind, u64 size)
{
	return record_reserve_in(&records, kind, size);
}

static __always_inline void record_submit(void *record)
{
	bpf_ringbuf_submit(record, ring_wakeup(&records));
}

/* For Rust, by way of the object's BTF. */
const struct record_header wire_record_header = {};
const enum record_kind wire_record_kind = 0;

#endif
