/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Counters that a network namespace keeps per CPU (struct linux_mib, `/proc/PID/net/netstat`), read
 * at the same moment as the socket beside which they are needed: when it closes, its process may be
 * gone, and its /proc with it.
 *
 * bpf_per_cpu_ptr() takes only what the kernel's BTF marks as per-CPU, which GCC's does not, and what
 * kallsyms lists, which needs CONFIG_KALLSYMS_ALL. So the distance from a per-CPU address to each
 * CPU's own (per_cpu_offset(), the same for all of them and as long as the host runs) is learned once
 * from a per-CPU array of ours, with both known.
 */
#ifndef WHYLAT_MIB_H
#define WHYLAT_MIB_H

#include "../bpf/kernel.h"
#include "inventory.h"

/*
 * More CPUs than this, and the counters are not read. A CPU costs 16 bytes, and 44 ns at each reading
 * (11,700 readings with 1024 CPUs and with none).
 */
#define MIB_CPUS_MOST 1024

const volatile u32 mib_cpus = 0; /* CPUs with counters that are added up; 0: they are not read */
/* enum without a name in include/uapi/linux/snmp.h; its values differ between kernels */
const volatile u32 mib_listen_overflows = 0;
const volatile u32 mib_syncookies_received = 0;

struct cpu_distance {
	u64 bytes;
	u64 known; /* all bits, or none */
};

struct cpu_distance cpu_distances[MIB_CPUS_MOST] = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} on_each_cpu SEC(".maps");

/* A pointer as a number: read as bytes, because the verifier would not let it be reckoned with. */
static __always_inline u64 as_number(const void *pointer)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &pointer);
	return number;
}

/* Runs on the CPU that is to be learned (BPF_F_TEST_RUN_ON_CPU). */
static __always_inline void learn_cpu_distance(void)
{
	u32 zero = 0, cpu = bpf_get_smp_processor_id();
	u64 map = as_number(&on_each_cpu), common = 0;
	void *own = bpf_map_lookup_elem(&on_each_cpu, &zero);

	if (!own || cpu >= MIB_CPUS_MOST || !bpf_core_field_exists(struct bpf_array, pptrs))
		return;
	map += bpf_core_field_offset(struct bpf_array, pptrs);
	if (bpf_probe_read_kernel(&common, sizeof(common), (void *)map))
		return;
	cpu_distances[cpu].bytes = as_number(own) - common;
	cpu_distances[cpu].known = -1;
}

/*
 * Adds the counters up as snmp_fold_field() does. A CPU that was off when the others were learned adds
 * nothing, which does not matter for growth while it stays off. No branch depends on what is read: the
 * verifier follows every turn of the loop.
 */
static __noinline int mib_read(u64 mibs, struct listener_mib *sums)
{
	u64 overflows = 0, cookies = 0, any = 0, failed = 0, value = 0;
	u32 cpu;

	if (!sums)
		return 0;
	for (cpu = 0; cpu < MIB_CPUS_MOST && cpu < mib_cpus; cpu++) {
		u64 at = mibs + cpu_distances[cpu].bytes, known = cpu_distances[cpu].known;

		any |= known;
		failed |= known & bpf_probe_read_kernel(&value, sizeof(value),
							(void *)(at + 8 * mib_listen_overflows));
		overflows += known & value;
		failed |= known & bpf_probe_read_kernel(&value, sizeof(value),
							(void *)(at + 8 * mib_syncookies_received));
		cookies += known & value;
	}
	sums->listen_overflows = overflows;
	sums->syncookies_received = cookies;
	sums->known = any && !failed;
	return 0;
}

static __always_inline void mib_of(const struct net *net, struct listener_mib *sums)
{
	u64 mibs = 0;

	__builtin_memset(sums, 0, sizeof(*sums));
	if (mib_cpus && bpf_core_field_exists(struct netns_mib, net_statistics) &&
	    !bpf_core_read(&mibs, sizeof(mibs), &net->mib.net_statistics))
		mib_read(mibs, sums);
}

#endif
