/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Chooses the sockets that are recorded, and finds their owners. A socket is chosen once: when a recorded
 * process connects or listens, when a chosen listening socket accepts (its storage is copied),
 * when its port is the one asked for, when the walk over all open files finds it, or when it is
 * the other end of a chosen connection. The chosen socket then carries its storage, and that is
 * all that the other hooks look at.
 */
#ifndef WHYLAT_INVENTORY_BPF_H
#define WHYLAT_INVENTORY_BPF_H

#include "../bpf/ring.h"
#include "../bpf/select.h"
#include "../bpf/socket.h"
#include "../bpf/walk.h"
#include "../tcp_stages/tcp_stages.bpf.h"
#include "../drops/ports.bpf.h"
#include "../watch/active.bpf.h"
#include "kinds.bpf.h"
#include "mib.bpf.h"
#include "mptcp.bpf.h"
#include "owners.bpf.h"

struct socket_seen_record {
	struct record_header header;
	struct socket_seen seen;
};

/* A connection as one end sees it. */
struct tuple {
	u8 local_addr[16];
	u8 remote_addr[16];
	u16 local_port;
	u16 remote_port;
};

#define PEER_CONNECTS 1 /* the recorded end accepted, or that is not known */
#define PEER_ACCEPTS 2	/* it connected: the peer serves it */

/* Holds what the other end of each chosen connection would see, and PEER_*: how a peer on this host is recognised. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__type(key, struct tuple);
	__type(value, u8);
} peer_tuples SEC(".maps");

/* Connections without a known other end on this host, because `peer_tuples` is full. */
u64 lost_peers = 0;

static __always_inline void read_addr(u8 *out, const struct sock *sk, bool local)
{
	u32 v4 = local ? sk->__sk_common.skc_rcv_saddr : sk->__sk_common.skc_daddr;

	__builtin_memset(out, 0, 16);
	if (sk->__sk_common.skc_family == AF_INET6) {
		const struct in6_addr *v6 =
			local ? &sk->__sk_common.skc_v6_rcv_saddr : &sk->__sk_common.skc_v6_daddr;

		bpf_probe_read_kernel(out, 16, v6->in6_u.u6_addr8);
	} else {
		/* as IPv4-mapped IPv6: one form for sockets of both families */
		out[10] = 0xff;
		out[11] = 0xff;
		__builtin_memcpy(out + 12, &v4, 4);
	}
}

/* Not skc_num: inet_put_port() clears that before the socket is closed. */
static __always_inline u16 local_port(const struct tcp_sock *tp)
{
	return bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport);
}

/* PEER_*; 0: it is not the other end of a chosen connection. */
static __always_inline u8 peer_kind(const struct sock *sk, const struct tcp_sock *tp)
{
	struct tuple tuple;
	u8 *kind;

	read_addr(tuple.local_addr, sk, true);
	read_addr(tuple.remote_addr, sk, false);
	tuple.local_port = local_port(tp);
	tuple.remote_port = remote_port(sk);
	kind = bpf_map_lookup_elem(&peer_tuples, &tuple);
	return kind ? *kind : 0;
}

static __always_inline bool is_peer(const struct sock *sk, const struct tcp_sock *tp)
{
	return peer_kind(sk, tp);
}

/* Notes whether a recorded process has opened the connection of an end that is found, if such processes are followed. */
static __always_inline void note_served(struct socket_state *st, const struct sock *sk,
					const struct tcp_sock *tp)
{
	if (select_follow && !st->serves)
		st->serves = peer_kind(sk, tp) == PEER_ACCEPTS;
}

/* The connection as its other end sees it. */
static __always_inline void others_tuple(struct tuple *tuple, const struct sock *sk,
					 const struct tcp_sock *tp)
{
	read_addr(tuple->remote_addr, sk, true);
	read_addr(tuple->local_addr, sk, false);
	tuple->remote_port = local_port(tp);
	tuple->local_port = remote_port(sk);
}

static __always_inline void expect_peer(const struct sock *sk, const struct tcp_sock *tp, u8 kind)
{
	struct tuple tuple;

	others_tuple(&tuple, sk, tp);
	if (bpf_map_update_elem(&peer_tuples, &tuple, &kind, BPF_ANY))
		__sync_fetch_and_add(&lost_peers, 1);
}

static __always_inline void forget_peer(const struct sock *sk, const struct tcp_sock *tp)
{
	struct tuple tuple;

	others_tuple(&tuple, sk, tp);
	bpf_map_delete_elem(&peer_tuples, &tuple);
}

