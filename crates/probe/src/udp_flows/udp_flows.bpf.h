/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Calls on UDP sockets of recorded threads, by the other end's address. That of a connected socket is its own; of
 * others two hooks of the control group see it, which only calls with an address pass, and keep it until the call
 * ends. The calls themselves pass the hooks of TCP's.
 */
#ifndef WHYLAT_UDP_FLOWS_BPF_H
#define WHYLAT_UDP_FLOWS_BPF_H

#include "../calls/calls.bpf.h"
#include "../inventory/inventory.bpf.h"
#include "../unix_sockets/unix_sockets.bpf.h"
#include "udp_flows.h"
#include "udp_times.bpf.h"

struct udp_address {
	u8 addr[16];
	u16 port; /* host byte order */
	u16 pad[3];
};

/* An address, and window_begin() then: of an earlier window it is of a call that ended unseen. */
struct udp_noted {
	struct udp_address address;
	u64 window_ns;
};

/* The address of the call that a thread is in, by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct udp_noted);
} udp_addresses SEC(".maps");

struct udp_flow_key {
	u64 cookie; /* the socket's: a later one may have its address */
	struct udp_address remote;
};

struct udp_flow {
	u64 id;
	u64 received_bytes;
	u64 sent_bytes;
};

/* Flows that are used least are forgotten: if one is used again, it is another flow. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct udp_flow_key);
	__type(value, struct udp_flow);
} udp_flows SEC(".maps");

u64 udp_flow_count = 0;

struct udp_flow_record {
	struct record_header header;
	struct udp_flow_seen seen;
};

/* A control group is asked for where the call ends: it is no matter here. */
static __always_inline bool may_be_asked_for(u32 tgid)
{
	u8 why = task_why(tgid);

	return select_all || select_cgroup_id || why == TASK_RECORDED || why == TASK_OWNER;
}

static __always_inline int udp_note_address(struct bpf_sock_addr *ctx, bool is_v6)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct udp_noted noted = {.window_ns = window_begin()};
	struct udp_address *address = &noted.address;
	u32 tid = task->pid, words[4];

	if (window_is_closed() || !may_be_asked_for(task->tgid))
		return 1;
	address->port = bpf_ntohs((u16)ctx->user_port);
	if (is_v6) {
		words[0] = ctx->user_ip6[0];
		words[1] = ctx->user_ip6[1];
		words[2] = ctx->user_ip6[2];
		words[3] = ctx->user_ip6[3];
		__builtin_memcpy(address->addr, words, sizeof(address->addr));
	} else {
		words[0] = ctx->user_ip4;
		address->addr[10] = 0xff;
		address->addr[11] = 0xff;
		__builtin_memcpy(address->addr + 12, words, 4);
	}
	bpf_map_update_elem(&udp_addresses, &tid, &noted, BPF_ANY);
	return 1;
}

/* The other end of the call that ends. Its port is zero if no hook saw it. */
static __always_inline void udp_remote(struct udp_address *remote, struct sock *sk)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct udp_noted *known = bpf_map_lookup_elem(&udp_addresses, &tid);

	__builtin_memset(remote, 0, sizeof(*remote));
	if (known && known->window_ns == window_begin()) {
		*remote = known->address;
		bpf_map_delete_elem(&udp_addresses, &tid);
	} else if (remote_port(sk)) {
		read_addr(remote->addr, sk, false);
		remote->port = remote_port(sk);
	}
}

/*
 * Who asks: the end that sends first, unless its port was chosen (bind()) and is the lower one, as of a server that was
 * asked before the recording; and a connected socket that nobody gave a port.
 */
static __always_inline u8 udp_role(struct sock *sk, bool is_send, u16 port)
{
	bool is_bound = BPF_CORE_READ_BITFIELD(sk, sk_userlocks) & SOCK_BINDPORT_LOCK;

	if (is_send)
		return is_bound && sk->__sk_common.skc_num < port ? ROLE_SERVER : ROLE_CLIENT;
	return remote_port(sk) && !is_bound ? ROLE_CLIENT : ROLE_SERVER;
}

