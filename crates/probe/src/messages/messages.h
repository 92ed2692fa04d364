/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A message: what one receive call took, and what happened to its bytes on their way to it. */
#ifndef WHYLAT_MESSAGES_H
#define WHYLAT_MESSAGES_H

#include <linux/types.h>

#include "../bpf/batch.h"

#define MESSAGE_BACKLOG 1 /* its last segment waited for the thread that had the socket */
#define MESSAGE_MERGED 2  /* its last segment was noted together with later ones */

/* Times are of bpf_ktime_get_ns(); 0: not seen. */
struct message_record {
	__u64 cookie;
	__u64 done_ns;	/* the call ended */
	__u64 first_ns; /* the first of its segments arrived */
	__u64 last_ns;	/* the last of them, which made it whole */
	__u64 tcp_ns;	/* that came to TCP */
	__u64 ready_ns; /* that was handed to the socket */
	__u64 woken_ns; /* the thread that waited was woken */
	__u64 run_ns;	/* and ran again */
	__u64 copy_ns;	/* the first byte was copied */
	__u64 offset_end;
	__u32 bytes;
	__u32 spliced_bytes; /* taken before it by another way than a receive call */
	__u32 tid;
	__u32 pid;
	__u16 segments;
	__u16 receive_cpu; /* where its last segment was taken */
	__u16 cpu;	   /* where the call ended */
	__u8 bits;	   /* MESSAGE_* */
	__u8 pad;
};

#define MESSAGE_BATCH_LEN 64

struct message_batch {
	struct batch batch;
	struct message_record records[MESSAGE_BATCH_LEN];
};

#endif
