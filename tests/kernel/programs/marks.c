/* Reports values and spans by USDT probes, and prints on stdout what it reported, for tests/kernel/usdt.rs. C and C++. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "whylat.h"

typedef unsigned long long number;

#ifdef LIBRARY
/* The other half of the program, as a library. */
void library_fire(long value);

void library_fire(long value)
{
	WHYLAT_USDT_("library", "call", "0", "-8@%[value]", [value] "nr"(value));
}
#else

WHYLAT_SEMAPHORE(queue);

/* As systemtap-sdt-dev's sys/sdt.h does it: a probe with a semaphore, arguments of several sizes. */
static volatile unsigned short app_guarded_semaphore __asm__("app_guarded_semaphore")
	__attribute__((used, section(".probes")));

static number now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void say(number begin_ns, long tid, long other, long computed)
{
	printf("{\"pid\":%d,\"tids\":[%ld,%ld],\"begin_ns\":%llu,\"end_ns\":%llu,\"computed\":%ld}\n",
	       getpid(), tid, other, begin_ns, now_ns(), computed);
	fflush(stdout);
}

static void *fire(void *rounds)
{
	for (long round = 1; round <= *(long *)rounds; round++) {
		WHYLAT_TASK_BEGIN(work);
		WHYLAT_COUNTER(sent, round);
		WHYLAT_TASK_END(work);
	}
	return (void *)syscall(SYS_gettid);
}

/* A function that calls no other may keep variables below the stack pointer: a listener must not touch
 * them. */
__attribute__((noinline)) static long leaf(long rounds)
{
	long round = 0, kept = 0;

	while (round < rounds && kept == round) {
#if defined(__x86_64__)
		__asm__ __volatile__("movq %0, -8(%%rsp)" : : "r"(++round) : "memory");
		WHYLAT_COUNTER(leaf, round);
		__asm__ __volatile__("movq -8(%%rsp), %0" : "=r"(kept) : : "memory");
#else
		WHYLAT_COUNTER(leaf, round);
		kept = ++round;
#endif
	}
	return kept;
}

static int leaves(long rounds)
{
	number begin_ns = now_ns();

	say(begin_ns, syscall(SYS_gettid), 0, leaf(rounds));
	return 0;
}

static int values(long rounds)
{
	number begin_ns = now_ns();

	say(begin_ns, (long)fire(&rounds), 0, 0);
	return 0;
}

static int threads(long rounds)
{
	number begin_ns = now_ns();
	pthread_t one, other;
	void *tids[2];

	pthread_create(&one, NULL, fire, &rounds);
	pthread_create(&other, NULL, fire, &rounds);
	pthread_join(one, &tids[0]);
	pthread_join(other, &tids[1]);
	say(begin_ns, (long)tids[0], (long)tids[1], 0);
	return 0;
}

/* One of each kind. */
static int kinds(void)
{
	uint64_t most = UINT64_MAX;
	int8_t least = INT8_MIN;
	number begin_ns = now_ns();

	WHYLAT_COUNTER(most, most);
	WHYLAT_COUNTER(least, least);
	WHYLAT_COUNTER(constant, 17u);
	WHYLAT_MARK(miss, 5);
	WHYLAT_TASK_BEGIN(outer);
	WHYLAT_TASK_BEGIN(inner);
	WHYLAT_TASK_END(inner);
	WHYLAT_TASK_END(outer);
	WHYLAT_TASK_BEGIN(never_ends);
	WHYLAT_TASK_END(never_began);
	say(begin_ns, syscall(SYS_gettid), 0, 0);
	return 0;
}

static long computed;

static long compute(void)
{
	return ++computed;
}

/* Fires only while a recorder listens. */
static int guarded(long rounds)
{
	number begin_ns = now_ns();

	for (long round = 1; round <= rounds; round++) {
		WHYLAT_GUARDED_COUNTER(queue, compute());
		if (app_guarded_semaphore) {
			uint32_t bytes = UINT32_MAX - (uint32_t)round;
			int16_t left = (int16_t)-round;

			WHYLAT_USDT_("app", "guarded", "app_guarded_semaphore",
				     "4@%[bytes] 8@%[unused] -2@%[left]", [bytes] "r"(bytes),
				     [unused] "r"(begin_ns), [left] "m"(left));
		}
	}
	say(begin_ns, syscall(SYS_gettid), app_guarded_semaphore, computed);
	return 0;
}

/* A child by fork, and one that is another program, but the same file. */
static int children(const char *self, long rounds)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", rounds);
	for (int kind = 0; kind < 2; kind++) {
		pid_t child = fork();

		if (child == 0 && kind == 0)
			_exit(values(rounds));
		if (child == 0)
			execl(self, self, "values", text, (char *)NULL);
		waitpid(child, NULL, 0);
	}
	return values(rounds);
}

/* Fires when it reads a byte, after it has printed that it waits for it. */
static int on_go(int (*then)(long rounds), long rounds)
{
	char go;

	say(now_ns(), syscall(SYS_gettid), app_guarded_semaphore, 0);
	return read(0, &go, 1) == 1 ? then(rounds) : 1;
}

#ifdef WITH_LIBRARY
void library_fire(long value);

static int library(long rounds)
{
	number begin_ns = now_ns();

	for (long round = 1; round <= rounds; round++)
		library_fire(-round);
	say(begin_ns, syscall(SYS_gettid), 0, 0);
	return 0;
}
#endif

/* CPU time of a marker: the least and the median of many attempts, whatever else the machine does. */
#define ATTEMPTS 201

static number cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static int compare(const void *one, const void *other)
{
	number a = *(const number *)one, b = *(const number *)other;

	return (a > b) - (a < b);
}

static int cost(long rounds)
{
	number took_ns[ATTEMPTS];

	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		number begin_ns = cpu_ns();

		for (long round = 1; round <= rounds; round++)
			WHYLAT_COUNTER(sent, round);
		took_ns[attempt] = cpu_ns() - begin_ns;
	}
	qsort(took_ns, ATTEMPTS, sizeof(*took_ns), compare);
	printf("{\"least_ns\":%.2f,\"median_ns\":%.2f}\n", (double)took_ns[0] / rounds,
	       (double)took_ns[ATTEMPTS / 2] / rounds);
	return 0;
}

int main(int argc, char **argv)
{
	long rounds = argc > 2 ? atol(argv[2]) : 0;
	const char *mode = argc > 1 ? argv[1] : "";

#ifdef WITH_LIBRARY
	if (!strcmp(mode, "library"))
		return library(rounds);
#endif
	if (!strcmp(mode, "values"))
		return values(rounds);
	if (!strcmp(mode, "leaves"))
		return leaves(rounds);
	if (!strcmp(mode, "threads"))
		return threads(rounds);
	if (!strcmp(mode, "kinds"))
		return kinds();
	if (!strcmp(mode, "guarded"))
		return guarded(rounds);
	if (!strcmp(mode, "children"))
		return children(argv[0], rounds);
	if (!strcmp(mode, "on_go"))
		return on_go(values, rounds);
	if (!strcmp(mode, "guarded_on_go"))
		return on_go(guarded, rounds);
	if (!strcmp(mode, "cost"))
		return cost(rounds);
	fprintf(stderr, "usage: marks MODE ROUNDS\n");
	return 2;
}
#endif
