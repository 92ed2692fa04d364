/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The kernel types that the probes read: only the fields used, found in the running kernel by
 * CO-RE relocation. Order and offsets here mean nothing. A field that some supported kernel
 * does not have is read behind bpf_core_field_exists().
 */
#ifndef WHYLAT_KERNEL_H
#define WHYLAT_KERNEL_H

#include "kernel_constants.h"
#include "kernel_net.h"
#include "kernel_task.h"
#include "kernel_types.h"

/*
 * A socket's storage, made if there is none. bpf_sk_storage_get() gives none where another CPU has just
 * made the socket's first storage of any kind (EAGAIN), or this one (EEXIST): each once at most.
 */
static __always_inline void *sk_storage_made(void *map, void *sk)
{
	void *storage = NULL;

	for (int i = 0; i < 3 && !storage; i++)
		storage = bpf_sk_storage_get(map, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	return storage;
}

/* a - b on the sequence number circle (include/net/tcp.h: before()) */
static __always_inline s32 seq_diff(u32 a, u32 b)
{
	return (s32)(a - b);
}

/* kernel/bpf/helpers.c; Linux 6.2 */
extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/*
 * A field of what an untrusted pointer leads to; zero if it leads nowhere. Where the kernel can show
 * the pointer's type to its verifier this is one load, and else a call.
 */
#define KERNEL_READ(type, pointer, field)                                                          \
	(bpf_ksym_exists(bpf_rdonly_cast)                                                          \
		 ? ((type *)bpf_rdonly_cast((pointer), bpf_core_type_id_kernel(type)))->field      \
		 : BPF_CORE_READ((type *)(pointer), field))

/*
 * A pointer in a struct that the verifier trusts, to be compared, or followed by what reads untrusted ones. For each
 * plain load of one, on each path, verifiers of Linux 6.2 to 6.18 look four times for a name among all types of the
 * kernel, a millisecond in all: a third of what loading took. The plain load is as fast where they do not.
 */
#define KERNEL_POINTER(type, pointer, field)                                                       \
	(bpf_ksym_exists(bpf_rdonly_cast)                                                          \
		 ? ((type *)bpf_rdonly_cast((pointer), bpf_core_type_id_kernel(type)))->field      \
		 : (pointer)->field)

/*
 * The pointer that lies at an untrusted place, as a number, which the verifier lets be mixed and
 * compared: the first field of a struct of the kernel that has 64 bits and is no pointer.
 */
#define KERNEL_READ_POINTER(at) ((void *)KERNEL_READ(struct timespec64, at, tv_sec))

/* The number of a socket's network namespace. */
static __always_inline u32 netns_of(const struct sock *sk)
{
	return KERNEL_POINTER(struct sock, sk, __sk_common.skc_net.net)->ns.inum;
}

/* When the process of a thread began. */
static __always_inline u64 process_started_ns(const struct task_struct *task)
{
	return KERNEL_POINTER(struct task_struct, task, group_leader)->start_time;
}

#endif /* WHYLAT_KERNEL_H */
