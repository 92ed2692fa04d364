/* An instrumented program. The first argument says what it does; each expects to be recorded,
 * or not, by the test of the same name in ../calls.rs or ../life.rs. Returns 0 if the API did
 * what it promises to the program. */

#include <dlfcn.h>
#include <ittnotify.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAIL_UNLESS(condition) do { if (!(condition)) return __LINE__ % 120 + 1; } while (0)

static const __itt_id none = {0, 0, 0};

static void set_u64(__itt_counter counter, uint64_t value)
{
	__itt_counter_set_value(counter, &value);
}

static int typed(void)
{
	/* Before the first call that loads the collector: objects of the static part. */
	__itt_counter header = __itt_counter_create_typed("send_header", "net.example", __itt_metadata_u64);
	__itt_counter control = __itt_counter_create_typed("receive_ctrl", "net.example", __itt_metadata_s32);
	int32_t negative = -10;

	__itt_counter_set_value(control, &negative);
	set_u64(header, UINT64_MAX);

	/* After it: ours. The same name is the same counter. */
	FAIL_UNLESS(__itt_counter_create_typed("send_header", "net.example", __itt_metadata_u64) == header);
	uint32_t u32 = 4000000000u;
	uint16_t u16 = 65535;
	int16_t s16 = -7;
	int64_t s64 = INT64_MIN;
	float f32 = 1.5f;
	double f64 = -0.25;
	__itt_counter_set_value(__itt_counter_create_typed("u32", NULL, __itt_metadata_u32), &u32);
	__itt_counter_set_value(__itt_counter_create_typed("u16", NULL, __itt_metadata_u16), &u16);
	__itt_counter_set_value(__itt_counter_create_typed("s16", NULL, __itt_metadata_s16), &s16);
	__itt_counter_set_value(__itt_counter_create_typed("s64", NULL, __itt_metadata_s64), &s64);
	__itt_counter_set_value(__itt_counter_create_typed("f32", NULL, __itt_metadata_float), &f32);
	__itt_domain *domain = __itt_domain_create("net.example");
	__itt_counter v3 = __itt_counter_create_v3(domain, "f64", __itt_metadata_double);
	__itt_counter_set_value_v3(v3, &f64);
	__itt_counter_set_value_ex(v3, NULL, __itt_get_timestamp(), &f64);
	__itt_counter_set_value_ex(v3, NULL, 7, &f64);
	return 0;
}

static int deltas(void)
{
	__itt_counter counter = __itt_counter_create("level", "d");
	__itt_domain *domain = __itt_domain_create("d");
	__itt_string_handle *name = __itt_string_handle_create("named");

	__itt_counter_inc(counter);
	__itt_counter_inc_delta(counter, 10);
	__itt_counter_dec(counter);
	__itt_counter_dec_delta(counter, 3);
	__itt_counter_inc_v3(domain, name);
	__itt_counter_inc_delta_v3(domain, name, 40);
	__itt_counter_dec_delta_v3(domain, name, 2);
	__itt_context_metadata context[2] = {
		{__itt_context_unitsA, "bytes"}, {__itt_context_max_val, &(uint64_t){4096}},
	};
	__itt_bind_context_metadata_to_counter(counter, 2, context);
	__itt_counter_destroy(counter);
	return 0;
}

static int spans(void)
{
	__itt_domain *domain = __itt_domain_create("spans");
	__itt_string_handle *outer = __itt_string_handle_create("outer");
	__itt_id one = __itt_id_make((void *)0x10, 1), two = __itt_id_make((void *)0x20, 2);

	__itt_task_begin(domain, one, none, outer);
	__itt_task_begin(domain, none, one, __itt_string_handle_create("inner"));
	__itt_task_end(domain);
	__itt_task_end(domain);
	__itt_task_begin_overlapped(domain, one, none, outer);
	__itt_task_begin_overlapped(domain, two, one, outer);
	__itt_task_end_overlapped(domain, one);
	__itt_task_end_overlapped(domain, two);
	uint64_t before = __itt_get_timestamp();
	__itt_task_begin_ex(domain, NULL, before, one, none, outer);
	__itt_task_end_ex(domain, NULL, before + 1);
	__itt_region_begin(domain, one, none, outer);
	__itt_region_end(domain, one);
	__itt_frame_begin_v3(domain, NULL);
	__itt_frame_end_v3(domain, NULL);
	__itt_frame_submit_v3(domain, &two, before, __itt_timestamp_none);
	__itt_marker(domain, none, outer, __itt_scope_track);
	__itt_event event = __itt_event_create("event", 5);
	FAIL_UNLESS(event > 0 && __itt_event_create("event", 5) == event);
	__itt_event_start(event);
	__itt_event_end(event);
	FAIL_UNLESS(__itt_domain_create("spans") == domain);
	/* A domain that the program has switched off. */
	domain->flags = 0;
	__itt_task_begin(domain, one, none, outer);
	return 0;
}

