/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Markers by which a program reports its work to whylat: values, tasks and moments, each with the
 * thread and the time. For C and C++ with GCC or clang, on 64-bit Linux (x86-64, AArch64); elsewhere
 * the markers are nothing. Needs no other file and no library: copy it into your sources.
 *
 *	#include "whylat.h"
 *
 *	WHYLAT_TASK_BEGIN(request);
 *	WHYLAT_COUNTER(request_bytes, length);
 *	WHYLAT_MARK(cache_miss, key);
 *	WHYLAT_TASK_END(request);
 *
 *	$ whylat run -u 'whylat:*' -- ./program
 *
 * A marker is a USDT probe of provider `whylat`: an instruction that does nothing, and a note in the
 * ELF file that says where it is and in which register the value then is. Other tracers read the
 * same notes (`readelf -n`). A name is one C identifier; the value is an integer, and evaluated whether
 * a recorder listens or not. Where that costs too much, see WHYLAT_SEMAPHORE.
 */
#ifndef WHYLAT_H
#define WHYLAT_H

/* The counter `name` has this value now. */
#define WHYLAT_COUNTER(name, value) WHYLAT_MARKER_(#name, WHYLAT_KIND_COUNTER_, value, "0")

/* The thread begins a task, and ends the one of this name that it began last. Tasks may be nested. */
#define WHYLAT_TASK_BEGIN(name) WHYLAT_MARKER_(#name, WHYLAT_KIND_BEGIN_, 0, "0")
#define WHYLAT_TASK_END(name) WHYLAT_MARKER_(#name, WHYLAT_KIND_END_, 0, "0")

/* Something happened, and `value` says more about it. */
#define WHYLAT_MARK(name, value) WHYLAT_MARKER_(#name, WHYLAT_KIND_MARK_, value, "0")

/*
 * For values that are expensive to compute: they are computed only while a recorder listens. The semaphore,
 * which the kernel counts up for each listener, is defined once in the source file, outside of
 * functions and namespaces.
 *
 *	WHYLAT_SEMAPHORE(queue_length);
 *	...
 *	WHYLAT_GUARDED_COUNTER(queue_length, count_queue());
 */
#define WHYLAT_SEMAPHORE(name)                                                                     \
	static volatile unsigned short whylat_semaphore_##name                                     \
		WHYLAT_PLACE_OF_SEMAPHORE_("whylat_semaphore_" #name)
#define WHYLAT_ENABLED(name) (whylat_semaphore_##name != 0)
#define WHYLAT_GUARDED_COUNTER(name, value)                                                        \
	do {                                                                                       \
		if (WHYLAT_ENABLED(name))                                                          \
			WHYLAT_MARKER_(#name, WHYLAT_KIND_COUNTER_, value,                         \
				       "whylat_semaphore_" #name);                                 \
	} while (0)
#define WHYLAT_GUARDED_MARK(name, value)                                                           \
	do {                                                                                       \
		if (WHYLAT_ENABLED(name))                                                          \
			WHYLAT_MARKER_(#name, WHYLAT_KIND_MARK_, value,                            \
				       "whylat_semaphore_" #name);                                 \
	} while (0)

/* ---- how it is done; not for use ---- */

/* The first argument of a probe of provider `whylat`; WHYLAT_UNSIGNED_ is added for unsigned values. */
#define WHYLAT_KIND_COUNTER_ 1
#define WHYLAT_KIND_BEGIN_ 2
#define WHYLAT_KIND_END_ 3
#define WHYLAT_KIND_MARK_ 4
#define WHYLAT_UNSIGNED_ 16

#if defined(__linux__) && defined(__GNUC__) && defined(__LP64__) &&                                \
	(defined(__x86_64__) || defined(__aarch64__))

#if defined(__x86_64__)
#define WHYLAT_IMMEDIATE_ "$"
#else
#define WHYLAT_IMMEDIATE_ ""
#endif

/*
 * One byte of nop, on purpose. Linux 6.18 replaces the five-byte one of x86-64 by a call, which costs
 * half as much as a trap, but pushes a return address: it overwrites what a leaf function keeps below its
 * stack pointer (the red zone), and a listened-to program goes wrong.
 *
 * A USDT probe, with its note as SystemTap defines it (sourceware.org/systemtap/wiki,
 * UserSpaceProbeImplementation). `semaphore` is a symbol or 0; `arguments` says of each argument its
 * size, negative if it is signed, and where it is; what follows are the operands of the assembler
 * that it speaks of.
 */
#define WHYLAT_USDT_(provider, name, semaphore, arguments, ...)                                    \
	__asm__ __volatile__("990: nop\n"                                                          \
			     ".pushsection .note.stapsdt, \"?\", \"note\"\n"                        \
			     ".balign 4\n"                                                         \
			     ".4byte 992f-991f, 994f-993f, 3\n"                                     \
			     "991: .asciz \"stapsdt\"\n"                                           \
			     "992: .balign 4\n"                                                    \
			     "993: .8byte 990b\n"                                                  \
			     ".8byte _.stapsdt.base\n"                                             \
			     ".8byte " semaphore "\n"                                              \
			     ".asciz \"" provider "\"\n"                                           \
			     ".asciz \"" name "\"\n"                                               \
			     ".asciz \"" arguments "\"\n"                                          \
			     "994: .balign 4\n"                                                    \
			     ".popsection\n"                                                       \
			     ".ifndef _.stapsdt.base\n"                                            \
			     ".pushsection .stapsdt.base, \"aG\", \"progbits\", "                   \
			     ".stapsdt.base, comdat\n"                                             \
			     ".weak _.stapsdt.base\n"                                              \
			     ".hidden _.stapsdt.base\n"                                            \
			     "_.stapsdt.base: .space 1\n"                                          \
			     ".size _.stapsdt.base, 1\n"                                           \
			     ".popsection\n"                                                       \
			     ".endif\n"                                                            \
			     :                                                                     \
			     : __VA_ARGS__)

#define WHYLAT_KIND_OF_(kind, value)                                                               \
	((kind) + ((__typeof__((value) + 0))-1 < 1 ? 0 : WHYLAT_UNSIGNED_))

/* The type of floating-point numbers in __builtin_classify_type(), which both compilers have. */
#define WHYLAT_REAL_TYPE_ 8

#define WHYLAT_MARKER_(name, kind, value, semaphore)                                               \
	do {                                                                                       \
		__extension__ typedef char whylat_value_is_an_integer                              \
			[__builtin_classify_type(value) == WHYLAT_REAL_TYPE_ ? -1 : 1]             \
			__attribute__((__unused__));                                               \
		WHYLAT_USDT_("whylat", name, semaphore,                                           \
			     "4@" WHYLAT_IMMEDIATE_ "%c[whylat_kind] -8@%[whylat_value]",          \
			     [whylat_kind] "n"(WHYLAT_KIND_OF_(kind, value)),                      \
			     [whylat_value] "nr"((long long)(value)));                             \
	} while (0)

#define WHYLAT_PLACE_OF_SEMAPHORE_(symbol)                                                         \
	__asm__(symbol) __attribute__((__used__, __section__(".probes")))

#else

#define WHYLAT_MARKER_(name, kind, value, semaphore) ((void)(value))
#define WHYLAT_PLACE_OF_SEMAPHORE_(symbol)

#endif

#endif /* WHYLAT_H */
