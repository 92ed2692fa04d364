// The common use in C++: domain and handles as static objects, tasks as guards, the first call
// from a thread.

#include <ittnotify.h>

#include <cstdint>
#include <thread>

static __itt_domain *const domain = __itt_domain_create("cpp.example");
static __itt_string_handle *const name = __itt_string_handle_create("guarded");
static const __itt_counter counter =
    __itt_counter_create_typed("bytes", "cpp.example", __itt_metadata_double);

struct Guard {
    Guard() { __itt_task_begin(domain, __itt_null, __itt_null, name); }
    ~Guard() { __itt_task_end(domain); }
};

int main() {
    std::thread([] {
        Guard guard;
        double value = 2.5;
        __itt_counter_set_value(counter, &value);
    }).join();
    return 0;
}
