/* Waits 101 times in each of two functions of a coroutine. No page that it may read follows its stack. */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#define STACK_BYTES (64 * 1024)
#define ROUNDS 101

static ucontext_t caller, coroutine;

__attribute__((noinline)) static int nap(void)
{
	struct timespec length = {0, 1000000};

	return nanosleep(&length, NULL);
}

__attribute__((noinline)) static int one_naps(void)
{
	return nap() + 1;
}

__attribute__((noinline)) static int other_naps(void)
{
	return nap() + 2;
}

static void run(void)
{
	int sum = 0;

	for (int round = 0; round < ROUNDS; round++)
		sum += one_naps() + other_naps();
	if (sum != ROUNDS * 3)
		exit(1);
}

int main(void)
{
	char *stack = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || mprotect(stack + STACK_BYTES, STACK_BYTES, PROT_NONE) ||
	    getcontext(&coroutine))
		return 1;
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = STACK_BYTES;
	coroutine.uc_link = &caller;
	makecontext(&coroutine, run, 0);
	return swapcontext(&caller, &coroutine) ? 1 : 0;
}
