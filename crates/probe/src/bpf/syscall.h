/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What a thread's saved registers say of the system call that it is in. Reading them where a call
 * blocks or ends costs only the calls that matter; a hook on every entry would cost all.
 */
#ifndef WHYLAT_SYSCALL_H
#define WHYLAT_SYSCALL_H

#include "kernel.h"
#include "registers.h"

/* Of a thread that is in no call of its own: it was made by the kernel for io_uring. */
#define NO_SYSCALL 0x7fffffff

struct syscall_args {
	s64 number; /* negative: in none, but in user space */
	u64 fd;	    /* the first */
	u64 second;
	u64 len; /* the third */
};

#if defined(__TARGET_ARCH_x86)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
	unsigned long orig_ax;
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long r10;
	unsigned long r8;
	unsigned long bp;
	unsigned long ip;
	unsigned long sp;
};
#pragma clang attribute pop

/* arch/x86/entry/syscalls/syscall_64.tbl */
enum {
	SYS_read = 0,
	SYS_write = 1,
	SYS_readv = 19,
	SYS_writev = 20,
	SYS_sched_yield = 24,
	SYS_sendfile = 40,
	SYS_sendto = 44,
	SYS_recvfrom = 45,
	SYS_sendmsg = 46,
	SYS_recvmsg = 47,
	SYS_getsockopt = 55,
	SYS_ppoll = 271,
	SYS_splice = 275,
	SYS_recvmmsg = 299,
	SYS_sendmmsg = 307,
	SYS_preadv2 = 327,
	SYS_pwritev2 = 328,
	SYS_epoll_pwait2 = 441,
};

static __always_inline void syscall_saved(struct task_struct *task, struct syscall_args *args)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	args->number = regs->orig_ax;
	args->fd = regs->di;
	args->second = regs->si;
	args->len = regs->dx;
}

static __always_inline u64 syscall_fourth(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->r10;
}

static __always_inline u64 syscall_fifth(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->r8;
}

static __always_inline void syscall_registers(struct task_struct *task, struct user_registers *user)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	user->ip = regs->ip;
	user->sp = regs->sp;
	user->fp = regs->bp;
	user->lr = 0;
}

/* An address of code, as it lies on a stack; the program's addresses are below `limit`. */
static __always_inline u64 code_address(u64 word, u64 limit)
{
	return word;
}

#elif defined(__TARGET_ARCH_arm64)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 orig_x0;
	s32 syscallno;
};
#pragma clang attribute pop

/* include/uapi/asm-generic/unistd.h */
enum {
	SYS_read = 63,
	SYS_write = 64,
	SYS_readv = 65,
	SYS_writev = 66,
	SYS_sendfile = 71,
	SYS_ppoll = 73,
	SYS_splice = 76,
	SYS_sched_yield = 124,
	SYS_sendto = 206,
	SYS_recvfrom = 207,
	SYS_getsockopt = 209,
	SYS_sendmsg = 211,
	SYS_recvmsg = 212,
	SYS_recvmmsg = 243,
	SYS_sendmmsg = 269,
	SYS_preadv2 = 286,
	SYS_pwritev2 = 287,
	SYS_epoll_pwait2 = 441,
};

static __always_inline void syscall_saved(struct task_struct *task, struct syscall_args *args)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	args->number = regs->syscallno;
	args->fd = regs->orig_x0;
	args->second = regs->regs[1];
	args->len = regs->regs[2];
}

static __always_inline u64 syscall_fourth(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->regs[3];
}

static __always_inline u64 syscall_fifth(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->regs[4];
}

static __always_inline void syscall_registers(struct task_struct *task, struct user_registers *user)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	user->ip = regs->pc;
	user->sp = regs->sp;
	user->fp = regs->regs[29];
	user->lr = regs->regs[30];
}

/*
 * Programs sign return addresses (pointer authentication); the signature is in the bits above the address: those from the
 * limit of the program's addresses on, a power of two (TASK_SIZE_64 in arch/arm64/include/asm/processor.h).
 */
static __always_inline u64 code_address(u64 word, u64 limit)
{
	return word & (limit - 1);
}

#else
#error "syscall.h: add the registers and numbers of this architecture"
#endif

/* The registers of a thread of io_uring are a copy: they report the call in which it was made. */
static __always_inline void syscall_read(struct task_struct *task, struct syscall_args *args)
{
	syscall_saved(task, args);
	if (task->flags & PF_IO_WORKER)
		args->number = NO_SYSCALL;
}

