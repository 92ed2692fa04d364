/*
 * Asks again and again what is ready, in each way that there is, for 0.6 s of CPU time each. The first
 * ones do not wait, and nothing is ever ready; the last two are no spins: one may wait, though it never
 * has to, and the other does not ask. Prints a line of JSON for each.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CPU_NS 600000000ULL

static unsigned long long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static int silent[2], pair[2], written[2], set, ready_set;

static int never(int result)
{
	return result > 0;
}

static int ask_epoll(void)
{
	struct epoll_event event;

	return never(epoll_wait(set, &event, 1, 0));
}

static int ask_epoll_pwait2(void)
{
	struct epoll_event event;
	struct timespec none = {};

	return never(syscall(SYS_epoll_pwait2, set, &event, 1, &none, NULL, 0));
}

static int ask_poll(void)
{
	struct pollfd one = { .fd = pair[0], .events = POLLIN };

	return never(poll(&one, 1, 0));
}

static int ask_ppoll(void)
{
	struct pollfd two[] = { { .fd = silent[0], .events = POLLIN }, { .fd = pair[0], .events = POLLIN } };
	struct timespec none = {};

	return never(ppoll(two, 2, &none, NULL));
}

static int ask_select(void)
{
	struct timeval none = {};
	fd_set one;

	FD_ZERO(&one);
	FD_SET(silent[0], &one);
	return never(select(silent[0] + 1, &one, NULL, NULL, &none));
}

static int may_wait(void)
{
	struct epoll_event event;

	return epoll_wait(ready_set, &event, 1, -1) != 1;
}

static int only_reads(void)
{
	char byte;

	return never(read(silent[0], &byte, 1));
}

static int new_set(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		exit(1);
	return epoll;
}

static void phase(const char *name, const char *kind, int (*ask)(void))
{
	unsigned long long start_ns = now(CLOCK_MONOTONIC), cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
	unsigned long long asked = 0, used_ns;

	do {
		for (int i = 0; i < 1000; i++)
			if (ask())
				exit(2);
		asked += 1000;
		used_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	} while (used_ns < CPU_NS);
	printf("{\"name\":\"%s\",\"kind\":\"%s\",\"start_ns\":%llu,\"end_ns\":%llu,\"cpu_ns\":%llu,\"asked\":%llu}\n",
	       name, kind, start_ns, now(CLOCK_MONOTONIC), used_ns, asked);
}

int main(void)
{
	if (pipe2(silent, O_NONBLOCK) || pipe(written) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    write(written[1], "x", 1) != 1)
		return 1;
	set = new_set(silent[0]);
	ready_set = new_set(written[0]);
	phase("epoll_wait", "epoll", ask_epoll);
	phase("epoll_pwait2", "epoll", ask_epoll_pwait2);
	phase("poll", "unix", ask_poll);
	phase("ppoll", "poll", ask_ppoll);
	phase("select", "pipe", ask_select);
	phase("may wait", "", may_wait);
	phase("only reads", "", only_reads);
	return 0;
}