/* The protocol above TCP in the kernel (icsk_ulp_ops), and the MPTCP connection, if that is it. */
static __always_inline void seen_ulp(struct socket_seen *seen, struct socket_state *st,
				     const struct tcp_sock *tp)
{
	const struct tcp_ulp_ops *ulp = tp->inet_conn.icsk_ulp_ops;

	/* nothing but zeros where it leads nowhere */
	bpf_probe_read_kernel_str(seen->ulp, sizeof(seen->ulp), ulp->name);
	st->ulp_ops = (u64)ulp;
	st->mptcp_token = subflow_token(tp);
	seen->mptcp_token = st->mptcp_token;
}

/* Writes what is known of a chosen socket. */
static __always_inline void socket_emit(struct socket_state *st, struct sock *sk,
					const struct tcp_sock *tp, u64 closed_ns, u64 now_ns)
{
	struct socket_seen_record *record = record_reserve(RECORD_SOCKET_SEEN, sizeof(*record));
	struct socket_seen *seen;
	u8 userlocks;

	if (!record)
		return;
	seen = &record->seen;
	seen->cookie = st->cookie;
	seen->time_ns = now_ns;
	seen->connect_ns = st->connect_ns;
	seen->opened_ns = st->opened_ns;
	seen->closed_ns = closed_ns;
	read_addr(seen->local_addr, sk, true);
	read_addr(seen->remote_addr, sk, false);
	seen->netns = netns_of(sk);
	seen->owner = st->process;
	seen->mss_bytes = tp->mss_cache;
	seen->sndbuf_bytes = sk->sk_sndbuf;
	seen->rcvbuf_bytes = sk->sk_rcvbuf;
	seen->syn_retries = st->syn_retries;
	seen->local_port = local_port(tp);
	seen->remote_port = remote_port(sk);
	seen_ulp(seen, st, tp);
	bpf_probe_read_kernel_str(seen->congestion, sizeof(seen->congestion),
				  tp->inet_conn.icsk_ca_ops->name);
	seen->family = sk->__sk_common.skc_family;
	seen->role = st->role;
	seen->chosen = st->chosen;
	seen->nodelay = tcp_nonagle(tp) & TCP_NAGLE_OFF;
	userlocks = BPF_CORE_READ_BITFIELD(sk, sk_userlocks);
	seen->sndbuf_locked = !!(userlocks & SOCK_SNDBUF_LOCK);
	seen->rcvbuf_locked = !!(userlocks & SOCK_RCVBUF_LOCK);
	seen->error = sk->sk_err;
	__builtin_memset(seen->pad, 0, sizeof(seen->pad));
	record_submit(record);
}

/* Returns what the calls on an MPTCP socket have shown since, or its handshake: its subflow's own hooks do not see that. */
static __always_inline bool mptcp_has_news(struct socket_state *st, const struct tcp_sock *tp)
{
	return has_mptcp && st->mptcp &&
	       (mptcp_take_owner(st->mptcp, &st->process) || st->mptcp_token != subflow_token(tp));
}

/* Writes a socket again when something became known that no hook shows. */
static __always_inline void socket_refresh(struct socket_state *st, struct sock *sk,
					   const struct tcp_sock *tp)
{
	if (st->ulp_ops != (u64)tp->inet_conn.icsk_ulp_ops || mptcp_has_news(st, tp))
		socket_emit(st, sk, tp, 0, bpf_ktime_get_ns());
}

struct listener_seen_record {
	struct record_header header;
	struct listener_seen seen;
};

/* Writes what a chosen listening socket has let wait and dropped so far (tcp_listendrop()). */
static __always_inline void listener_emit(const struct socket_state *st, struct sock *sk,
					  const struct tcp_sock *tp,
					  const struct process_seen *owner,
					  struct descriptor_room room, u64 closed_ns)
{
	struct listener_seen_record *record = record_reserve(RECORD_LISTENER_SEEN, sizeof(*record));
	struct listener_seen *seen;
	struct listener_mib mib;

	if (!record)
		return;
	seen = &record->seen;
	seen->cookie = bpf_get_socket_cookie(sk);
	seen->time_ns = bpf_ktime_get_ns();
	seen->listen_ns = st->listen_ns;
	seen->closed_ns = closed_ns;
	read_addr(seen->local_addr, sk, true);
	seen->netns = netns_of(sk);
	seen->owner = *owner;
	seen->room = room;
	seen->waiting = sk->sk_ack_backlog;
	seen->waiting_max = sk->sk_max_ack_backlog;
	seen->drops = sk->sk_drops.counter;
	/* after the drops: of each, the namespace has counted the overflow before (tcp_conn_request()) */
	mib_of(sk->__sk_common.skc_net.net, &mib);
	seen->mib = mib;
	seen->local_port = local_port(tp);
	__builtin_memset(seen->pad, 0, sizeof(seen->pad));
	record_submit(record);
}

/* A socket begins to listen, or a listening socket closes. */
static __always_inline void listener_on_change(struct sock *sk, bool closes)
{
	struct socket_state *st = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct descriptor_room unread = {};

	if (st && tp && st->chosen == CHOSEN_TARGET)
		listener_emit(st, sk, tp, &st->process, unread, closes ? bpf_ktime_get_ns() : 0);
}

