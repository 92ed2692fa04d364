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

/* Service managers hold the sockets of services that they start, and start much else. */
static __always_inline bool is_service_manager(struct task_struct *task)
{
	const char manager[] = "systemd"; /* that of a user, too */
	char comm[16];

	if (task->tgid == 1)
		return true;
	if (bpf_probe_read_kernel(comm, sizeof(comm), task->group_leader->comm))
		return false;
	for (u32 i = 0; i < sizeof(manager); i++) {
		if (comm[i] != manager[i])
			return false;
	}
	return true;
}

/* The walk over open files: a process holds a listening socket of a target. Does it become one, too? */
static __always_inline bool sharer_found(struct task_struct *task)
{
	if (!select_sharers || is_service_manager(task))
		return false;
	select_task(task->tgid, TASK_RECORDED);
	return is_target_task(task);
}

#endif
