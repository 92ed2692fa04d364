/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Which processes are recorded: those that were named and their descendants, those of a command name, those in a
 * control group, those that own sockets of a port, or all; never whylat itself. Most are in a map, by process id, which
 * the hooks of fork, exec and exit keep; whether one is in the control group is asked when it matters, because processes
 * move. Sockets are chosen from them in inventory.bpf.h.
 */
#ifndef WHYLAT_SELECT_H
#define WHYLAT_SELECT_H

#include <asm-generic/errno-base.h>

#include "kernel.h"
#include "process.h"

const volatile bool select_all = false;
const volatile bool select_sharers = false; /* also who shares a recorded listening socket */
const volatile u32 select_follow = 0; /* also who serves recorded connections: so many at a time */
const volatile u16 select_port = 0;   /* host byte order; 0: not by port */
const volatile char select_comm[16] = {};
const volatile u64 select_cgroup_id = 0;
const volatile u32 select_cgroup_level = 0;
const volatile u32 select_netns =
	0; /* with select_all: sockets of this namespace only; 0: of all */

#define TASK_RECORDED 1 /* a process that the user asked for, or its descendant */
#define TASK_PARENT 2	/* only its children are recorded: whylat itself, as it starts a command */
#define TASK_PEER                                                                                  \
	3 /* holds the other end of a recorded connection: its blocking is measured, not reported */
#define TASK_OWNER                                                                                 \
	4 /* owns, or owned, a socket of the port: it is recorded, its other sockets are not */
#define TASK_OWN 5 /* whylat itself, and what helps it: never recorded */
#define TASK_FOLLOWED                                                                              \
	6 /* serves a recorded connection: recorded as one that was asked for, its children are not */
#define TASK_LEFT_OUT 7 /* would be followed, were there not so many: else as a peer */

/* tgid -> TASK_* */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, u8);
} tasks SEC(".maps");

/*
 * By the low bits of a process id: may it be in `tasks`? Set before it gets there, and for good. Most processes of a host
 * are not there, which their calls and waits find out with one load. An object that only shares the map does not know.
 */
#define TASK_NUMBERS 32768

#ifdef TASKS_OF_ANOTHER
static __always_inline bool task_may_be_known(u32 tgid)
{
	return true;
}

static __always_inline void task_note(u32 tgid)
{
}
#else
u8 tasks_noted[TASK_NUMBERS] = {};

static __always_inline bool task_may_be_known(u32 tgid)
{
	return READ_ONCE(tasks_noted[tgid & (TASK_NUMBERS - 1)]);
}

static __always_inline void task_note(u32 tgid)
{
	*(volatile u8 *)&tasks_noted[tgid & (TASK_NUMBERS - 1)] = 1;
}
#endif

static __always_inline long task_put(u32 tgid, u8 why, u64 flags)
{
	task_note(tgid);
	return bpf_map_update_elem(&tasks, &tgid, &why, flags);
}

/* Processes that are not recorded because `tasks` is full. */
u64 lost_tasks = 0;

/* Processes that are followed now, and all that were; those that were left out, at least for a time. */
u32 followed_now = 0;
u64 followed = 0;
u64 follow_left_out = 0;

static __always_inline bool is_selected_netns(const struct sock *sk)
{
	return !select_netns || netns_of(sk) == select_netns;
}

static __always_inline bool in_selected_cgroup(void)
{
	return select_cgroup_id &&
	       bpf_get_current_ancestor_cgroup_id(select_cgroup_level) == select_cgroup_id;
}

/* The same of any task. Up to Linux 6.0 a control group has the ids of those above it, since then their addresses. */
static __always_inline bool is_in_selected_cgroup(struct task_struct *task)
{
	struct cgroup *group = task->cgroups->dfl_cgrp, *above = NULL;
	u32 at = select_cgroup_level * sizeof(u64);
	u64 id = 0;

	if ((u32)group->level < select_cgroup_level)
		return false;
	if (bpf_core_field_exists(group->ancestors)) {
		at += bpf_core_field_offset(group->ancestors);
		if (bpf_probe_read_kernel(&above, sizeof(above), (void *)group + at))
			return false;
		return BPF_CORE_READ(above, kn, id) == select_cgroup_id;
	}
	at += bpf_core_field_offset(((struct cgroup___6_0 *)group)->ancestor_ids);
	bpf_probe_read_kernel(&id, sizeof(id), (void *)group + at);
	return id == select_cgroup_id;
}

/* TASK_*; 0: it is not known. */
static __always_inline u8 task_why(u32 tgid)
{
	u8 *why;

	if (!task_may_be_known(tgid))
		return 0;
	why = bpf_map_lookup_elem(&tasks, &tgid);
	return why ? *why : 0;
}

/*
 * Is it recorded for the sake of connections that it serves alone? Its listening sockets are not chosen: what others open
 * there leads to processes that share them.
 */
static __always_inline bool is_followed(u32 tgid)
{
	return select_follow && task_why(tgid) == TASK_FOLLOWED;
}

/* Did the user ask for the running process, with this entry in `tasks`? Then its waits are recorded. */
static __always_inline bool is_asked_why(u8 why)
{
	if (select_all || in_selected_cgroup())
		return why != TASK_OWN;
	return why == TASK_RECORDED || why == TASK_OWNER || why == TASK_FOLLOWED;
}

