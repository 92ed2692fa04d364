/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* One send or receive call on a TCP socket as it leaves the kernel. */
#ifndef WHYLAT_CALLS_H
#define WHYLAT_CALLS_H

#include <linux/types.h>

#include "../bpf/batch.h"

#define CALL_SEND 1	      /* else a receive call */
#define CALL_ASKED 2	      /* asked_bytes was readable */
#define CALL_BLOCKING_SEEN 4  /* blocking is measured for this thread */
#define CALL_BLOCKED 8	      /* the call blocked: start_ns, blocked_ns, runq_ns hold */
#define CALL_UNREAD_UNSEEN 16 /* unread_us does not hold */

struct call_record {
	__u64 cookie;
	__u64 end_ns;
	__u64 start_ns; /* of a send call that did not block: when TCP last transmitted in it, or 0 */
	__u64 blocked_ns;
	__u64 offset_end;
	__u32 runq_us;
	__u32 asked_bytes;
	__s32 result;
	__u32 msg_flags;
	__u32 tid;
	__u32 pid;
	__u32 unread_us; /* what a receive call took had been ready for so long */
	__u16 cpu;
	__u8 bits;
	__u8 pad;
};

#define CALL_BATCH_LEN 128 /* a power of two */

struct call_batch {
	struct batch batch;
	__u32 last_tid; /* who made the last record, and how often it had left the CPU by itself */
	__u32 pad;
	__u64 last_switches;
	struct call_record records[CALL_BATCH_LEN];
};

#endif