static __always_inline void udp_flow_emit(const struct udp_flow *flow, struct sock *sk,
					  const struct udp_flow_key *key, bool is_send, u64 now_ns)
{
	const struct udp_address *remote = &key->remote;
	struct udp_flow_record *record;
	struct udp_flow_seen *seen;

	record = record_reserve(RECORD_UDP_FLOW_SEEN, sizeof(*record));
	if (!record)
		return;
	seen = &record->seen;
	__builtin_memset(seen, 0, sizeof(*seen));
	seen->id = flow->id;
	seen->time_ns = now_ns;
	seen->cookie = key->cookie;
	seen->inode = socket_inode(sk);
	read_addr(seen->local_addr, sk, true);
	__builtin_memcpy(seen->remote_addr, remote->addr, 16);
	process_fill(&seen->owner, bpf_get_current_task_btf());
	seen->netns = netns_of(sk);
	seen->local_port = sk->__sk_common.skc_num;
	seen->remote_port = remote->port;
	seen->role = udp_role(sk, is_send, remote->port);
	record_submit(record);
}

/* The flow of a call, made if there is none; NULL: there is no room. */
static __always_inline struct udp_flow *udp_flow_of(const struct udp_flow_key *key)
{
	struct udp_flow *flow = bpf_map_lookup_elem(&udp_flows, key), fresh = {};

	if (flow)
		return flow;
	bpf_map_update_elem(&udp_flows, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&udp_flows, key);
}

static __always_inline void udp_flow_log(const struct udp_flow_key *key, const struct call_end *end,
					 struct sock *sk, bool is_send, int result, int flags,
					 u64 unread_ns, u64 now_ns)
{
	struct call_subject subject = {.owner_measured = true};
	struct udp_flow *flow = udp_flow_of(key);
	u64 *bytes;

	if (!flow) {
		__sync_fetch_and_add(&lost_socket_storage, 1);
		return;
	}
	if (!flow->id) {
		flow->id = UDP_FLOW_FIRST + __sync_fetch_and_add(&udp_flow_count, 1);
		udp_flow_emit(flow, sk, key, is_send, now_ns);
	}
	bytes = is_send ? &flow->sent_bytes : &flow->received_bytes;
	__sync_fetch_and_add(bytes, result);
	subject.cookie = flow->id;
	subject.offset_end = *bytes;
	if (end->batch)
		call_log(end, sk, &subject, is_send, result, flags, unread_ns, now_ns);
}

/* Has a call taken a datagram? An empty one, too. */
static __always_inline bool takes_datagram(int result, int flags)
{
	return result >= 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE));
}

/* A call on a UDP socket has ended. What moved no byte is not recorded. */
static __always_inline void udp_flow_on_call(struct sock *sk, bool is_send, int result, int flags)
{
	struct udp_flow_key key = {};
	u64 unread_ns = UNREAD_UNSEEN, now_ns;
	struct call_end end;

	if (!is_asked_for(bpf_get_current_pid_tgid() >> 32))
		return;
	udp_remote(&key.remote, sk);
	now_ns = bpf_ktime_get_ns();
	if (has_udp_times && !is_send && takes_datagram(result, flags)) {
		bool is_server = udp_role(sk, false, key.remote.port) == ROLE_SERVER;

		unread_ns = udp_time_take(sk, is_server, now_ns);
	}
	end = call_end_of(bpf_get_current_task_btf(), sk, is_send);
	if (result > 0 && (is_send || takes_bytes(result, flags))) {
		key.cookie = bpf_get_socket_cookie(sk);
		udp_flow_log(&key, &end, sk, is_send, result, flags, unread_ns, now_ns);
	}
	if (end.wait)
		end.wait->start_ns = 0;
}

/* For Rust, by way of the object's BTF. */
const struct udp_flow_seen wire_udp_flow_seen = {};

#endif