static __always_inline bool is_asked_for(u32 tgid)
{
	return is_asked_why(task_why(tgid));
}

/* Does it hold the other end of a recorded connection, and no more? */
static __always_inline bool is_peer_why(u8 why)
{
	return why == TASK_PEER || why == TASK_LEFT_OUT;
}

/* Is the blocking of the running process's threads measured? */
static __always_inline bool is_measured(u32 tgid)
{
	u8 why = task_why(tgid);

	return is_asked_why(why) || is_peer_why(why);
}

/* Did the user ask for all sockets of the running process? */
static __always_inline bool is_target(u32 tgid)
{
	u8 why = task_why(tgid);

	if (select_all || in_selected_cgroup())
		return why != TASK_OWN;
	return why == TASK_RECORDED || why == TASK_FOLLOWED;
}

static __always_inline bool is_target_current(void)
{
	return is_target(bpf_get_current_pid_tgid() >> 32);
}

static __always_inline bool is_selected_comm(const char *comm)
{
	if (!select_comm[0])
		return false;
	for (int i = 0; i < 16; i++) {
		if (comm[i] != select_comm[i])
			return false;
		if (!comm[i])
			break;
	}
	return true;
}

/* The same of any process. */
static __always_inline bool is_target_task(struct task_struct *task)
{
	u8 why = task_why(task->tgid);

	if (select_all || (select_cgroup_id && is_in_selected_cgroup(task)))
		return why != TASK_OWN;
	return why == TASK_RECORDED || why == TASK_FOLLOWED;
}

/* The process of a thread. */
static __always_inline void process_fill(struct process_seen *process, struct task_struct *task)
{
	struct task_struct *first = KERNEL_POINTER(struct task_struct, task, group_leader);

	process->started_ns = first->start_time;
	process->pid = task->tgid;
	process->execs = first->self_exec_id;
	bpf_probe_read_kernel(process->comm, sizeof(process->comm), first->comm);
}

/* A process that is asked for is more than a peer. */
static __always_inline void select_task(u32 tgid, u8 why)
{
	u8 *before = bpf_map_lookup_elem(&tasks, &tgid);
	long error;

	if (before) {
		if (is_peer_why(*before) && why != TASK_PEER)
			*before = why;
		return;
	}
	error = task_put(tgid, why, BPF_NOEXIST);
	if (error && error != -EEXIST)
		__sync_fetch_and_add(&lost_tasks, 1);
}

/* Service managers hold the sockets of services that they start, and start much else. */
static __always_inline bool is_service_manager(const struct process_seen *process)
{
	const char manager[] = "systemd"; /* that of a user, too */

	if (process->pid == 1)
		return true;
	for (u32 i = 0; i < sizeof(manager); i++) {
		if (process->comm[i] != manager[i])
			return false;
	}
	return true;
}

#ifndef TASKS_OF_ANOTHER
/* Notes that a process is not followed, because so many are. */
static __always_inline void follow_leave_out(u32 tgid)
{
	u8 *before = bpf_map_lookup_elem(&tasks, &tgid);

	if (before && *before == TASK_LEFT_OUT)
		return;
	if (before)
		*before = TASK_LEFT_OUT;
	else if (task_put(tgid, TASK_LEFT_OUT, BPF_NOEXIST))
		return;
	__sync_fetch_and_add(&follow_left_out, 1);
}

/*
 * A process serves a connection that a recorded one has opened: it is recorded from now on, if there is room. Of several
 * CPUs that find it at once, one puts it into the map, and counts it. Returns whether that was this one.
 */
__noinline u32 follow_process(struct process_seen *process)
{
	u32 tgid;
	u8 *before;
	long error;

	if (!process || !select_follow || is_service_manager(process))
		return 0;
	tgid = process->pid;
	before = bpf_map_lookup_elem(&tasks, &tgid);
	if (before && !is_peer_why(*before))
		return 0;
	if (__sync_fetch_and_add(&followed_now, 1) >= select_follow) {
		__sync_fetch_and_add(&followed_now, -1);
		follow_leave_out(tgid);
		return 0;
	}
	error = before ? bpf_map_delete_elem(&tasks, &tgid) : 0;
	if (!error)
		error = task_put(tgid, TASK_FOLLOWED, BPF_NOEXIST);
	if (!error) {
		__sync_fetch_and_add(&followed, 1);
		return 1;
	}
	__sync_fetch_and_add(&followed_now, -1);
	if (error != -EEXIST && error != -ENOENT)
		__sync_fetch_and_add(&lost_tasks, 1);
	return 0;
}
#endif

/* A process has ended. */
static __always_inline void task_end(u32 tgid)
{
	u8 why = task_why(tgid);

	if (why && !bpf_map_delete_elem(&tasks, &tgid) && why == TASK_FOLLOWED)
		__sync_fetch_and_add(&followed_now, -1);
}

/*
 * sched_process_fork: children are recorded with their parent; they inherit its sockets, too. Those of one that is only
 * followed are found by the connections that they serve.
 */
static __always_inline void select_on_fork(u32 parent_tgid, u32 child_tgid)
{
	u8 why = task_why(parent_tgid);

	if (parent_tgid == child_tgid || !why || is_peer_why(why) || why == TASK_FOLLOWED)
		return;
	select_task(child_tgid, why == TASK_PARENT ? TASK_RECORDED : why);
}

#endif
