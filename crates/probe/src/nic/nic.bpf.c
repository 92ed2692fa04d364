// SPDX-License-Identifier: GPL-2.0
/*
 * Stamps of network adapters for what recorded connections send. An object of its own, because it is loaded
 * only where an adapter is set to stamp. It shares `sockets`, which says who is recorded, with the hooks.
 *
 * A socket is set to call back (SK_BPF_CB_TX_TIMESTAMPING) when it is connected, or by the walk over those
 * that are. Each send call then asks for a stamp of the packet with its last byte; the adapter's driver gives
 * it when the adapter has sent that, which may be after its ACK. So nothing is matched here: the recorder does.
 */
#include "../bpf/kernel.h"
#include "../bpf/socket.h"
#include "../messages/packet.bpf.h"
#include "nic.h"

char LICENSE[] SEC("license") = "GPL";

/* include/uapi/asm-generic/socket.h, include/uapi/linux/bpf.h; Linux 6.15 */
#define SOL_SOCKET 1
#define SK_BPF_CB_FLAGS 1009
#define SK_BPF_CB_TX_TIMESTAMPING 1
#define TSTAMP_SND_HW_CB 18
#define TSTAMP_SENDMSG_CB 20

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;
extern int bpf_sock_ops_enable_tx_tstamp(struct bpf_sock_ops_kern *skops, u64 flags) __ksym __weak;

/* Puts the wire types into the object's BTF, from which Rust takes them. */
const struct nic_stamp wire_nic_stamp = {};
const struct nic_place wire_nic_place = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1024 * 1024);
} stamp_ring SEC(".maps");

/* interfaces that stamp -> numbers of their clocks; as long as there are some */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct nic_place);
	__type(value, u32);
} nics SEC(".maps");

u64 stamps_produced = 0;
u64 stamps_lost_ring_full = 0;

/* SK_BPF_CB_TX_TIMESTAMPING as long as the recording lasts, then 0: what the walk gives sockets. */
u32 callbacks = 0;

static __always_inline void stamp_emit(const struct socket_state *st, const struct sk_buff *skb)
{
	struct nic_place place = {};
	struct nic_stamp stamp = {};
	u32 seq, end_seq, *ptp;

	if (!skb || !packet_bytes(skb, &seq, &end_seq))
		return;
	place.netns = skb->dev->nd_net.net->ns.inum;
	place.ifindex = skb->dev->ifindex;
	ptp = bpf_map_lookup_elem(&nics, &place);
	if (!ptp)
		return;
	stamp.cookie = st->cookie;
	stamp.phc_ns = KERNEL_READ(struct skb_shared_info, (void *)((u64)skb->head + skb->end),
				   hwtstamps.hwtstamp);
	stamp.offset = seq - st->first_sent;
	stamp.offset_end = end_seq - st->first_sent;
	stamp.ptp = *ptp;
	__sync_fetch_and_add(&stamps_produced, 1);
	if (bpf_ringbuf_output(&stamp_ring, &stamp, sizeof(stamp), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&stamps_lost_ring_full, 1);
}

SEC("sockops")
int handle_sock_ops(struct bpf_sock_ops *ops)
{
	struct bpf_sock_ops_kern *kernel;
	struct socket_state *st;
	struct bpf_sock *sk;
	u32 op = ops->op;

	if (op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    op != TSTAMP_SENDMSG_CB && op != TSTAMP_SND_HW_CB)
		return 1;
	sk = ops->sk;
	if (!sk)
		return 1;
	st = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!st)
		return 1;
	kernel = bpf_cast_to_kern_ctx(ops);
	if (op == TSTAMP_SENDMSG_CB)
		bpf_sock_ops_enable_tx_tstamp(kernel, 0);
	else if (op == TSTAMP_SND_HW_CB)
		stamp_emit(st, kernel->skb);
	else
		bpf_setsockopt(ops, SOL_SOCKET, SK_BPF_CB_FLAGS, &callbacks, sizeof(callbacks));
	return 1;
}

/* Walks the sockets of the network namespace that the reader is in. */
SEC("iter/tcp")
int walk_open_sockets(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	u32 wanted = callbacks;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (tp && bpf_sk_storage_get(&sockets, (struct sock *)tp, NULL, 0))
		bpf_setsockopt(tp, SOL_SOCKET, SK_BPF_CB_FLAGS, &wanted, sizeof(wanted));
	return 0;
}
