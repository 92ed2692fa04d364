/* A plug-in with a static ittnotify part of its own, which frees what it created when it is
 * unloaded, as `__itt_release_resources` is meant to be used. */

#include <ittnotify.h>
#include <stdint.h>

void __itt_release_resources(void);

static __itt_counter shared;
static __itt_domain *domain;

__attribute__((constructor)) static void start(void)
{
	shared = __itt_counter_create("shared", "d");
	domain = __itt_domain_create("of the plug-in");
}

void plugin_work(void)
{
	static const __itt_id none = {0, 0, 0};
	uint64_t value = 2;

	__itt_counter_set_value(shared, &value);
	__itt_task_begin(domain, none, none, __itt_string_handle_create("work"));
	__itt_task_end(domain);
}

__attribute__((destructor)) static void stop(void)
{
	__itt_release_resources();
}
