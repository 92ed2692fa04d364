// SPDX-License-Identifier: GPL-2.0
/*
 * USDT probes: of other programs, wherever the user says. An object of its own, because it is loaded
 * only when the user names a probe, and libbpf's part of it has maps and a look at the kernel's
 * features that nobody else should pay for. It shares `tasks`, which says who is recorded, with the
 * hooks. One program serves all probes; the cookie says which one fired.
 */
#include <linux/ptrace.h>
#include <linux/bpf_perf_event.h>
#include "../bpf/kernel.h"
#define TASKS_OF_ANOTHER
#include "../bpf/select.h"
#include <bpf/usdt.bpf.h>
#include "usdt.h"

char LICENSE[] SEC("license") = "GPL";

_Static_assert(USDT_MOST_ARGUMENTS == BPF_USDT_MAX_ARG_CNT, "usdt.h");
/* Its maps are filled by the libbpf that is linked; those of libbpf before 1.7 have another layout. */
_Static_assert(BPF_USDT_ARG_SIB == 3, "usdt.bpf.h is older than the libbpf that is linked");

/* Puts the wire types into the object's BTF, from which Rust takes them. */
const struct usdt_record wire_usdt_record = {};
const struct usdt_count wire_usdt_count = {};

/*
 * A ring of its own: a program may fire a million times a second, and the records of sockets are not
 * to be lost for that.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} usdt_ring SEC(".maps");

/* probe -> arguments to read; as long as there are probes */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} usdt_arguments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct usdt_count);
} usdt_counts SEC(".maps");

/*
 * Verified by itself: in the loop, the ways through it would multiply, and be too many for Linux 6.1. By the name of its type
 * the verifier takes the first argument for the context, on every architecture.
 */
__noinline int usdt_argument(bpf_user_pt_regs_t *ctx, u64 number, long *value)
{
	return value ? bpf_usdt_arg((struct pt_regs *)ctx, number, value) : -1;
}

static __always_inline void usdt_read(struct pt_regs *ctx, struct usdt_record *record)
{
	for (u32 i = 0; i < USDT_MOST_ARGUMENTS; i++) {
		long value = 0;

		if (i >= record->count)
			break;
		if (usdt_argument((bpf_user_pt_regs_t *)ctx, i, &value))
			record->unread |= 1 << i;
		record->values[i] = value;
	}
}

/* The loss is counted here, the firing before; a thread may be preempted in between. */
static __always_inline void usdt_emit(const struct usdt_record *record, struct usdt_count *count)
{
	u64 bytes = offsetof(struct usdt_record, values) + record->count * sizeof(__s64);

	if (bytes > sizeof(*record) ||
	    bpf_ringbuf_output(&usdt_ring, (void *)record, bytes, BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&count->lost_ring_full, 1);
}

SEC("usdt")
int handle_usdt(struct pt_regs *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	struct usdt_record record = {};
	struct usdt_count *count;
	u32 *arguments;

	record.pid = id >> 32;
	record.tid = (u32)id;
	if (!is_asked_for(record.pid))
		return 0;
	record.probe = bpf_usdt_cookie(ctx);
	arguments = bpf_map_lookup_elem(&usdt_arguments, &record.probe);
	count = bpf_map_lookup_elem(&usdt_counts, &record.probe);
	if (!arguments || !count)
		return 0;
	__sync_fetch_and_add(&count->fired, 1);
	record.time_ns = bpf_ktime_get_ns();
	record.count = *arguments;
	usdt_read(ctx, &record);
	usdt_emit(&record, count);
	return 0;
}
