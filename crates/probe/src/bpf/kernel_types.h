/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Integers, NULL, and the headers of libbpf that every program needs. */
#ifndef WHYLAT_KERNEL_TYPES_H
#define WHYLAT_KERNEL_TYPES_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#ifndef NULL
#define NULL ((void *)0)
#endif

/* Reads once a value that another CPU may write meanwhile. */
#define READ_ONCE(place) (*(const volatile typeof(place) *)&(place))

/* Writes once a value that another CPU may read meanwhile. */
#define WRITE_ONCE(place, value) (*(volatile typeof(place) *)&(place) = (value))

/*
 * The number of what several words hold, which one CPU writes and another reads. Writers write it before these and after
 * them, readers read it so. AArch64 keeps no order of its own between plain loads and stores.
 */
#ifdef __TARGET_ARCH_arm64
#define WRITE_ORDERED(place, value) ((void)__sync_lock_test_and_set(&(place), value))
#define READ_FIRST(place) __sync_fetch_and_or((u32 *)(unsigned long)&(place), 0)
#define READ_LAST(place) READ_FIRST(place)
#else
#define WRITE_ORDERED(place, value) WRITE_ONCE(place, value)
#define READ_FIRST(place) READ_ONCE(place)
#define READ_LAST(place) READ_ONCE(place)
#endif

#endif /* WHYLAT_KERNEL_TYPES_H */
