/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Which tasks are recorded: by process with its descendants, by command, by control group, or
 * all. Sockets are chosen from them in inventory.bpf.h. */
#ifndef WHYLAT_SELECT_H
#define WHYLAT_SELECT_H

#include <asm-generic/errno-base.h>

#include "kernel.h"
#include "process.h"

const volatile bool select_all = false;
const volatile u16 select_port = 0; /* host byte order; 0: not by port */
const volatile char select_comm[16] = {};
const volatile u64 select_cgroup_id = 0;
const volatile u32 select_cgroup_level = 0;
const volatile u32 select_netns =
	0; /* with select_all: sockets of this namespace only; 0: of all */

#define TASK_RECORDED 1 /* a process that the user asked for, or its descendant */
#define TASK_PARENT 2	/* only its children are recorded: whylat itself, as it starts a command */
#define TASK_PEER 3	/* holds the other end of a recorded connection */

/* tgid -> TASK_* */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, u8);
} tasks SEC(".maps");

/* Processes that are not recorded because `tasks` is full. */
u64 lost_tasks = 0;

static __always_inline bool is_selected_netns(const struct sock *sk)
{
	return !select_netns || sk->__sk_common.skc_net.net->ns.inum == select_netns;
}

static __always_inline bool in_selected_cgroup(void)
{
	return select_cgroup_id &&
	       bpf_get_current_ancestor_cgroup_id(select_cgroup_level) == select_cgroup_id;
}

/* Is the blocking of this process's threads measured? */
static __always_inline bool is_recorded_task(u32 tgid)
{
	u8 *why;

	if (select_all || select_port)
		return true;
	why = bpf_map_lookup_elem(&tasks, &tgid);
	return why && *why != TASK_PARENT;
}

/* Did the user ask for the process that is running? */
static __always_inline bool is_target(u32 tgid)
{
	u8 *why;

	if (select_all)
		return true;
	why = bpf_map_lookup_elem(&tasks, &tgid);
	return (why && *why == TASK_RECORDED) || in_selected_cgroup();
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

/* The process of a thread. */
static __always_inline void process_fill(struct process_seen *process, struct task_struct *task)
{
	struct task_struct *first = task->group_leader;

	process->started_ns = first->start_time;
	process->pid = task->tgid;
	process->execs = first->self_exec_id;
	bpf_probe_read_kernel(process->comm, sizeof(process->comm), first->comm);
}

static __always_inline void select_task(u32 tgid, u8 why)
{
	long error = bpf_map_update_elem(&tasks, &tgid, &why, BPF_NOEXIST);

	if (error && error != -EEXIST)
		__sync_fetch_and_add(&lost_tasks, 1);
}

/* sched_process_fork: children of recorded processes are recorded. */
static __always_inline void select_on_fork(u32 parent_tgid, u32 child_tgid)
{
	u8 *why;

	if (parent_tgid == child_tgid)
		return;
	why = bpf_map_lookup_elem(&tasks, &parent_tgid);
	if (why && *why != TASK_PEER)
		select_task(child_tgid, TASK_RECORDED);
}

#endif
