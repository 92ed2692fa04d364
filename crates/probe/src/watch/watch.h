/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* One reading of a watched socket as it leaves the kernel: all that the agent asks of it, together. */
#ifndef WHYLAT_WATCH_H
#define WHYLAT_WATCH_H

#include <linux/types.h>

#include "../tcp_stages/tcp_stages.h"
#include "../tcp_stats/tcp_stats.h"

/*
 * Calls by how many bytes they moved: at most 64, 512, 4,096, 32,768, 262,144, and more. One number
 * a class holds the bytes, and from this bit on the calls: what carries over from the one to the
 * other carries back in the difference of two readings, if less than 2^40 bytes lie between them,
 * and less than 2^23 calls, so that it can be known which of the two is older.
 */
#define CALL_COUNT_SHIFT 40
#define CALL_CLASSES 6

struct call_summary {
	__u64 writes[CALL_CLASSES];
	__u64 reads[CALL_CLASSES];
};

struct socket_reading {
	__u64 since_ns; /* before this nothing had happened since the reading before */
	struct tcp_sample sample;
	struct call_summary calls;
	struct stage_reading
		stages; /* all zero where no ledger is kept, or a hook was changing it */
};

#endif
