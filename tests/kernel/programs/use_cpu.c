/*
 * Uses a CPU in two ways for 1.1 s of CPU time each: in its own code, and in the kernel; then sleeps. Prints a line of
 * JSON for each.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CPU_NS 1100000000ULL

static char buffer[1 << 20];
static volatile unsigned long sink;

static unsigned long long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

__attribute__((noinline)) void compute(void)
{
	unsigned long sum = sink;

	for (unsigned long i = 0; i < 10000000; i++)
		sum = sum * 6364136223846793005UL + i;
	sink = sum;
}

__attribute__((noinline)) void read_zeros(void)
{
	static int zero = -1;

	if (zero < 0)
		zero = open("/dev/zero", O_RDONLY);
	for (int i = 0; i < 100; i++)
		if (read(zero, buffer, sizeof(buffer)) != sizeof(buffer))
			exit(1);
}

static void phase(const char *name, void (*use)(void))
{
	unsigned long long start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);

	while (use && now(CLOCK_THREAD_CPUTIME_ID) - cpu < CPU_NS)
		use();
	if (!use)
		nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
	printf("{\"name\": \"%s\", \"start_ns\": %llu, \"end_ns\": %llu, \"cpu_ns\": %llu}\n", name, start,
	       now(CLOCK_MONOTONIC), now(CLOCK_THREAD_CPUTIME_ID) - cpu);
}

int main(void)
{
	phase("compute", compute);
	phase("read_zeros", read_zeros);
	phase("sleep", NULL);
	return 0;
}