static int attached(void)
{
	__itt_domain *domain = __itt_domain_create("attached");
	__itt_string_handle *key = __itt_string_handle_create("key");
	__itt_id one = __itt_id_make((void *)0x10, 1), two = __itt_id_make((void *)0x20, 2);
	int16_t shorts[300];
	char text[5000];
	double x[200], y[200];

	for (int i = 0; i < 300; i++)
		shorts[i] = (int16_t)-i;
	memset(text, 'a', sizeof text);
	for (int i = 0; i < 200; i++) {
		x[i] = i;
		y[i] = i * 0.5;
	}
	__itt_metadata_add(domain, one, key, __itt_metadata_s16, 300, shorts);
	__itt_metadata_str_add(domain, one, key, "hello", 5);
	__itt_metadata_str_add(domain, none, key, text, sizeof text);
	__itt_relation_add(domain, one, __itt_relation_is_parent_of, two);
	__itt_relation_add_to_current(domain, __itt_relation_is_child_of, two);
	__itt_histogram *histogram =
		__itt_histogram_create(domain, "sizes", __itt_metadata_double, __itt_metadata_double);
	FAIL_UNLESS(histogram != NULL);
	__itt_histogram_submit(histogram, 200, x, y);
	__itt_histogram_submit(histogram, 2, NULL, y);
	return 0;
}

static int sync_objects(void)
{
	int object;

	__itt_thread_set_name("worker of the test");
	__itt_sync_create(&object, "queue", "inbox", __itt_attr_mutex);
	__itt_sync_rename(&object, "outbox");
	__itt_sync_prepare(&object);
	__itt_sync_cancel(&object);
	__itt_sync_prepare(&object);
	__itt_sync_acquired(&object);
	__itt_fsync_releasing(&object);
	__itt_sync_destroy(&object);
	return 0;
}

static int silence(void)
{
	__itt_counter counter = __itt_counter_create("c", "d");

	set_u64(counter, 1);
	__itt_pause();
	set_u64(counter, 2);
	/* Created while nothing is recorded, used afterwards. */
	__itt_counter later = __itt_counter_create("later", "d");
	__itt_resume();
	set_u64(later, 3);
	__itt_detach();
	set_u64(counter, 4);
	__itt_resume();
	set_u64(counter, 5);
	return 0;
}

static void *ignored(void *counter)
{
	set_u64(counter, 1);
	__itt_thread_ignore();
	set_u64(counter, 2);
	return NULL;
}

static int ignore(void)
{
	pthread_t thread;
	__itt_counter counter = __itt_counter_create("c", "d");

	pthread_create(&thread, NULL, ignored, counter);
	pthread_join(thread, NULL);
	set_u64(counter, 3);
	return 0;
}

static int garbage(void)
{
	int thing = 0;
	uint64_t value = 1;
	__itt_counter counter = __itt_counter_create_typed("c", "d", __itt_metadata_unknown);

	__itt_counter_inc((__itt_counter)&thing);
	__itt_counter_inc(NULL);
	__itt_counter_set_value(counter, &value);
	__itt_counter_set_value(__itt_counter_create("e", "d"), NULL);
	__itt_event_start(-1);
	return 0;
}

/* Sets a counter to 1, 2, … count. */
static int count_up(uint64_t count)
{
	__itt_counter counter = __itt_counter_create("steps", "d");

	for (uint64_t value = 1; value <= count; value++)
		set_u64(counter, value);
	return 0;
}

static int killed(uint64_t count)
{
	count_up(count);
	raise(SIGKILL);
	return 1;
}

/* One after another, processes that write and die without leaving. */
static int many_die(uint64_t processes)
{
	__itt_counter counter = __itt_counter_create("deaths", "d");

	for (uint64_t i = 0; i < processes; i++) {
		pid_t child = fork();
		if (child == 0) {
			set_u64(counter, i);
			raise(SIGKILL);
		}
		waitpid(child, NULL, 0);
	}
	return 0;
}

