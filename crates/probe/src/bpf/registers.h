/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Registers of a program that has entered the kernel, from which its callers are found. */
#ifndef WHYLAT_REGISTERS_H
#define WHYLAT_REGISTERS_H

#include <linux/types.h>

struct user_registers {
	__u64 ip; /* where it was */
	__u64 sp;
	__u64 fp; /* of frame pointers, if the program keeps them */
	__u64 lr; /* of the innermost return address; 0: on this architecture it lies on the stack */
};

#endif
