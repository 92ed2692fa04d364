/* Reports values and spans by the ITT API, and prints on stdout what it reported, for tests/kernel/itt.rs. */

#include <ittnotify.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long number;

static const __itt_id none = {0, 0, 0};
static __itt_counter sent, balance, ratio;

static number now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void create(void)
{
	static __itt_context_metadata unit = {__itt_context_unitsA, "bytes"};

	sent = __itt_counter_create_typed("sent", "whylat.test", __itt_metadata_u64);
	balance = __itt_counter_create_typed("balance", "whylat.test", __itt_metadata_s64);
	ratio = __itt_counter_create_typed("ratio", "whylat.test", __itt_metadata_double);
	__itt_bind_context_metadata_to_counter(sent, 1, &unit);
}

/* Three values a round; returns the thread's id. */
static void *set_values(void *rounds)
{
	for (uint64_t round = 1; round <= *(uint64_t *)rounds; round++) {
		uint64_t u64 = UINT64_MAX - round;
		int64_t s64 = INT64_MIN + (int64_t)round;
		double f64 = (double)round / 7;

		__itt_counter_set_value(sent, &u64);
		__itt_counter_set_value(balance, &s64);
		__itt_counter_set_value(ratio, &f64);
	}
	return (void *)syscall(SYS_gettid);
}

static void say(number begin_ns, long one, long other)
{
	printf("{\"pid\":%d,\"tids\":[%ld,%ld],\"begin_ns\":%llu,\"end_ns\":%llu}\n", getpid(), one,
	       other, begin_ns, now_ns());
	fflush(stdout);
}

static int values(uint64_t rounds)
{
	pthread_t thread;
	void *other;
	number begin_ns = now_ns();

	create();
	pthread_create(&thread, NULL, set_values, &rounds);
	void *own = set_values(&rounds);
	pthread_join(thread, &other);
	say(begin_ns, (long)own, (long)other);
	return 0;
}

/* Prints that it is ready, and begins when it reads a byte. */
static int on_go(uint64_t rounds, int is_killed)
{
	char byte;

	create();
	set_values(&(uint64_t){1});
	say(now_ns(), (long)syscall(SYS_gettid), 0);
	if (read(0, &byte, 1) != 1)
		return 1;
	number begin_ns = now_ns();
	void *own = set_values(&rounds);
	say(begin_ns, (long)own, 0);
	if (is_killed)
		raise(SIGKILL);
	return 0;
}

static __itt_domain *domain;
static __itt_id far_id;

static void *end_far(void *unused)
{
	(void)unused;
	__itt_task_end_overlapped(domain, far_id);
	return (void *)syscall(SYS_gettid);
}

/* Spans of each kind, with the times around the outer task's calls. */
static int spans(void)
{
	pthread_t thread;
	void *other;
	number at[4];
	domain = __itt_domain_create("whylat.test");
	__itt_string_handle *outer = __itt_string_handle_create("outer");
	__itt_string_handle *inner = __itt_string_handle_create("inner");
	__itt_string_handle *size = __itt_string_handle_create("size");
	__itt_id id = __itt_id_make((void *)0x10, 1);

	at[0] = now_ns();
	__itt_task_begin(domain, id, none, outer);
	at[1] = now_ns();
	__itt_metadata_add(domain, id, size, __itt_metadata_u64, 1, &(uint64_t){UINT64_MAX});
	__itt_task_begin(domain, none, id, inner);
	__itt_task_end(domain);
	at[2] = now_ns();
	__itt_task_end(domain);
	at[3] = now_ns();
	far_id = __itt_id_make((void *)0x20, 2);
	__itt_task_begin_overlapped(domain, far_id, id, outer);
	pthread_create(&thread, NULL, end_far, NULL);
	pthread_join(thread, &other);
	__itt_region_begin(domain, id, none, inner);
	__itt_region_end(domain, id);
	__itt_frame_begin_v3(domain, NULL);
	__itt_frame_end_v3(domain, NULL);
	__itt_marker(domain, none, inner, __itt_scope_task);
	__itt_task_begin(domain, none, none, inner);
	printf("[%llu,%llu,%llu,%llu]\n", at[0], at[1], at[2], at[3]);
	say(at[0], (long)syscall(SYS_gettid), (long)other);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;

	if (strcmp(mode, "values") == 0)
		return values(rounds);
	if (strcmp(mode, "on_go") == 0)
		return on_go(rounds, 0);
	if (strcmp(mode, "killed") == 0)
		return on_go(rounds, 1);
	if (strcmp(mode, "spans") == 0)
		return spans();
	return 125;
}
