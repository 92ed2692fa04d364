/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Constants of the kernel that no type information has. */
#ifndef WHYLAT_KERNEL_CONSTANTS_H
#define WHYLAT_KERNEL_CONSTANTS_H

/* include/net/tcp_states.h */
enum tcp_state {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
	TCP_NEW_SYN_RECV = 12,
};

/* include/uapi/linux/tcp.h: enum tcp_ca_state */
enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

/* include/net/tcp.h and include/linux/tcp.h */
#define TCP_NAGLE_OFF 1
#define TCP_NAGLE_CORK 2
#define TCP_NAGLE_PUSH 4
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_CHRONO_RWND_LIMITED 2
#define TCPHDR_FIN 0x01
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1	 /* include/net/sock.h: TCP's own pacing timer */
#define TSQ_HELD 3		 /* BIT(TSQ_THROTTLED) | BIT(TSQ_QUEUED) */
#define ICSK_TIME_LOSS_PROBE 5	 /* include/net/inet_connection_sock.h */
#define HRTIMER_STATE_ENQUEUED 1 /* include/linux/hrtimer.h */
#define MSG_OOB 1		 /* include/linux/socket.h */
#define MSG_PEEK 2
#define MSG_ERRQUEUE 0x2000
#define SOCK_DONE 1	   /* include/net/sock.h: bit of skc_flags */
#define SOCK_NOSPACE 2	   /* include/linux/net.h: bit of socket.flags */
#define SOCK_SNDBUF_LOCK 1 /* include/uapi/linux/socket.h: bits of sk_userlocks */
#define SOCK_RCVBUF_LOCK 2
#define SOCK_BINDPORT_LOCK 8  /* include/net/sock.h */
#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */
#define PF_IO_WORKER 0x00000010
#define TASK_UNINTERRUPTIBLE 2
#define TASK_HALTED                                                                                \
	(4 | 8 | 0x8000) /* __TASK_STOPPED, __TASK_TRACED, TASK_FROZEN (from Linux 6.1 on) */
#define PACKET_HOST 0	 /* include/uapi/linux/if_packet.h: skb->pkt_type */
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_SCTP 132
#define IPPROTO_UDPLITE 136
#define IPPROTO_SMC 256
#define IPPROTO_MPTCP 262
#define SOCK_STREAM 1 /* include/linux/net.h */
#define SOCK_RAW 3
#define SOCK_SEQPACKET 5
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define AF_NETLINK 16
#define AF_PACKET 17
#define AF_VSOCK 40
#define AF_SMC 43
#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFIFO 0010000

#define SKBTX_HW_TSTAMP_NETDEV                                                                     \
	(1 << 5) /* include/linux/skbuff.h: what is in its place is no time */

#endif /* WHYLAT_KERNEL_CONSTANTS_H */
