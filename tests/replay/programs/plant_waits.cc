// Plants waits of known length on known objects, one after the other, and prints each as a line of
// JSON with its own timing (CLOCK_MONOTONIC). A second thread ends them.
//
// usage: plant_waits ROUNDS KINDS MICROSECONDS...     KINDS: `all`, or names with commas between
#include <algorithm>
#include <arpa/inet.h>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <linux/futex.h>
#include <mutex>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static uint64_t now_ns()
{
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

// Time that this thread was on a CPU, and that it waited for one (schedstat).
static uint64_t run_ns()
{
	unsigned long long runq_ns = 0;
	timespec on_cpu;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");

	if (file && fscanf(file, "%*u %llu", &runq_ns) != 1)
		runq_ns = 0;
	if (file)
		fclose(file);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &on_cpu);
	return on_cpu.tv_sec * 1000000000ull + on_cpu.tv_nsec + runq_ns;
}

static void must(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	exit(1);
}

// Below a millisecond it does not sleep: a sleep is late by 50 us (timer slack).
static void until(uint64_t at_ns)
{
	const uint64_t spin_ns = 1000000;

	if (now_ns() + spin_ns < at_ns) {
		uint64_t wake_ns = at_ns - spin_ns / 2;
		timespec at = {(time_t)(wake_ns / 1000000000), (long)(wake_ns % 1000000000)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
	}
	while (now_ns() < at_ns) {
	}
}

// Ends each wait when it is due.
class Ender {
	std::mutex lock;
	std::condition_variable changed;
	std::function<void()> action;
	uint64_t at_ns = 0;
	bool over = false;
	std::thread thread;

	void work()
	{
		for (;;) {
			std::unique_lock held(lock);
			changed.wait(held, [this] { return over || at_ns; });
			if (over)
				return;
			auto now = std::move(action);
			uint64_t due_ns = at_ns;
			at_ns = 0;
			held.unlock();
			until(due_ns);
			now();
		}
	}

public:
	Ender() : thread([this] { work(); }) {}
	~Ender()
	{
		{
			std::lock_guard held(lock);
			over = true;
		}
		changed.notify_one();
		thread.join();
	}
	void at(uint64_t ns, std::function<void()> what)
	{
		std::lock_guard held(lock);
		action = std::move(what);
		at_ns = ns;
		changed.notify_one();
	}
};

static uint64_t inode(int fd)
{
	struct stat seen;
	must(fstat(fd, &seen) == 0, "fstat");
	return seen.st_ino;
}

static uint64_t cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);
	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size);
	return cookie;
}

struct Object {
	const char *kind;
	uint64_t object;
	uint64_t conn;
	int fd;
	std::function<void()> wait;
	std::function<void()> end; // none: the wait ends by itself
};

static const char *kinds;

static bool is_wanted(const char *kind)
{
	return !strcmp(kinds, "all") || strstr(kinds, kind);
}

static void plant(Ender &ender, const Object &what, uint64_t length_ns,
		  std::function<void(uint64_t)> prepare = nullptr)
{
	uint64_t start_ns, end_ns, ran_ns;

	if (!is_wanted(what.kind))
		return;
	if (prepare)
		prepare(length_ns);
	if (what.end)
		ender.at(now_ns() + length_ns, what.end);
	ran_ns = run_ns();
	start_ns = now_ns();
	what.wait();
	end_ns = now_ns();
	ran_ns = run_ns() - ran_ns;
	printf("{\"kind\":\"%s\",\"object\":%llu,\"conn\":%llu,\"fd\":%d,\"tid\":%ld,\"asked_ns\":%llu,"
	       "\"ran_ns\":%llu,\"start_ns\":%llu,\"end_ns\":%llu}\n",
	       what.kind, (unsigned long long)what.object, (unsigned long long)what.conn, what.fd,
	       syscall(SYS_gettid), (unsigned long long)length_ns, (unsigned long long)ran_ns,
	       (unsigned long long)start_ns, (unsigned long long)end_ns);
}

struct Pair {
	int near, far;
};

static Pair tcp_pair()
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	sockaddr_in address = {};
	socklen_t size = sizeof(address);
	Pair pair;

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(bind(listener, (sockaddr *)&address, size) == 0, "bind");
	must(listen(listener, 1) == 0, "listen");
	must(getsockname(listener, (sockaddr *)&address, &size) == 0, "getsockname");
	pair.near = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(pair.near, (sockaddr *)&address, size) == 0, "connect");
	pair.far = accept(listener, nullptr, nullptr);
	must(pair.far >= 0, "accept");
	close(listener);
	return pair;
}

static Pair udp_pair()
{
	sockaddr_in address = {};
	socklen_t size = sizeof(address);
	Pair pair = {socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET, SOCK_DGRAM, 0)};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(bind(pair.near, (sockaddr *)&address, size) == 0, "bind");
	must(getsockname(pair.near, (sockaddr *)&address, &size) == 0, "getsockname");
	must(connect(pair.far, (sockaddr *)&address, size) == 0, "connect");
	return pair;
}

static void give(int fd)
{
	must(write(fd, "x", 1) == 1, "write");
}

static void take(int fd)
{
	char byte;
	must(read(fd, &byte, 1) == 1, "read");
}

// Fills the buffers of both ends: the kernel moves data on for a while.
static void fill(int fd)
{
	char block[65536] = {};
	pollfd writable = {fd, POLLOUT, 0};

	do {
		while (send(fd, block, sizeof(block), MSG_DONTWAIT) > 0) {
		}
	} while (poll(&writable, 1, 10) == 1);
}

static void drain(int fd)
{
	char block[65536];
	while (recv(fd, block, sizeof(block), MSG_DONTWAIT) > 0) {
	}
}