static uint64_t rounds;

static void *hammer(void *counter)
{
	for (uint64_t i = 0; i < rounds; i++)
		__itt_counter_inc(counter);
	return NULL;
}

static int hammers(int threads, uint64_t count)
{
	pthread_t thread[64];
	__itt_counter counter = __itt_counter_create("hammered", "d");

	rounds = count;
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, hammer, counter);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

/* Threads one after another: more than there are chunks, if each is read in between. */
static int first_in_thread(int threads)
{
	pthread_t thread;
	__itt_counter counter = __itt_counter_create("first", "d");

	rounds = 1;
	for (int i = 0; i < threads; i++) {
		pthread_create(&thread, NULL, hammer, counter);
		pthread_join(thread, NULL);
	}
	return 0;
}

/* Parent and child write at the same time; the child by `clone` without the C library's hooks
 * if asked to. */
static int forks(int raw, uint64_t count)
{
	__itt_counter counter = __itt_counter_create("both", "d");
	int status = -1;

	set_u64(counter, 0);
	pid_t child = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	__itt_counter own = counter;
	if (child == 0 && !raw)
		own = __itt_counter_create("of the child", "d");
	rounds = count;
	hammer(own);
	if (child == 0)
		_exit(0);
	waitpid(child, &status, 0);
	return status;
}

static int with_plugin(const char *path, int is_first)
{
	__itt_counter mine = __itt_counter_create("shared", "d");

	if (!is_first)
		set_u64(mine, 1);
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	FAIL_UNLESS(plugin != NULL);
	void (*work)(void) = (void (*)(void))dlsym(plugin, "plugin_work");
	FAIL_UNLESS(work != NULL);
	work();
	set_u64(mine, 3);
	dlclose(plugin);
	/* Names that the plug-in alone had: its handles are gone, ours must not be. */
	__itt_domain *domain = __itt_domain_create("of the plug-in");
	FAIL_UNLESS(domain != NULL && domain->flags == 1);
	FAIL_UNLESS(strcmp(domain->nameA, "of the plug-in") == 0);
	__itt_task_begin(domain, none, none, __itt_string_handle_create("after"));
	return 0;
}

static __itt_counter interrupted;
static volatile uint64_t signals;

static void on_signal(int number)
{
	(void)number;
	__itt_counter_inc(interrupted);
	signals++;
}

/* Calls from a signal handler, some within another call of the same thread. Says how many calls
 * it made in all. */
static int interrupts(uint64_t wanted)
{
	struct itimerval often = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
	uint64_t calls = 0;

	interrupted = __itt_counter_create("interrupted", "d");
	__itt_counter_inc(interrupted);
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	for (; signals < wanted; calls++)
		__itt_counter_inc(interrupted);
	setitimer(ITIMER_REAL, &never, NULL);
	/* more than wanted, where one came after the other before the timer was off */
	printf("%llu %llu\n", (unsigned long long)(1 + calls + signals), (unsigned long long)signals);
	return 0;
}

/* Names a counter, says so, and uses it again on request. */
static int named_later(void)
{
	char byte = '.';
	__itt_counter counter = __itt_counter_create("late", "d");

	set_u64(counter, 1);
	FAIL_UNLESS(write(1, &byte, 1) == 1);
	FAIL_UNLESS(read(0, &byte, 1) == 1);
	set_u64(counter, 2);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	uint64_t number = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t second = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;

#define MODE(name, call) if (strcmp(mode, name) == 0) return call
	MODE("typed", typed());
	MODE("deltas", deltas());
	MODE("spans", spans());
	MODE("attached", attached());
	MODE("sync", sync_objects());
	MODE("silence", silence());
	MODE("ignore", ignore());
	MODE("garbage", garbage());
	MODE("count", count_up(number));
	MODE("killed", killed(number));
	MODE("many_die", many_die(number));
	MODE("hammer", hammers((int)number, second));
	MODE("first_in_thread", first_in_thread((int)number));
	MODE("fork", forks(0, number));
	MODE("clone", forks(1, number));
	MODE("interrupts", interrupts(number));
	MODE("named_later", named_later());
	MODE("plugin", with_plugin(argv[2], 0));
	MODE("plugin_first", with_plugin(argv[2], 1));
	return 125;
}
