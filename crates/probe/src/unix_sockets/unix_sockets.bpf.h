/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Calls on UNIX stream sockets of recorded threads. The hooks are those of TCP's calls, which every family of
 * sockets passes: what comes here is found by its family, and nothing is hooked for it. The kernel counts no bytes
 * of such a stream; its storage does, from the first call that is seen.
 */
#ifndef WHYLAT_UNIX_SOCKETS_BPF_H
#define WHYLAT_UNIX_SOCKETS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/select.h"
#include "../calls/calls.bpf.h"
#include "unix_sockets.h"

/* UNIX sockets were recorded: until then nobody else's calls matter. */
u32 unix_recorded = 0;

struct unix_socket {
	u64 cookie;
	u64 received_bytes;
	u64 sent_bytes;
	u64 peer_inode; /* as last written out */
	u32 owner;	/* process of the last row; 0: none */
	u32 owners;	/* changes of owner so far, at most OWNERS_MOST */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct unix_socket);
} unix_sockets SEC(".maps");

/* A recorded socket, as its other end may know it. */
struct unix_recorded_socket {
	u64 unread_ns; /* since when it has unread bytes; 0: it has none */
	u64 cookie;
};

/*
 * By the socket's address. Who sends marks it: the socket's storage cannot be reached from the other end. An address may be
 * used again, by a socket that is not recorded: nobody reads the time then, and the cookie is another.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct unix_recorded_socket);
} unix_unread SEC(".maps");

struct unix_seen_record {
	struct record_header header;
	struct unix_seen seen;
};

static __always_inline bool unix_is_stream(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_UNIX &&
	       (sk->sk_type == SOCK_STREAM || sk->sk_type == SOCK_SEQPACKET);
}

static __always_inline struct sock *unix_peer(struct sock *sk)
{
	return KERNEL_READ(struct unix_sock, sk, peer);
}

/* Number of a socket's file; 0: it has none, as one that is not accepted yet. */
static __always_inline u64 socket_inode(struct sock *sk)
{
	struct socket *socket = KERNEL_READ(struct sock, sk, sk_socket);
	struct socket_alloc *both;

	if (!socket)
		return 0;
	both = (void *)socket - bpf_core_field_offset(struct socket_alloc, socket);
	return KERNEL_READ(struct socket_alloc, both, vfs_inode.i_ino);
}

/* Copies the name of a socket. False: it has none. */
static __always_inline bool unix_name(struct unix_seen *seen, struct sock *sk)
{
	struct unix_address *name = KERNEL_READ(struct unix_sock, sk, addr);
	s32 bytes;

	if (!name)
		return false;
	bytes = KERNEL_READ(struct unix_address, name, len) - (s32)sizeof(u16);
	if (bytes <= 0 || bytes > UNIX_PATH_BYTES)
		return false;
	seen->path_bytes = bytes;
	bpf_probe_read_kernel(seen->path, UNIX_PATH_BYTES,
			      (void *)name + bpf_core_field_offset(struct unix_address, name) +
				      sizeof(u16));
	return true;
}

/* An accepted socket has the name of the listening one; who connects mostly has none. */
static __always_inline void unix_ends(struct unix_seen *seen, struct sock *sk, struct sock *peer)
{
	bool peer_has_name = peer && KERNEL_READ(struct unix_sock, peer, addr);

	seen->path_bytes = 0;
	if (unix_name(seen, sk))
		seen->role = peer_has_name ? ROLE_UNKNOWN : ROLE_SERVER;
	else if (peer_has_name && unix_name(seen, peer))
		seen->role = ROLE_CLIENT;
	else
		seen->role = ROLE_UNKNOWN;
}

static __always_inline void unix_emit(struct unix_socket *state, struct sock *sk, struct sock *peer,
				      u64 now_ns)
{
	struct unix_seen_record *record = record_reserve(RECORD_UNIX_SEEN, sizeof(*record));
	struct unix_seen *seen;

	if (!record)
		return;
	seen = &record->seen;
	seen->cookie = state->cookie;
	seen->time_ns = now_ns;
	seen->inode = socket_inode(sk);
	seen->peer_inode = state->peer_inode;
	seen->is_seqpacket = sk->sk_type == SOCK_SEQPACKET;
	unix_ends(seen, sk, peer);
	process_fill(&seen->owner, bpf_get_current_task_btf());
	record_submit(record);
}

/* A call shows who uses the socket; see socket_owner(). Its other end may have been accepted since. */
static __always_inline void unix_describe(struct unix_socket *state, struct sock *sk, u64 now_ns)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	bool is_other = state->owner != pid && state->owners < OWNERS_MOST;
	struct sock *peer;
	u64 inode;

	if (!is_other && state->peer_inode)
		return;
	peer = unix_peer(sk);
	inode = peer ? socket_inode(peer) : 0;
	if (!is_other && !inode)
		return;
	state->peer_inode = inode;
	if (is_other) {
		state->owners++;
		state->owner = pid;
	}
	unix_emit(state, sk, peer, now_ns);
}

