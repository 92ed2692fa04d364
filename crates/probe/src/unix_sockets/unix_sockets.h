/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A UNIX stream socket of a recorded process: written at its first call, and when another process calls on it. */
#ifndef WHYLAT_UNIX_SOCKETS_H
#define WHYLAT_UNIX_SOCKETS_H

#include <linux/types.h>

#include "../bpf/process.h"

#define UNIX_PATH_BYTES 108 /* include/uapi/linux/un.h: UNIX_PATH_MAX */

struct unix_seen {
	__u64 cookie;
	__u64 time_ns;
	__u64 inode;
	__u64 peer_inode; /* 0: the other end is not accepted yet, or has closed */
	struct process_seen owner;
	__u16 path_bytes; /* 0: neither end has a name */
	__u8 role;	  /* ROLE_* */
	__u8 is_seqpacket;
	__u8 path[UNIX_PATH_BYTES]; /* of the server's end; an abstract name begins with a zero */
};

#endif
