/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* One wait for the answer of a name server. */
#ifndef WHYLAT_DNS_WAITS_H
#define WHYLAT_DNS_WAITS_H

#include <linux/types.h>

struct dns_wait {
	__u64 start_ns; /* left the CPU */
	__u64 end_ns;	/* ran again */
	__u64 socket;	/* inode number */
	__u8 server_addr[16];
	__u32 tid;
	__u32 pid;
	__s32 error; /* errno of the socket; 0: none */
	__u16 server_port;
	__u8 answered; /* a datagram was there */
	__u8 pad;
};

#endif
