/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Kinds of sockets, and what recorded processes did with each. */
#ifndef WHYLAT_KINDS_H
#define WHYLAT_KINDS_H

#include <linux/types.h>

enum socket_kind {
	SOCKET_KIND_TCP,
	SOCKET_KIND_MPTCP,
	SOCKET_KIND_UDP,
	SOCKET_KIND_UNIX,
	SOCKET_KIND_SMC,
	SOCKET_KIND_SCTP,
	SOCKET_KIND_RAW,
	SOCKET_KIND_PACKET,
	SOCKET_KIND_NETLINK,
	SOCKET_KIND_VSOCK,
	SOCKET_KIND_OTHER,
	SOCKET_KIND_COUNT,
};

/* Calls that moved bytes. */
struct kind_calls {
	__u64 sends;
	__u64 sent_bytes;
	__u64 receives;
	__u64 received_bytes;
};

#endif