static __always_inline bool is_plain_call(s64 number)
{
	return number == SYS_read || number == SYS_write || number == SYS_sendto ||
	       number == SYS_recvfrom;
}

static __always_inline bool is_vector_call(s64 number)
{
	return number == SYS_readv || number == SYS_writev || number == SYS_sendmsg ||
	       number == SYS_recvmsg || number == SYS_sendmmsg || number == SYS_recvmmsg ||
	       number == SYS_preadv2 || number == SYS_pwritev2;
}

/* From a file or a pipe to a socket. */
static __always_inline bool is_copying_call(s64 number)
{
	return number == SYS_sendfile || number == SYS_splice;
}

static __always_inline bool is_socket_call(s64 number)
{
	return is_plain_call(number) || is_vector_call(number) || is_copying_call(number);
}

/* The file of a thread's descriptor, NULL if it is none. */
static __always_inline struct file *task_file(struct task_struct *task, u64 fd)
{
	struct fdtable *fdt = KERNEL_POINTER(struct task_struct, task, files)->fdt;

	return fd < fdt->max_fds ? KERNEL_READ_POINTER(&fdt->fd[fd]) : NULL;
}

/* Type of a file: S_IFSOCK and so on; 0 for one without a place. */
static __always_inline u16 file_type(const struct file *file)
{
	struct inode *inode = KERNEL_READ(struct file, file, f_inode);

	return KERNEL_READ(struct inode, inode, i_mode) & S_IFMT;
}

static __always_inline u64 file_inode(const struct file *file)
{
	struct inode *inode = KERNEL_READ(struct file, file, f_inode);

	return KERNEL_READ(struct inode, inode, i_ino);
}

/* The device of a regular file's file system, or that a block device is; 0: it is none of both. */
static __always_inline u32 file_device(const struct file *file, u16 type)
{
	struct inode *inode = KERNEL_READ(struct file, file, f_inode);
	struct super_block *super;

	if (type == S_IFBLK)
		return KERNEL_READ(struct inode, inode, i_rdev);
	if (type != S_IFREG)
		return 0;
	super = KERNEL_READ(struct inode, inode, i_sb);
	return KERNEL_READ(struct super_block, super, s_dev);
}

/* The socket of a file that is one. */
static __always_inline struct sock *socket_of(const struct file *file)
{
	struct socket *socket = KERNEL_READ(struct file, file, private_data);

	return KERNEL_READ(struct socket, socket, sk);
}

/* The socket that a file is, NULL if it is none. */
static __always_inline struct sock *file_socket(const struct file *file)
{
	if (!file || file_type(file) != S_IFSOCK)
		return NULL;
	return socket_of(file);
}

/* Does a thread wait for room in the send buffer (sk_stream_wait_memory())? */
static __always_inline bool has_no_space(const struct sock *sk)
{
	struct socket *socket = KERNEL_READ(struct sock, (void *)sk, sk_socket);

	return KERNEL_READ(struct socket, socket, flags) & (1UL << SOCK_NOSPACE);
}

/*
 * The socket that a thread sends to or receives from in this call; NULL: none. A call that copies may wait for what it
 * copies from, which is not the socket's doing; and where a splice takes from is no receive call.
 */
static __always_inline struct sock *call_socket(struct task_struct *task,
						const struct syscall_args *args)
{
	u64 fd = args->number == SYS_splice ? args->len : args->fd;
	struct sock *sk;

	if (!is_socket_call(args->number))
		return NULL;
	sk = file_socket(task_file(task, fd));
	return sk && is_copying_call(args->number) && !has_no_space(sk) ? NULL : sk;
}

/* A ring may move bytes of any socket at the end of any call. */
static __always_inline bool has_ring(const struct task_struct *task)
{
	return bpf_core_field_exists(task->io_uring) &&
	       KERNEL_POINTER(struct task_struct, task, io_uring);
}

/* Bytes that the call on this socket offers or has room for; -1 if its registers do not say. */
static __always_inline s64 asked_bytes(struct task_struct *task, const struct sock *sk)
{
	struct syscall_args args;

	syscall_read(task, &args);
	if (!is_plain_call(args.number) ||
	    (has_ring(task) && file_socket(task_file(task, args.fd)) != sk))
		return -1;
	return (u32)args.len;
}

#endif