/* Gives a socket its storage. A socket that has one keeps it. */
static __always_inline struct socket_state *socket_choose(struct sock *sk, u8 why)
{
	struct socket_state *st = sk_storage_made(&sockets, sk);

	if (!st) {
		__sync_fetch_and_add(&lost_socket_storage, 1);
		return NULL;
	}
	if (!st->chosen)
		st->chosen = why;
	return st;
}

/* A count of the stream's bytes, and the sequence number that it has come to. */
struct counted {
	u64 bytes;
	u32 seq;
};

/* The kernel changes one after the other, and a walk does not hold the socket: until two readings agree. */
static __always_inline struct counted read_together(const u64 *bytes, const u32 *seq)
{
	struct counted now = {READ_ONCE(*bytes), READ_ONCE(*seq)}, before;

	for (int i = 0; i < 4; i++) {
		before = now;
		now = (struct counted){READ_ONCE(*bytes), READ_ONCE(*seq)};
		if (now.bytes == before.bytes && now.seq == before.seq)
			break;
	}
	return now;
}

/*
 * Whether bytes_acked counts our SYN: it does where we connected (tcp_rcv_synsent_state_process()),
 * and then is one ahead of the bytes sent for the first time.
 */
static __always_inline bool syn_acked(const struct tcp_sock *tp, struct counted acked)
{
	if (!bpf_core_field_exists(tp->bytes_sent))
		return false;
	return acked.bytes + (u32)(tp->snd_nxt - acked.seq) > tp->bytes_sent - tp->bytes_retrans;
}

/* A FIN counts in both numbers. Returns whether we connected, as far as the numbers show it. */
static __always_inline bool streams_begin(struct socket_state *st, const struct tcp_sock *tp)
{
	struct counted acked = read_together(&tp->bytes_acked, &tp->snd_una);
	struct counted received = read_together(&tp->bytes_received, &tp->rcv_nxt);
	bool connected = syn_acked(tp, acked);

	st->first_sent = acked.seq - (u32)acked.bytes + connected;
	st->first_received = received.seq - (u32)received.bytes;
	return connected;
}

/*
 * Returns whether a socket in this state is or was established. It comes to TCP_CLOSE by a change of state,
 * and can begin.
 */
static __always_inline bool has_stream(u8 state)
{
	return state != TCP_CLOSE && state != TCP_LISTEN && state != TCP_SYN_SENT &&
	       state != TCP_SYN_RECV;
}

/* PEER_* of the other end. `connected`: the numbers say so; a FIN that was sent looks the same. */
static __always_inline u8 others_kind(const struct socket_state *st, const struct sock *sk,
				      bool connected)
{
	bool is_whole = sk->__sk_common.skc_state == TCP_ESTABLISHED;

	return st->role == ROLE_CLIENT || (connected && is_whole) ? PEER_ACCEPTS : PEER_CONNECTS;
}

/* A socket with a stream begins its ledger; opened_ns 0 if it was open before. */
static __always_inline void socket_begin(struct socket_state *st, struct sock *sk,
					 const struct tcp_sock *tp, u64 opened_ns, u64 now_ns)
{
	bool connected;

	/* a call, a walk and a change of state may all meet it first */
	if (__sync_lock_test_and_set(&st->begun, 1))
		return;
	drop_ports_note(sk);
	netns_add_socket(netns_of(sk));
	st->cookie = bpf_get_socket_cookie(sk);
	st->ended_cookie = 0;
	st->opened_ns = opened_ns;
	connected = streams_begin(st, tp);
	st->sampled.busy = true;
	/* while it becomes established, skc_state still says what it was before */
	st->number = connection_number(sk);
	ledger_init(st, tp, opened_ns ? TCP_ESTABLISHED : sk->__sk_common.skc_state, now_ns);
	subflow_begin(st, tp);
	if (st->chosen == CHOSEN_TARGET) {
		__sync_fetch_and_add(targets_of(sk), 1);
		if (!select_all)
			expect_peer(sk, tp, others_kind(st, sk, connected));
	}
	if (watch_active) {
		__sync_fetch_and_add(&watched_sockets, 1);
		/* not by its mark, which may be that of a connection before, or copied */
		socket_activate(st, sk);
	}
}

/*
 * Ends the record of a closed socket. Calls may still use it, but it does not begin again, unless it
 * connects again.
 */
static __always_inline void socket_end(struct socket_state *st, const struct sock *sk,
				       const struct tcp_sock *tp)
{
	if (st->chosen == CHOSEN_TARGET) {
		st->ended_cookie = st->cookie;
		__sync_fetch_and_add(targets_of(sk), -1);
		if (!select_all)
			forget_peer(sk, tp);
	}
	if (watch_active)
		__sync_fetch_and_add(&watched_sockets, -1);
	netns_remove_socket(netns_of(sk));
	subflow_end(st);
	st->cookie = 0;
	set_watched(st, 0);
}