static Object receiving(const char *kind, Pair pair, uint64_t conn)
{
	return {kind, inode(pair.near), conn, pair.near, [=] { take(pair.near); },
		[=] { give(pair.far); }};
}

static void all(Ender &ender, uint64_t length_ns)
{
	static Pair tcp = tcp_pair(), udp = udp_pair(), full = tcp_pair();
	static int unix_pair[2], pipes[2], listener = socket(AF_INET, SOCK_STREAM, 0);
	static int event = eventfd(0, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	static int set = epoll_create1(0);
	static uint32_t word;
	static pid_t child;
	static bool made = false;

	if (!made) {
		epoll_event wanted = {EPOLLIN, {}};

		made = true;
		must(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair) == 0, "socketpair");
		must(pipe(pipes) == 0, "pipe");
		must(listen(listener, 1) == 0, "listen");
		must(epoll_ctl(set, EPOLL_CTL_ADD, tcp.near, &wanted) == 0, "epoll_ctl");
	}
	plant(ender, receiving("connection", tcp, cookie(tcp.near)), length_ns);
	plant(ender, receiving("datagram", udp, 0), length_ns);
	plant(ender, receiving("unix", {unix_pair[0], unix_pair[1]}, 0), length_ns);
	plant(ender, receiving("pipe", {pipes[0], pipes[1]}, 0), length_ns);
	plant(ender,
	      {"connection", inode(full.near), cookie(full.near), full.near,
	       [] { give(full.near); }, [] { drain(full.far); }},
	      length_ns, [](uint64_t) { fill(full.near); });
	drain(full.far);
	plant(ender,
	      {"epoll", 0, cookie(tcp.near), set,
	       [] {
		       epoll_event ready;
		       must(epoll_wait(set, &ready, 1, -1) == 1, "epoll_wait");
	       },
	       [] { give(tcp.far); }},
	      length_ns);
	drain(tcp.near);
	// one descriptor: a wait for its object; several: which of them was ready
	for (bool alone : {true, false}) {
		uint64_t object = alone ? inode(tcp.near) : 0;
		int fd = alone ? tcp.near : -1;

		plant(ender,
		      {alone ? "connection" : "poll", object, cookie(tcp.near), fd,
		       [=] {
			       pollfd wanted[] = {{tcp.near, POLLIN, 0}, {pipes[0], POLLIN, 0}};
			       must(poll(wanted, alone ? 1 : 2, -1) == 1, "poll");
		       },
		       [] { give(tcp.far); }},
		      length_ns);
		drain(tcp.near);
		plant(ender,
		      {alone ? "connection" : "select", object, cookie(tcp.near), fd,
		       [=] {
			       int most = std::max(tcp.near, pipes[0]);
			       fd_set wanted;
			       FD_ZERO(&wanted);
			       FD_SET(tcp.near, &wanted);
			       if (!alone)
				       FD_SET(pipes[0], &wanted);
			       must(select(most + 1, &wanted, nullptr, nullptr, nullptr) == 1,
				    "select");
		       },
		       [] { give(tcp.far); }},
		      length_ns);
		drain(tcp.near);
	}
	plant(ender,
	      {"listener", inode(listener), cookie(listener), listener,
	       [] { close(accept(listener, nullptr, nullptr)); },
	       [] {
		       sockaddr_in address = {};
		       socklen_t size = sizeof(address);
		       int fd = socket(AF_INET, SOCK_STREAM, 0);

		       getsockname(listener, (sockaddr *)&address, &size);
		       must(connect(fd, (sockaddr *)&address, size) == 0, "connect");
		       close(fd);
	       }},
	      length_ns);
	plant(ender,
	      {"futex", (uint64_t)&word, 0, -1,
	       [] {
		       while (!__atomic_load_n(&word, __ATOMIC_ACQUIRE))
			       syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
	       },
	       [] {
		       __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
		       syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
	       }},
	      length_ns, [](uint64_t) { __atomic_store_n(&word, 0, __ATOMIC_RELEASE); });
	plant(ender,
	      {"event", 0, 0, event,
	       [] {
		       uint64_t count;
		       must(read(event, &count, 8) == 8, "read");
	       },
	       [] {
		       uint64_t one = 1;
		       must(write(event, &one, 8) == 8, "write");
	       }},
	      length_ns);
	plant(
		ender,
		{"event", 0, 0, timer,
		 [] {
			 uint64_t count;
			 must(read(timer, &count, 8) == 8, "read");
		 },
		 nullptr},
		length_ns, [](uint64_t ns) {
			itimerspec once = {{}, {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};
			must(timerfd_settime(timer, 0, &once, nullptr) == 0, "timerfd_settime");
		});
	plant(ender,
	      {"sleep", 0, 0, -1,
	       [=] {
		       timespec length = {(time_t)(length_ns / 1000000000),
					  (long)(length_ns % 1000000000)};
		       nanosleep(&length, nullptr);
	       },
	       nullptr},
	      length_ns);
	plant(ender,
	      {"child", 0, 0, -1,
	       [] { must(waitpid(child, nullptr, 0) == child, "waitpid"); }, nullptr},
	      length_ns, [](uint64_t ns) {
		      child = fork();
		      if (child == 0) {
			      until(now_ns() + ns);
			      _exit(0);
		      }
	      });
}

int main(int count, char **words)
{
	Ender ender;

	alarm(60);
	if (count < 4)
		return 2;
	kinds = words[2];
	for (long round = 0; round < atol(words[1]); round++)
		for (int at = 3; at < count; at++)
			all(ender, atol(words[at]) * 1000ull);
	return 0;
}
