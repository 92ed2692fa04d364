// Waits at the end of chains of calls that are known: functions named `outer`, `middle`, `inner`, each
// compiled as it is written. In the main thread the wait is for a byte of a pipe, in another one for a
// lock. Each byte comes while the main thread waits for it, and the lock is free once the other one waits.
// Prints its pid.
//
// usage: stacks ROUNDS
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sched.h>
#include <thread>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone, noipa))

static int pipes[2];
static std::atomic<int> reads; // begun
static std::atomic<int> locks; // begun
static std::atomic<int> unlocks; // of the waiting thread
static std::atomic<int> holds; // begun
static std::atomic<pid_t> locker_tid;
static std::mutex lock;
static volatile int kept;

extern "C" {

KEPT void inner_reads()
{
	char byte;
	reads++;
	kept = read(pipes[0], &byte, 1); // LINE inner_reads
	kept++;
}

KEPT void middle_reads(int rounds)
{
	// more on the stack than is copied at once would be, were every frame like this
	volatile char room[1000];

	room[0] = 1;
	for (int i = 0; i < rounds; i++)
		inner_reads(); // LINE middle_reads
	kept += room[0];
}

KEPT void outer_reads(int rounds)
{
	middle_reads(rounds); // LINE outer_reads
	kept++;
}

// Two functions of the same depth on the stack, which call the same one
KEPT void one_naps()
{
	usleep(301);
	kept++;
}

KEPT void other_naps()
{
	usleep(307);
	kept++;
}

KEPT void inner_locks()
{
	locks++;
	lock.lock();
	lock.unlock();
	unlocks++;
	kept++;
}

KEPT void outer_locks(int rounds)
{
	locker_tid = gettid();
	for (int i = 0; i < rounds; i++) {
		// it has the lock; this thread sleeps nowhere else
		while (holds <= i)
			sched_yield();
		inner_locks();
	}
	kept++;
}

KEPT void deep(int depth, int rounds)
{
	if (depth == 0)
		outer_reads(rounds);
	else
		deep(depth - 1, rounds);
	kept++;
}
}

// Whether a thread waits; between two calls that do, neither of those that are asked for does
static bool waits(pid_t tid)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	FILE *file = fopen(path, "r");
	if (!file)
		return false;
	if (fscanf(file, "%*d %*s %c", &state) != 1)
		state = 0;
	fclose(file);
	return state == 'S';
}

int main(int count, char **words)
{
	int rounds = atoi(words[1]), depth = count > 2 ? atoi(words[2]) : 0;

	if (pipe(pipes))
		return 1;
	printf("%d\n", getpid());
	std::thread writer([=] {
		for (int i = 0; i < rounds; i++) {
			usleep(2000);
			while (reads <= i || !waits(getpid()))
				usleep(200);
			if (write(pipes[1], "x", 1) != 1)
				return;
		}
	});
	std::thread locker(outer_locks, rounds);
	std::thread holder([=] {
		for (int i = 0; i < rounds; i++) {
			while (unlocks < i)
				sched_yield();
			std::lock_guard<std::mutex> held(lock);
			holds++;
			while (locks <= i || !waits(locker_tid))
				usleep(200);
		}
	});
	deep(depth, rounds);
	for (int i = 0; i < rounds; i++) {
		one_naps();
		other_naps();
	}
	writer.join();
	locker.join();
	holder.join();
	return 0;
}