/* The storage of the socket of a recorded thread, or NULL. */
static __always_inline struct unix_socket *unix_socket_of(struct sock *sk)
{
	struct unix_socket *state = bpf_sk_storage_get(&unix_sockets, sk, NULL, 0);
	struct unix_recorded_socket recorded = {};
	u64 key = (u64)sk;

	if (state && state->cookie)
		return state;
	state = sk_storage_made(&unix_sockets, sk);
	if (!state) {
		__sync_fetch_and_add(&lost_socket_storage, 1);
		return NULL;
	}
	state->cookie = bpf_get_socket_cookie(sk);
	recorded.cookie = state->cookie;
	bpf_map_update_elem(&unix_unread, &key, &recorded, BPF_ANY);
	unix_recorded = 1;
	return state;
}

/* A send call has ended: the other end has unread bytes since about now, unless it has taken them already. */
static __always_inline void unix_mark_unread(struct sock *sk, u64 now_ns)
{
	struct unix_recorded_socket *recorded;
	struct sock *peer = unix_peer(sk);
	u64 key = (u64)peer;
	u32 queued;

	if (!peer)
		return;
	recorded = bpf_map_lookup_elem(&unix_unread, &key);
	if (!recorded)
		return;
	queued = KERNEL_READ(struct sock, peer, sk_receive_queue.qlen);
	/* alone in the queue: what was marked is of bytes before, which were just taken */
	if (queued == 1 || (queued && !recorded->unread_ns))
		recorded->unread_ns = now_ns;
}

/*
 * Bytes were taken. Returns since when they were unread; 0: that was not seen, or was before the window. What is left waits
 * from now on. The other end may mark its bytes meanwhile: that stays.
 */
static __always_inline u64 unix_take_unread(struct sock *sk, u64 now_ns)
{
	u64 key = (u64)sk;
	struct unix_recorded_socket *recorded = bpf_map_lookup_elem(&unix_unread, &key);
	u64 since = recorded ? recorded->unread_ns : 0;

	if (since)
		__sync_val_compare_and_swap(&recorded->unread_ns, since,
					    sk->sk_receive_queue.qlen ? now_ns : 0);
	return since < window_begin() ? 0 : since;
}

/*
 * Follows the running process if a recorded one has connected to its socket `sk`. Such a socket has the address of the
 * listening one; the socket of a client has none.
 */
static __always_inline bool unix_follow(struct sock *sk)
{
	struct unix_recorded_socket *recorded;
	struct sock *peer = unix_peer(sk);
	struct process_seen process;
	u64 key = (u64)peer;

	if (!peer || !KERNEL_READ(struct unix_sock, sk, addr) ||
	    KERNEL_READ(struct unix_sock, peer, addr))
		return false;
	recorded = bpf_map_lookup_elem(&unix_unread, &key);
	if (!recorded ||
	    recorded->cookie != KERNEL_READ(struct sock, peer, __sk_common.skc_cookie.counter))
		return false;
	process_fill(&process, bpf_get_current_task_btf());
	return follow_process(&process);
}

/* `is_first`: the process is followed since this call, and nobody measured how it was blocked. */
static __always_inline void unix_log(struct unix_socket *state, struct sock *sk, bool is_send,
				     int result, int flags, bool is_first, u64 now_ns)
{
	struct call_end end = call_end_of(bpf_get_current_task_btf(), sk, is_send);
	struct call_subject subject = {.cookie = state->cookie, .owner_measured = true};
	u64 *bytes = is_send ? &state->sent_bytes : &state->received_bytes;
	u64 since_ns, unread_ns = UNREAD_UNSEEN;

	if (result > 0 && (is_send || takes_bytes(result, flags)))
		__sync_fetch_and_add(bytes, result);
	if (!is_send && takes_bytes(result, flags)) {
		since_ns = unix_take_unread(sk, now_ns);
		if (since_ns && since_ns < now_ns)
			unread_ns = now_ns - since_ns;
	}
	subject.offset_end = *bytes;
	end.cut |= is_first;
	if (end.batch)
		call_log(&end, sk, &subject, is_send, result, flags, unread_ns, now_ns);
	if (end.wait)
		end.wait->start_ns = 0;
}

/* A call on a UNIX stream socket has ended. */
static __always_inline void unix_on_call(struct sock *sk, bool is_send, int result, int flags)
{
	bool is_recorded = is_asked_for(bpf_get_current_pid_tgid() >> 32), is_first = false;
	struct unix_socket *state;
	u64 now_ns;

	if (select_follow && !is_recorded && READ_ONCE(unix_recorded)) {
		is_first = unix_follow(sk);
		is_recorded = is_first;
	}
	if (!is_recorded && (!is_send || result <= 0 || !READ_ONCE(unix_recorded)))
		return;
	now_ns = bpf_ktime_get_ns();
	if (is_recorded) {
		state = unix_socket_of(sk);
		if (state) {
			unix_describe(state, sk, now_ns);
			unix_log(state, sk, is_send, result, flags, is_first, now_ns);
		}
	}
	if (is_send && result > 0)
		unix_mark_unread(sk, now_ns);
}

/* For Rust, by way of the object's BTF. */
const struct unix_seen wire_unix_seen = {};

#endif
