/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A message: what one receive call took or one send call gave, and what happened to its bytes on their way. */
#ifndef WHYLAT_MESSAGES_H
#define WHYLAT_MESSAGES_H

#include <linux/types.h>

#include "../bpf/batch.h"

#define MESSAGE_BACKLOG 1  /* its last segment waited for the thread that had the socket */
#define MESSAGE_DATAGRAM 2 /* of a UDP socket: a datagram, or several that the kernel joined */

/* Times are of bpf_ktime_get_ns(); 0: not seen. */
struct received_record {
	__u64 cookie;
	__u64 done_ns;	/* the call ended */
	__u64 first_ns; /* the first of its segments arrived */
	__u64 last_ns;	/* the last of them, which made it whole */
	__u64 tcp_ns;	/* that came to TCP */
	__u64 ready_ns; /* that was handed to the socket */
	__u64 woken_ns; /* the thread that waited was woken */
	__u64 run_ns;	/* and ran again */
	__u64 copy_ns;	/* the first byte was copied */
	__u64 doubt_ns; /* how much later first_ns to ready_ns may have been */
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
	/* Of a datagram: bytes for which the call had no room. Else: when the network adapter took the last
	 * segment, by its own clock; 0: it does not say. */
	__s64 cut_or_nic;
};

#define RECEIVED_BATCH_LEN 64

struct received_batch {
	struct batch batch;
	struct received_record records[RECEIVED_BATCH_LEN];
};

/* Times as above. */
struct sent_record {
	__u64 cookie;
	__u64 call_ns;	 /* TCP began with the call */
	__u64 done_ns;	 /* the call ended */
	__u64 tcp_ns;	 /* TCP began to send its last byte */
	__u64 queue_ns;	 /* that came to the queue of the device */
	__u64 driver_ns; /* and to the driver */
	__u64 acked_ns;	 /* the other end has all of it */
	__u64 offset_end;
	__u32 bytes;
	__u32 spliced_bytes; /* given before it by another way than a send call */
	__u32 tid;
	__u32 pid;
	__u32 resent;	  /* segments of it that were retransmitted */
	__u16 cpu;	  /* where the call ended */
	__u16 driver_cpu; /* where its last segment went to the driver */
	__u32 packets;	  /* of a datagram: so many came to the queue; of TCP 0 */
	__u8 bits;	  /* MESSAGE_DATAGRAM */
	__u8 pad[3];
};

#define SENT_BATCH_LEN 64

struct sent_batch {
	struct batch batch;
	struct sent_record records[SENT_BATCH_LEN];
};

#endif
