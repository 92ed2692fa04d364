/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Which processes are recorded for a socket's sake: with --port, those that own a socket of that port, and with -p, those
 * that share a listening socket of a recorded process. In: a process that holds a socket. Out: its place in `tasks`.
 */
#ifndef WHYLAT_OWNERS_BPF_H
#define WHYLAT_OWNERS_BPF_H

#include "../bpf/select.h"
#include "../bpf/socket.h"
#include "../bpf/syscall.h"
#include "port.bpf.h"

/* A process holds a socket that is recorded: of its port, if one was asked for. */
static __always_inline void owner_found(u32 tgid)
{
	if (select_port)
		select_task(tgid, TASK_OWNER);
}

/* Descriptors that are examined: of a program with more of them nothing is reported. */
#define OWNER_DESCRIPTORS 256

/* Has the running process a socket of the port? One of more descriptors than are examined may have. */
static __noinline bool owner_has_socket(struct task_struct *task)
{
	for (u32 fd = 0; fd < OWNER_DESCRIPTORS; fd++) {
		struct sock *sk = file_socket(task_file(task, fd));

		if (sk && is_port(KERNEL_READ(struct sock, sk, __sk_common.skc_num),
				  KERNEL_READ(struct sock, sk, __sk_common.skc_dport)))
			return true;
	}
	return task->files->fdt->max_fds > OWNER_DESCRIPTORS;
}

/* The walk over open files: a process holds a listening socket of a target. Does it become one, too? */
static __always_inline bool sharer_found(struct task_struct *task)
{
	struct process_seen process;

	if (!select_sharers)
		return false;
	process_fill(&process, task);
	if (is_service_manager(&process))
		return false;
	select_task(task->tgid, TASK_RECORDED);
	return is_target_task(task);
}

#endif
