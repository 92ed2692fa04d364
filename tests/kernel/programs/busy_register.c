/* Waits 203 times at one place, each time with another value in the register of frame pointers, and on AArch64 in the link
 * register, which a function may use for anything once it has stored its return address. */
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

static long wait_with(uint64_t value, const struct timespec *length)
{
#if defined(__x86_64__)
	long number = SYS_nanosleep;

	__asm__ volatile("xchg %0, %%rbp\n syscall\n xchg %0, %%rbp"
			 : "+r"(value), "+a"(number)
			 : "D"(length), "S"(0)
			 : "rcx", "r11", "memory");
	return number;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_nanosleep;
	register long result __asm__("x0") = (long)length;
	register long left __asm__("x1") = 0;

	__asm__ volatile("mov x9, x29\n mov x29, %3\n mov x30, %3\n svc 0\n mov x29, x9"
			 : "+r"(result)
			 : "r"(number), "r"(left), "r"(value)
			 : "x9", "x30", "memory");
	return result;
#else
#error "busy_register.c: add the system call of this architecture"
#endif
}

int main(void)
{
	struct timespec length = {0, 1000000};

	for (uint64_t value = 1; value <= 203; value++)
		wait_with(value * 0x100010001, &length);
	return 0;
}
