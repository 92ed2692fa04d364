/*
 * preempt CPU THREADS CPU_MS YIELDS: so many threads on one CPU; each uses it for so long, and the first
 * calls sched_yield() so many times meanwhile. Prints a line of JSON for each: what the kernel counted for it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MOST 16

struct counted {
	pthread_t thread;
	int index;
	long tid, switches;
	unsigned long long begin_ns, end_ns, delay_begin_ns, delay_end_ns;
};

static unsigned long long cpu_ns;
static int yields;

static unsigned long long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static unsigned long long delay_ns(void)
{
	unsigned long long ran, delay = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");

	if (!file || fscanf(file, "%llu %llu", &ran, &delay) != 2)
		exit(1);
	fclose(file);
	return delay;
}

static long involuntary(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

/* Both of one moment: no switch came between. */
static void count(struct counted *it)
{
	do {
		it->switches = involuntary();
		it->end_ns = now(CLOCK_MONOTONIC);
	} while (involuntary() != it->switches);
}

static void *use_cpu(void *argument)
{
	struct counted *it = argument;
	unsigned long long used = 0;
	char name[16];
	int yielded = 0;

	snprintf(name, sizeof(name), "hog-%d", it->index);
	prctl(PR_SET_NAME, name);
	it->tid = syscall(SYS_gettid);
	it->delay_begin_ns = delay_ns();
	it->begin_ns = now(CLOCK_MONOTONIC);
	while (used < cpu_ns) {
		used = now(CLOCK_THREAD_CPUTIME_ID);
		if (it->index == 0 && yielded < yields && used / (cpu_ns / (yields + 1)) > yielded) {
			yielded++;
			sched_yield();
		}
	}
	it->delay_end_ns = delay_ns();
	count(it);
	return NULL;
}

int main(int argc, char **argv)
{
	struct counted all[THREADS_MOST] = {};
	int threads = argc == 5 ? atoi(argv[2]) : 0;
	cpu_set_t one;

	if (threads < 1 || threads > THREADS_MOST)
		return 2;
	CPU_ZERO(&one);
	CPU_SET(atoi(argv[1]), &one);
	cpu_ns = atoll(argv[3]) * 1000000ULL;
	yields = atoi(argv[4]);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 1;
	for (int i = 0; i < threads; i++) {
		all[i].index = i;
		if (pthread_create(&all[i].thread, NULL, use_cpu, &all[i]))
			return 1;
	}
	for (int i = 0; i < threads; i++) {
		struct counted *it = &all[i];

		pthread_join(it->thread, NULL);
		printf("{\"name\": \"hog-%d\", \"tid\": %ld, \"switches\": %ld, \"begin_ns\": %llu, \"end_ns\": %llu, "
		       "\"delay_ns\": %llu}\n",
		       i, it->tid, it->switches, it->begin_ns, it->end_ns,
		       it->delay_end_ns - it->delay_begin_ns);
	}
	return 0;
}
