/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The kernel types that the probes read: only the fields used, found in the running kernel by
 * CO-RE relocation. Order and offsets here mean nothing. A field that some supported kernel
 * does not have is read behind bpf_core_field_exists().
 */
#ifndef WHYLAT_KERNEL_H
#define WHYLAT_KERNEL_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#ifndef NULL
#define NULL ((void *)0)
#endif

/* Reads once a value that another CPU may write meanwhile. */
#define READ_ONCE(place) (*(const volatile typeof(place) *)&(place))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/net/sock.h, include/net/inet_sock.h */
struct in6_addr {
	union {
		u8 u6_addr8[16];
		u32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	u32 inum;
};

/* include/net/netns/mib.h: kept per CPU, as unsigned long by LINUX_MIB_* */
struct netns_mib {
	void *net_statistics;
};

struct net {
	struct ns_common ns;
	struct netns_mib mib;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	volatile u8 skc_state;
	unsigned int skc_hash;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	struct {
		s64 counter;
	} skc_cookie;
	unsigned long skc_flags;
};

struct rb_node {
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct list_head {
	struct list_head *prev;
};

/* include/linux/time64.h */
struct timespec64 {
	s64 tv_sec;
};

struct sk_buff;

struct sk_buff_head {
	struct sk_buff *next;
	struct sk_buff *prev;
	u32 qlen;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	struct {
		int owned;
	} sk_lock;
	int sk_err;
	int sk_wmem_queued;
	int sk_sndbuf;
	int sk_rcvbuf;
	struct {
		struct {
			int counter;
		} rmem_alloc;
	} sk_backlog;
	unsigned long sk_tsq_flags;
	unsigned long sk_pacing_rate;
	u32 sk_pacing_status;
	u16 sk_type;
	u16 sk_protocol;
	u8 sk_userlocks; /* a bit field up to Linux 6.1 */
	struct rb_root tcp_rtx_queue;
	struct sk_buff_head sk_receive_queue;
	struct sk_buff_head sk_error_queue;
	struct {
		int counter;
	} sk_zckey; /* sends with MSG_ZEROCOPY */
	struct {
		int counter;
	} sk_drops;
	u32 sk_ack_backlog;
	u32 sk_max_ack_backlog;
};

struct inode {
	unsigned long i_ino;
	u16 i_mode;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct socket {
	/* include/uapi/linux/net.h */
	enum {
		SS_FREE,
		SS_UNCONNECTED,
	} state;
	unsigned long flags;
	struct sock *sk;
	struct file *file;
};

/* what a socket's file is made of */
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

/* include/net/af_unix.h */
struct sockaddr_un {
	u16 sun_family;
	char sun_path[108];
};

struct unix_address {
	int len; /* of the name, with its family */
	struct sockaddr_un name[0];
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct inet_sock {
	struct sock sk;
	u16 inet_sport;
};

/* include/linux/udp.h */
struct udp_sock {
	int pending;
	struct sk_buff_head reader_queue;
};

struct tcp_congestion_ops {
	char name[16];
};

struct tcp_ulp_ops {
	char name[16];
};

/* include/net/inet_connection_sock.h */
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u32 icsk_rto;
	const struct tcp_congestion_ops *icsk_ca_ops;
	const struct tcp_ulp_ops *icsk_ulp_ops;
	void *icsk_ulp_data;
	u8 icsk_ca_state : 5;
	u8 icsk_retransmits;
	u8 icsk_pending;
	u8 icsk_backoff;
	struct {
		struct request_sock *rskq_accept_head;
	} icsk_accept_queue;
	struct {
		u32 ato : 8;
		u16 rcv_mss;
		u32 lrcvtime;
	} icsk_ack;
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct hrtimer {
	u8 state;
};

struct hrtimer___is_queued {
	bool is_queued;
};

/* include/linux/tcp.h */
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 reordering;
	u32 snd_wnd;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 lost_out;
	u32 sacked_out;
	u8 is_cwnd_limited : 1;
	u32 copied_seq;
	u32 tlp_high_seq;
	u32 rttvar_us;
	u32 mdev_us;
	u32 retrans_out;
	u32 snd_ssthresh;
	struct minmax rtt_min;
	u32 segs_out;
	u32 data_segs_out;
	u64 bytes_sent;
	u32 snd_sml;
	u8 chrono_type : 2;
	u32 chrono_start;
	u32 chrono_stat[3];
	u32 write_seq;
	u32 lsndtime;
	u32 rcv_tstamp;
	u8 nonagle : 4;
	u8 rate_app_limited : 1;
	u64 tcp_clock_cache;
	u64 tcp_mstamp;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 srtt_us;
	struct list_head tsorted_sent_queue;
	u32 packets_out;
	u32 delivered;
	u32 delivered_ce;
	u32 app_limited;
	u32 rcv_wnd;
	u64 bytes_received;
	u32 segs_in;
	u32 data_segs_in;
	u32 rcv_wup;
	u32 rate_delivered;
	u32 rate_interval_us;
	u64 first_tx_mstamp;
	u64 delivered_mstamp;
	u64 bytes_acked;
	struct {
		u32 rtt_us;
	} rcv_rtt_est;
	u32 dsack_dups;
	u32 reord_seen;
	u32 prior_cwnd;
	struct hrtimer pacing_timer;
	u32 undo_marker;
	u64 bytes_retrans;
	u32 total_retrans;
	u16 total_rto;
	u16 total_rto_recoveries;
	u32 total_rto_time;
	u32 rcv_ooopack;
	bool is_mptcp;
};

/* net/mptcp/protocol.h: the socket that a program holds, and what each of its TCP sockets has beside it */
struct mptcp_sock {
	u64 write_seq;
	u64 bytes_consumed;
	u64 bytes_acked;
	u64 snd_una;
	u32 token;
	struct sock *first;
};

struct mptcp_subflow_context {
	u32 request_join : 1;
	u32 mp_capable : 1;
	u32 mp_join : 1;
	struct sock *conn;
};

struct tcp_skb_cb {
	u32 seq;
	u32 end_seq;
	u16 tcp_gso_segs;
	u32 ack_seq;
};

/* include/uapi/linux/errqueue.h, include/linux/errqueue.h: cb[] of what lies in an error queue */
struct sock_extended_err {
	u32 ee_errno;
	u8 ee_origin;
	u8 ee_code;
	u32 ee_info;
	u32 ee_data;
};

struct sock_exterr_skb {
	struct sock_extended_err ee;
};

/* include/linux/io_uring_types.h, io_uring/notif.h: the latter at the beginning of the former */
struct io_kiocb {
	struct file *file;
	u8 opcode;
};

struct io_notif_data {
	bool zc_report;
};

/* include/uapi/linux/io_uring.h */
struct io_uring_cqe {
	u64 user_data;
	s32 res;
	u32 flags;
};

struct net_device {
	char name[16];
	int ifindex;
	possible_net_t nd_net;
};

/* include/linux/tcp.h */
struct tcphdr {
	u32 seq;
	u32 ack_seq;
};

struct iphdr {
	u8 ihl : 4;
	__be16 tot_len;
	__be16 frag_off;
	u8 protocol;
};

struct ipv6hdr {
	__be16 payload_len;
	u8 nexthdr;
};

struct udphdr {
	__be16 dest;
};

struct skb_shared_hwtstamps {
	s64 hwtstamp;
};

struct skb_shared_info {
	u8 tx_flags;
	u16 gso_segs;
	struct skb_shared_hwtstamps hwtstamps;
};

struct sk_buff {
	struct sk_buff *next;
	struct sk_buff *prev;
	struct net_device *dev;
	struct sock *sk;
	unsigned char *head;
	unsigned char *data;
	u16 transport_header;
	u16 network_header;
	u16 inner_transport_header;
	u16 protocol;
	u8 cloned : 1;
	u8 encapsulation : 1; /* in a tunnel: the inner headers hold */
	u8 pkt_type : 3;
	u32 tail;
	u32 end;
	u32 data_len;
	int skb_iif;
	char cb[48];
	u64 skb_mstamp_ns;
	struct list_head tcp_tsorted_anchor;
	struct rb_node rbnode;
	u32 len;
};

/* include/linux/sched.h */
struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct signal_struct {
	struct {
		int counter;
	} live;
};

struct epoll_filefd {
	struct file *file;
	int fd;
};

struct eventpoll {
	struct list_head rdllist;
};

struct epitem {
	struct list_head rdllink;
	struct epoll_filefd ffd;
	struct eventpoll *ep;
};

struct mm_struct {
	unsigned long start_code;
	unsigned long end_code;
};

struct thread_info {
	u32 cpu;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[0]; /* from Linux 6.1 on */
};

struct cgroup___6_0 {
	u64 ancestor_ids[0];
};

struct css_set {
	struct cgroup *dfl_cgrp; /* of version 2 */
};

struct cfs_rq {
	int throttle_count; /* with CPU quotas (CONFIG_CFS_BANDWIDTH) */
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
};
#endif

struct task_struct {
#if defined(__TARGET_ARCH_x86)
	struct thread_struct thread;
#endif
	struct thread_info thread_info;
	void *stack;
	unsigned int flags;
	int on_rq;
	struct sched_entity se;
	bool throttled; /* from Linux 6.18 on */
	struct signal_struct *signal;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	u64 start_time;
	u64 self_exec_id;
	unsigned long nvcsw;
	char comm[16];
	struct files_struct *files;
	struct css_set *cgroups;
	void *io_uring; /* of whoever has made a ring */
	struct sched_info sched_info;
	int pagefault_disabled;
	struct bpf_local_storage *bpf_storage;
};

/* x86 before Linux 5.16 */
struct task_struct___5_15 {
	unsigned int cpu;
};

struct msghdr;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

struct bpf_map;

/* include/linux/bpf.h: of a per-CPU array, where each value is kept */
struct bpf_array {
	void *pptrs[1];
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

/* include/linux/filter.h: the kernel's side of struct bpf_sock_ops */
struct bpf_sock_ops_kern {
	struct sk_buff *skb;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

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
#define PACKET_HOST 0 /* include/uapi/linux/if_packet.h: skb->pkt_type */
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
#define S_IFIFO 0010000

#define SKBTX_HW_TSTAMP_NETDEV                                                                     \
	(1 << 5) /* include/linux/skbuff.h: what is in its place is no time */

/*
 * A socket's storage, made if there is none. bpf_sk_storage_get() gives none where another CPU has just
 * made the socket's first storage of any kind (EAGAIN), or this one (EEXIST): each once at most.
 */
static __always_inline void *sk_storage_made(void *map, void *sk)
{
	void *storage = NULL;

	for (int i = 0; i < 3 && !storage; i++)
		storage = bpf_sk_storage_get(map, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	return storage;
}

/* a - b on the sequence number circle (include/net/tcp.h: before()) */
static __always_inline s32 seq_diff(u32 a, u32 b)
{
	return (s32)(a - b);
}

/* kernel/bpf/helpers.c; Linux 6.2 */
extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/*
 * A field of what an untrusted pointer leads to; zero if it leads nowhere. Where the kernel can show
 * the pointer's type to its verifier this is one load, and else a call.
 */
#define KERNEL_READ(type, pointer, field)                                                          \
	(bpf_ksym_exists(bpf_rdonly_cast)                                                          \
		 ? ((type *)bpf_rdonly_cast((pointer), bpf_core_type_id_kernel(type)))->field      \
		 : BPF_CORE_READ((type *)(pointer), field))

/*
 * A pointer in a struct that the verifier trusts, to be compared, or followed by what reads untrusted ones. For each
 * plain load of one, on each path, verifiers of Linux 6.2 to 6.18 look four times for a name among all types of the
 * kernel, a millisecond in all: a third of what loading took. The plain load is as fast where they do not.
 */
#define KERNEL_POINTER(type, pointer, field)                                                       \
	(bpf_ksym_exists(bpf_rdonly_cast)                                                          \
		 ? ((type *)bpf_rdonly_cast((pointer), bpf_core_type_id_kernel(type)))->field      \
		 : (pointer)->field)

/*
 * The pointer that lies at an untrusted place, as a number, which the verifier lets be mixed and
 * compared: the first field of a struct of the kernel that has 64 bits and is no pointer.
 */
#define KERNEL_READ_POINTER(at) ((void *)KERNEL_READ(struct timespec64, at, tv_sec))

/* The number of a socket's network namespace. */
static __always_inline u32 netns_of(const struct sock *sk)
{
	return KERNEL_POINTER(struct sock, sk, __sk_common.skc_net.net)->ns.inum;
}

/* When the process of a thread began. */
static __always_inline u64 process_started_ns(const struct task_struct *task)
{
	return KERNEL_POINTER(struct task_struct, task, group_leader)->start_time;
}

#endif /* WHYLAT_KERNEL_H */
