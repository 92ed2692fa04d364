/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Windows: under a budget, calls and waits are recorded in windows only. Between them most of their hooks are not
 * attached, and the others leave after one load. What a hook kept of a thread in an earlier window is void: nobody saw
 * how that went on.
 */
#ifndef WHYLAT_WINDOW_H
#define WHYLAT_WINDOW_H

#include "kernel.h"

const volatile bool has_windows = false;

/* When the present window began; 0: none is open. */
u64 window_since_ns = 0;
/* The same of the latest one. */
u64 window_latest_ns = 0;
/* The present one ends then, if the recorder does not come: others may have the CPUs. */
u64 window_until_ns = 0;
/* When the latest one ended; 0: it has not. */
u64 window_ended_ns = 0;

static __always_inline bool window_is_closed(void)
{
	return has_windows && !READ_ONCE(window_since_ns);
}

/* When the present window began; 0: none is open, or there are none. */
static __always_inline u64 window_begin(void)
{
	return has_windows ? READ_ONCE(window_since_ns) : 0;
}

static __always_inline void window_end(u64 now_ns)
{
	*(volatile u64 *)&window_ended_ns = now_ns;
	*(volatile u64 *)&window_since_ns = 0;
}

/* A batch is full: ends the window if it is time. */
static __always_inline void window_end_if_due(void)
{
	u64 now_ns;

	if (!has_windows || !READ_ONCE(window_since_ns))
		return;
	now_ns = bpf_ktime_get_ns();
	if (now_ns >= READ_ONCE(window_until_ns))
		window_end(now_ns);
}

#endif
