/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A socket that is recorded, as it leaves the kernel: written when it is chosen, when its
 * connection is established, when its owner becomes known, and when it closes. */
#ifndef WHYLAT_INVENTORY_H
#define WHYLAT_INVENTORY_H

#include <linux/types.h>

#include "../bpf/process.h"

#define ROLE_UNKNOWN 0
#define ROLE_CLIENT 1
#define ROLE_SERVER 2

#define CHOSEN_TARGET 1
#define CHOSEN_PEER 2

struct socket_seen {
	__u64 cookie;
	__u64 time_ns;
	__u64 connect_ns; /* when connect() was called; 0: not seen */
	__u64 opened_ns;  /* 0: open before the recording */
	__u64 closed_ns;  /* 0: open */
	__u8 local_addr[16];
	__u8 remote_addr[16];
	struct process_seen owner;
	__u32 netns;
	__u32 mss_bytes;
	__u32 sndbuf_bytes;
	__u32 rcvbuf_bytes;
	__u32 syn_retries; /* if connect_ns is known */
	__u32 mptcp_token; /* 0: not a subflow */
	__u16 local_port;
	__u16 remote_port;
	char congestion[16];
	char ulp[16]; /* the protocol above TCP; empty: none */
	__u8 family;
	__u8 role;
	__u8 chosen;
	__u8 nodelay;
	__u8 sndbuf_locked;
	__u8 rcvbuf_locked;
	__u16 error; /* of the socket (sk_err), which is errno of the end once it has closed; 0: none */
	__u8 pad[4];
};

/* Holds what its network namespace has counted so far. */
struct listener_mib {
	__u64 listen_overflows;
	__u64 syncookies_received;
	__u64 known; /* 0: not readable */
};

/* Descriptors of a process. */
struct descriptor_room {
	__u32 limit; /* RLIMIT_NOFILE; 0: not read */
	__u32 full;  /* none is free below it: accept() fails with EMFILE */
};

/*
 * A listening socket of a recorded process: written when it begins to listen, by the walk over open
 * files, and when it closes.
 */
struct listener_seen {
	__u64 cookie;
	__u64 time_ns;
	__u64 listen_ns; /* when listen() was called; 0: before the recording */
	__u64 closed_ns; /* 0: open */
	struct listener_mib mib;
	struct process_seen owner;
	struct descriptor_room room; /* of the owner, if a walk has found it */
	__u8 local_addr[16];
	__u32 netns;
	__u32 waiting;	   /* connections that wait for accept() */
	__u32 waiting_max; /* at most (listen(), net.core.somaxconn) */
	__u32 drops;
	__u16 local_port;
	__u8 pad[6];
};

#endif
