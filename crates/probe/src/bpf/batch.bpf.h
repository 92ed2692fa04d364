/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* How a batch (batch.h) is filled and handed over. */
#ifndef WHYLAT_BATCH_BPF_H
#define WHYLAT_BATCH_BPF_H

#include "batch.h"
#include "kernel.h"
#include "ring.h"

/*
 * Hands over what is there, of records of `bytes` each, at most `most`: in the ring, which fits the cache, or in its
 * overflow while the reader is late. Nobody is woken for the ring: it is read by the clock.
 */
static __always_inline void batch_flush(struct batch *batch, const void *records, u32 bytes,
					u32 most, void *ring, void *overflow)
{
	u32 len = batch->len;

	if (len == 0)
		return;
	barrier_var(len); /* two comparisons in one are beyond verifiers up to Linux 6.12 */
	if (len > most)
		return;
	if (bpf_ringbuf_output(ring, (void *)records, len * bytes, BPF_RB_NO_WAKEUP) &&
	    bpf_ringbuf_output(overflow, (void *)records, len * bytes, ring_wakeup(overflow)))
		batch->lost_ring_full += len;
	batch->len = 0;
}

/* Where the next record goes, the largest number if nowhere; the batch is busy from now on. */
static __always_inline u32 batch_begin(struct batch *batch)
{
	*(volatile u32 *)&batch->busy = 1;
	barrier();
	if (READ_ONCE(batch->flushed)) {
		batch->lost_flushed++;
		return -1;
	}
	return batch->len;
}

/* Where the next record goes, of a place that is below `most`, a power of two: verifiers up to Linux 6.1 forget the
 * bound of what lay on the stack meanwhile. */
static __always_inline u32 batch_place(u32 at, u32 most)
{
	barrier_var(at);
	return at & (most - 1);
}

/* A record is made. */
static __always_inline void batch_made(struct batch *batch, u32 at)
{
	batch->produced++;
	batch->len = at + 1;
}

static __always_inline void batch_end(struct batch *batch)
{
	barrier();
	*(volatile u32 *)&batch->busy = 0;
}

/*
 * `flush_batches`, on the batch's own CPU: by an interrupt, or by the recorder. A softirq may interrupt that. False:
 * a program has the batch.
 */
static __always_inline bool batch_flush_begin(struct batch *batch)
{
	if (READ_ONCE(batch->busy))
		return false;
	*(volatile u32 *)&batch->flushed = 1;
	barrier();
	return true;
}

static __always_inline void batch_flush_end(struct batch *batch)
{
	barrier();
	*(volatile u32 *)&batch->flushed = 0;
}

#endif
