/* Replaces static ittnotify parts of older versions: their struct is shorter, and ends here
 * where memory ends. The first argument is the version's API_VERSION_BUILD. */

#define INTEL_ITTNOTIFY_API_PRIVATE
#include "ittnotify_config.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

typedef __itt_counter (*create_type)(const char *, const char *);
typedef void (*inc_type)(__itt_counter);

static void untouched(void) {}

static create_type create = (create_type)untouched;
static inc_type inc = (inc_type)untouched;
static void *unknown = (void *)untouched;

static __itt_api_info slots[] = {
	{"__itt_counter_create", (void **)&create, NULL, NULL, __itt_group_counter},
	{"__itt_counter_inc", (void **)&inc, NULL, NULL, __itt_group_counter},
	{"__itt_of_the_future", &unknown, NULL, NULL, __itt_group_all},
	{NULL, NULL, NULL, NULL, __itt_group_none},
};

static __itt_counter_info_t early = {.nameA = "early", .domainA = "d", .type = __itt_metadata_u64};

int main(int argc, char **argv)
{
	unsigned long build = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	size_t size = build < 20151119 ? offsetof(__itt_global, counter_list)
				       : offsetof(__itt_global, ipt_collect_events);
	char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0)
		return 1;
	__itt_global *global = (__itt_global *)(pages + PAGE - size);
	const unsigned char magic[8] = ITT_MAGIC;
	memcpy(global->magic, magic, sizeof magic);
	global->version_major = 3;
	global->version_build = build;
	global->api_list_ptr = slots;
	if (build >= 20151119)
		global->counter_list = &early;

	void *library = dlopen(getenv("INTEL_LIBITTNOTIFY64"), RTLD_LAZY);
	void (*init)(__itt_global *, int) = library ? (void (*)(__itt_global *, int))dlsym(library, "__itt_api_init") : NULL;
	if (init == NULL)
		return 2;
	init(global, -1);
	/* Of before null functions: left as it is. */
	if (build < 20111111)
		return inc == (inc_type)untouched ? 0 : 3;
	if (unknown != NULL)
		return 4;
	inc(create("early", "d"));
	if (build >= 20151119)
		inc((__itt_counter)&early);
	return 0;
}
