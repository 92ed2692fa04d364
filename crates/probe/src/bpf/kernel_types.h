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

#endif /* WHYLAT_KERNEL_TYPES_H */