/* A recorded socket with a stream, or NULL. */
static __always_inline struct socket_state *socket_recorded(struct sock *sk)
{
	struct socket_state *st = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	return st && st->cookie ? st : NULL;
}

/*
 * The other end of a recorded connection is that of a process which is recorded, too, since it is followed: the end has a
 * log of calls from now on. It counts as a target before it is one, for who ends it meanwhile.
 */
static __always_inline bool peer_becomes_target(struct socket_state *st, const struct sock *sk,
						u32 tgid)
{
	if (!st->serves || st->chosen != CHOSEN_PEER || !st->cookie || !is_target(tgid))
		return false;
	__sync_fetch_and_add(targets_of(sk), 1);
	st->chosen = CHOSEN_TARGET;
	return true;
}

/*
 * A call shows who uses the socket: the process that accepted it, or one that it was handed to.
 * Processes that share a socket do not take turns in being its owner. A peer's owner has its
 * blocking measured from then on. Returns whether that of this call was not, as its process is followed since.
 */
static __always_inline bool socket_owner(struct socket_state *st, struct task_struct *task,
					 struct sock *sk, const struct tcp_sock *tp)
{
	u32 tgid = task->tgid;
	bool known, is_new = false;

	if (st->owner == tgid || st->owners == OWNERS_MOST || (task->flags & PF_KTHREAD))
		return false;
	known = st->process.pid == tgid;
	st->owner = tgid;
	st->owners++;
	process_fill(&st->process, task);
	if (st->serves && !is_target(tgid))
		is_new = follow_process(&st->process);
	if (peer_becomes_target(st, sk, tgid))
		known = false;
	else if (st->chosen == CHOSEN_PEER)
		select_task(tgid, TASK_PEER);
	else
		owner_found(tgid);
	st->owner_measured = is_measured(tgid);
	if (!known)
		socket_emit(st, sk, tp, 0, bpf_ktime_get_ns());
	return is_new;
}

/* connect() and listen() run in the process that calls them. */
static __always_inline void socket_on_own_call(struct sock *sk, u8 role)
{
	struct socket_state *st;

	if ((!is_target_current() && !is_selected_port(sk)) || !is_selected_netns(sk))
		return;
	if (role == ROLE_SERVER && is_followed(bpf_get_current_pid_tgid() >> 32))
		return;
	if (is_selected_port(sk))
		owner_found(bpf_get_current_pid_tgid() >> 32);
	st = socket_choose(sk, CHOSEN_TARGET);
	if (!st)
		return;
	drop_ports_note(sk);
	st->role = role;
	st->begun = 0;
	st->serves = 0;
	st->ended_cookie = 0;
	st->connect_ns = role == ROLE_CLIENT ? bpf_ktime_get_ns() : 0;
	st->connect_tid = (u32)bpf_get_current_pid_tgid();
	st->listen_ns = role == ROLE_SERVER ? bpf_ktime_get_ns() : 0;
	process_fill(&st->process, bpf_get_current_task_btf());
}

/* The storage of a socket that is to be recorded though its process did not open it; NULL: it is not to be. */
static __always_inline struct socket_state *socket_chosen(struct sock *sk,
							  const struct tcp_sock *tp)
{
	struct mptcp_connection *known = mptcp_of_subflow(tp);
	struct socket_state *st;

	if (select_all || is_selected_port(sk))
		return socket_choose(sk, CHOSEN_TARGET);
	/* the kernel itself opens further subflows */
	if (known) {
		st = socket_choose(sk, known->chosen);
		if (st)
			st->process = known->process;
		return st;
	}
	return is_peer(sk, tp) ? socket_choose(sk, CHOSEN_PEER) : NULL;
}

static __always_inline void socket_on_established(struct sock *sk, const struct tcp_sock *tp,
						  bool active, u64 now_ns)
{
	struct socket_state *st = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	if (!st && !is_selected_netns(sk))
		return;
	if (!st) {
		st = socket_chosen(sk, tp);
		if (!st)
			return;
	}
	if (!active) {
		st->role = ROLE_SERVER;
		note_served(st, sk, tp);
	} else if (!st->role)
		st->role = ROLE_CLIENT;
	/* nothing but SYNs has been sent */
	st->syn_retries = active ? tp->total_retrans : 0;
	socket_begin(st, sk, tp, now_ns, now_ns);
	socket_emit(st, sk, tp, 0, now_ns);
}

/* For Rust, by way of the object's BTF. */
const struct socket_seen wire_socket_seen = {};
const struct listener_seen wire_listener_seen = {};
const struct process_seen wire_process_seen = {};

#endif
