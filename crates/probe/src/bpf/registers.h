/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Registers of a program that has entered the kernel, from which its callers are found. */
#ifndef WHYLAT_REGISTERS_H
#define WHYLAT_REGISTERS_H

#include <linux/types.h>

struct user_registers {
	__u64 ip; /* where it was */
	__u64 sp;
	__u64 fp; /* of frame pointers, if the program keeps them */
	__u64 lr; /* link register: the return address until the function calls another; 0: there is none */
};

#endif
