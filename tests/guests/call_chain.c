/* A thread that waits in chains of functions: main() calls first() or second(), and both call take(). That calls no other
 * function, so that on AArch64 it does not store its return address. Then main() calls outer(), and that signed_wait(),
 * which has called another function before it waits. The argument is how many times it waits in each chain; each time,
 * another process writes a byte 20 ms after the thread is blocked. Markers report the number of the round, and a task for
 * each. */
#include "whylat.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long it waits, and the time between two looks at it. */
#define PAUSE_US 20000
#define LOOK_US 1000

static char byte;

/* read(2) within the function itself. */
__attribute__((always_inline)) static inline long read_byte(long fd)
{
#if defined(__x86_64__)
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_read), "D"(fd), "S"(&byte), "d"(1L)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_read;
	register long result __asm__("x0") = fd;
	register char *into __asm__("x1") = &byte;
	register long length __asm__("x2") = 1;

	__asm__ volatile("svc 0" : "+r"(result) : "r"(number), "r"(into), "r"(length) : "memory");
	return result;
#else
#error "call_chain.c: add the system call of this architecture"
#endif
}

__attribute__((noinline)) static long take(long fd)
{
	return read_byte(fd);
}

/* Their results are used, so that neither call is the last thing that the function does. */
__attribute__((noinline)) static long first(long fd)
{
	return take(fd) + byte;
}

__attribute__((noinline)) static long second(long fd)
{
	return take(fd) - byte;
}

/* Whether return addresses are signed (pointer authentication). */
#if defined(__aarch64__)
#define SIGNATURE(kind) target("branch-protection=" kind),
#else
#define SIGNATURE(kind)
#endif

__attribute__((noinline)) static long half(long number)
{
	__asm__ volatile("" : "+r"(number));
	return number / 2;
}

/* The link register leads into it when it waits, and its frame has more than that and the frame pointer. */
__attribute__((SIGNATURE("pac-ret") noinline)) static long signed_wait(long fd)
{
	volatile long room[24];

	room[half(fd)] = half(fd);
	return read_byte(fd) + room[half(fd)] - half(fd);
}

/* Its return address is not signed, and lies where the stack pointer shows. */
__attribute__((SIGNATURE("none") noinline)) static long outer(long fd)
{
	volatile long room[32];

	room[fd] = 1;
	return signed_wait(fd) - room[fd];
}

/* Whether a process sleeps until it is woken: proc_pid_stat(5), after the name in brackets. */
static int is_blocked(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		exit(1);
	fclose(file);
	return state == 'S';
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1, ends[2];
	long sum = 0;
	pid_t writer;

	if (pipe(ends) || (writer = fork()) < 0)
		return 1;
	if (!writer) {
		for (int i = 0; i < 3 * rounds; i++) {
			while (!is_blocked(getppid()))
				usleep(LOOK_US);
			usleep(PAUSE_US);
			if (write(ends[1], "1", 1) != 1)
				return 1;
		}
		return 0;
	}
	for (int i = 0; i < rounds; i++) {
		WHYLAT_TASK_BEGIN(both);
		WHYLAT_COUNTER(round, i);
		sum += first(ends[0]) + second(ends[0]) + outer(ends[0]);
		WHYLAT_TASK_END(both);
	}
	printf("%ld\n", sum);
	return waitpid(writer, NULL, 0) != writer || sum != 2L * rounds;
}
