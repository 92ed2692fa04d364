/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Sockets, packets, devices and io_uring as the kernel has them: see kernel.h. */
#ifndef WHYLAT_KERNEL_NET_H
#define WHYLAT_KERNEL_NET_H

#include "kernel_types.h"

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

struct super_block {
	u32 s_dev;
};

struct inode {
	unsigned long i_ino;
	u16 i_mode;
	u32 i_rdev;
	struct super_block *i_sb;
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
	u32 max_window;
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
	u64 tcp_wstamp_ns;
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

/* include/net/sch_generic.h, include/net/gen_stats.h */
struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct Qdisc_ops {
	char id[16];
};

struct qdisc_skb_head {
	u32 qlen;
};

struct gnet_stats_queue {
	u32 backlog;
	u32 drops;
};

struct Qdisc {
	u32 flags;
	u32 limit;
	const struct Qdisc_ops *ops;
	struct hlist_node hash;
	u32 handle;
	u32 parent;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct tc_skb_cb {
	u32 drop_reason;
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	char name[16];
	int ifindex;
	possible_net_t nd_net;
	struct netdev_queue *_tx;
	unsigned int num_tx_queues;
	struct hlist_head qdisc_hash[16];
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
	u16 queue_mapping;
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

#pragma clang attribute pop

#endif /* WHYLAT_KERNEL_NET_H */
