/* Shared by the C programs of tests. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Returns CLOCK_MONOTONIC in nanoseconds. */
static inline unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* Ends the program if a call failed. */
static inline void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* Keeps the calling thread on one CPU. */
static inline void run_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	must(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
}
