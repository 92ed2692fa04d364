/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Threads, their files and control groups, and what BPF iterators hand over: see kernel.h. */
#ifndef WHYLAT_KERNEL_TASK_H
#define WHYLAT_KERNEL_TASK_H

#include "kernel_net.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/sched.h */
struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
	unsigned long *open_fds;
	unsigned long *full_fds_bits; /* words of open_fds in which all bits are set */
};

struct files_struct {
	struct fdtable *fdt;
};

/* include/uapi/linux/resource.h */
struct rlimit {
	unsigned long rlim_cur;
	unsigned long rlim_max;
};

struct signal_struct {
	struct {
		int counter;
	} live;
	struct rlimit rlim[16];
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
	unsigned long task_size; /* its addresses are below */
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
	unsigned frozen : 1; /* by its control group, version 2 */
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

struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

#endif /* WHYLAT_KERNEL_TASK_H */
