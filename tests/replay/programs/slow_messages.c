/* A reader of 23 connections, some of them with messages that are slow for a planted reason: its argument.
 *   neighbour  another process takes the CPU at a higher priority
 *   queue      many messages come at once
 *   call       the reader makes a long system call before it takes the message
 *   lock       it waits for a lock that another thread has
 *   compute    it computes
 *   faults     it writes to memory that it has given back
 *   flood      datagrams come in on its CPU
 *   crowd      so do datagrams that another program then takes
 *   moves      another thread moves it to the other CPU, which a third one has, and back
 *   none       nothing
 * A second argument is how long the neighbour, the call, the lock or the computing lasts, ms; else it is one.
 * Both ends are real-time threads, so that nothing else on the host gets in the way. Prints for each slow message
 * when the receive call began and ended (CLOCK_MONOTONIC), as a line of JSON, at the end; of those that were to be
 * moved, only if being without a CPU cost them much, and more than a CPU that was slower than for ordinary messages
 * (in a virtual machine, one that shares its core: there idlers keep all CPUs equally busy). */
#include "testbed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS 23
/* How many messages: enough for so many slow ones that a share of them says something. */
#ifndef ROUNDS
#define ROUNDS 2003
#endif
#define SLOW_EVERY 29
#define BURST_EVERY 211
#define BYTES 100
#define SERVICE_NS 30000ULL
#define WORK_NS 200000ULL
#define LISTENERS 61
/* few enough that their program takes all before the next come */
#define CROWD_LISTENERS 31
#define FLOOD_NS 200000ULL
#ifndef CROWD_NS
#define CROWD_NS FLOOD_NS
#endif
#define MOVED_TIMES 3
#define MOVED_FOR_NS 50000
#define MOVED_EVERY_NS 10000
#define LEAST_LOST_NS 50000
#define PAUSE_NS 100000
#define PAGE_BYTES 4096UL
#ifndef PAGES
#define PAGES 509
#endif
/* SCHED_FIFO; the neighbour's is the next */
#define PRIORITY 1
/* of a burst, those that come to wait */
#define FIRST_BEHIND 5

enum kind { NONE, NEIGHBOUR, QUEUE, CALL, LOCK, COMPUTE, FAULTS, FLOOD, CROWD, MOVES, KINDS };
static const char *const kinds[KINDS] = {
	"none",	   "neighbour", "queue", "call",  "lock",
	"compute", "faults",	"flood", "crowd", "moves",
};
static enum kind kind;
static unsigned long long slow_ns = 1000000;
/* what the reader does with every message before it takes it */
static unsigned long long steps;
static struct sockaddr_in everyone = {.sin_family = AF_INET};
static int flooding, listening[LISTENERS], listener_count;
/* asked for once: sysconf() reads a file */
static int cpus;
static int sending[CONNECTIONS], receiving[CONNECTIONS], taken[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t take_it, has_it, hold_it;
static volatile int moved;
static struct {
	unsigned long long begin_ns, end_ns;
	/* of its work: on a CPU, and without one */
	unsigned long long worked_ns, lost_ns;
} slow[ROUNDS];
static int slow_count;
/* what the work before ordinary messages took of the CPU */
static unsigned long long ordinary_ns[ROUNDS];
static int ordinary_count;

static unsigned long long read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void spin(unsigned long long ns)
{
	unsigned long long until_ns = now() + ns;

	while (now() < until_ns)
		;
}

/* Takes as long as the CPU needs for it: other than spin(), longer if that is busy with other things, too. */
static void work(unsigned long long steps)
{
	for (volatile unsigned long long step = 0; step < steps; step++)
		;
}

/* Steps that take WORK_NS when nothing comes between. */
static unsigned long long steps_of_work(void)
{
	const unsigned long long some = 20000;
	unsigned long long least_ns = ~0ULL;

	for (int i = 0; i < 100; i++) {
		unsigned long long begin_ns = now();

		work(some);
		unsigned long long took_ns = now() - begin_ns;
		if (took_ns < least_ns)
			least_ns = took_ns;
	}
	return WORK_NS * some / least_ns;
}

static void write_to(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	must(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), path);
	close(file);
}

/* A network of its own, in which CPU 0 receives all that comes (RPS). */
static void receive_on_first_cpu(void)
{
	struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int any = socket(AF_INET, SOCK_DGRAM, 0);

	must(!unshare(CLONE_NEWNET | CLONE_NEWNS), "unshare");
	must(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount /");
	must(!mount("sysfs", "/sys", "sysfs", 0, NULL), "mount /sys");
	close(any);
	any = socket(AF_INET, SOCK_DGRAM, 0);
	must(!ioctl(any, SIOCSIFFLAGS, &loopback), "SIOCSIFFLAGS");
	close(any);
	write_to("/sys/class/net/lo/queues/rx-0/rps_cpus", "1");
}

/* Sockets to which a datagram for all of them goes: the CPU that receives it is busy for a while. */
static void listen_for_datagrams(void)
{
	const int yes = 1;
	socklen_t len = sizeof(everyone);

	listener_count = kind == CROWD ? CROWD_LISTENERS : LISTENERS;
	for (int i = 0; i < listener_count; i++) {
		int to = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

		listening[i] = to;
		must(!setsockopt(to, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), "reuse");
		must(!bind(to, (struct sockaddr *)&everyone, len), "bind");
		must(!getsockname(to, (struct sockaddr *)&everyone, &len), "getsockname");
	}
	everyone.sin_addr.s_addr = htonl(INADDR_LOOPBACK | 0xffffff);
	flooding = socket(AF_INET, SOCK_DGRAM, 0);
	must(!setsockopt(flooding, SOL_SOCKET, SO_BROADCAST, &yes, sizeof(yes)), "broadcast");
}

/* On a machine of one CPU, all are that one. */
static void move_to(pid_t thread, int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu % cpus, &one);
	must(!sched_setaffinity(thread, sizeof(one), &one), "sched_setaffinity");
}

/* Takes the datagrams, when the sender has nothing to do. */
static void crowd(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int epoll = epoll_create1(0);
	char byte;

	if (fork())
		return;
	prctl(PR_SET_NAME, "crowd");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	move_to(0, 1);
	for (int i = 0; i < listener_count; i++) {
		event.data.fd = listening[i];
		must(!epoll_ctl(epoll, EPOLL_CTL_ADD, listening[i], &event), "epoll_ctl");
	}
	while (epoll_wait(epoll, &event, 1, -1) == 1)
		while (recv(event.data.fd, &byte, 1, 0) == 1)
			;
}

static void flood(unsigned long long ns)
{
	struct sockaddr *to = (struct sockaddr *)&everyone;

	for (unsigned long long until_ns = now() + ns; now() < until_ns;)
		must(sendto(flooding, "", 1, 0, to, sizeof(everyone)) == 1, "sendto");
}

static void run_with_priority(int cpu, int priority)
{
	struct sched_param how = {.sched_priority = priority};

	move_to(0, cpu);
	must(!sched_setscheduler(0, SCHED_FIFO, &how), "sched_setscheduler");
}

static void connect_ends(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	must(!bind(listener, (struct sockaddr *)&at, len) && !listen(listener, 1), "listen");
	must(!getsockname(listener, (struct sockaddr *)&at, &len), "getsockname");
	for (int i = 0; i < CONNECTIONS; i++) {
		sending[i] = socket(AF_INET, SOCK_STREAM, 0);
		must(!connect(sending[i], (struct sockaddr *)&at, len), "connect");
		receiving[i] = accept(listener, NULL, NULL);
		must(receiving[i] >= 0, "accept");
	}
}

static int is_slow(int round)
{
	int every = kind == QUEUE ? BURST_EVERY : SLOW_EVERY;

	return kind != NONE && round % every == every - 1;
}

/* Sends a round's messages, and goes on when they were taken. */
static void send_all(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	char message[BYTES] = {0}, byte;

	prctl(PR_SET_NAME, "neighbour");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_with_priority(kind == NEIGHBOUR ? 0 : 1, PRIORITY + (kind == NEIGHBOUR));
	for (int round = 0; round < ROUNDS; round++) {
		int number = kind == QUEUE && is_slow(round) ? CONNECTIONS : 1;

		for (int i = 0; i < number; i++) {
			int to = sending[(round + i) % CONNECTIONS];

			must(send(to, message, BYTES, 0) == BYTES, "send");
		}
		if (kind == NEIGHBOUR && is_slow(round))
			spin(slow_ns);
		if ((kind == FLOOD || kind == CROWD) && is_slow(round))
			flood(kind == CROWD ? CROWD_NS : FLOOD_NS);
		for (int i = 0; i < number; i++)
			must(read(taken[0], &byte, 1) == 1, "read");
		nanosleep(&pause, NULL);
	}
}

static void *keeper(void *unused)
{
	const struct timespec pause = {.tv_nsec = slow_ns};

	for (;;) {
		sem_wait(&take_it);
		pthread_mutex_lock(&lock);
		sem_post(&has_it);
		nanosleep(&pause, NULL);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

/* Has the CPU to which the reader is moved, so that it runs there at no time: what it loses, it loses by the moves. */
static void *holder(void *unused)
{
	run_with_priority(1, PRIORITY + 1);
	for (;;) {
		sem_wait(&hold_it);
		while (moved)
			;
	}
	return unused;
}

static void *mover(void *unused)
{
	const struct timespec pause = {.tv_nsec = MOVED_EVERY_NS};

	run_with_priority(1, PRIORITY + 2);
	for (;;) {
		sem_wait(&take_it);
		for (int i = 0; i < MOVED_TIMES; i++) {
			moved = 1;
			sem_post(&hold_it);
			move_to(getpid(), 1);
			spin(MOVED_FOR_NS);
			move_to(getpid(), 0);
			moved = 0;
			nanosleep(&pause, NULL);
		}
	}
	return unused;
}

/* Never lets a CPU idle, so that one that shares its core with another is always as slow; and has idle priority. */
static void keep_busy(int cpu)
{
	struct sched_param how = {0};

	if (fork())
		return;
	prctl(PR_SET_NAME, "idler");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	move_to(0, cpu);
	must(!sched_setscheduler(0, SCHED_IDLE, &how), "sched_setscheduler");
	for (;;)
		;
}

/* Makes a message slow that has come. */
static void dawdle(void)
{
	static char zeros[1 << 20], pages[PAGES * PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));
	size_t bytes = sizeof(zeros);
	int zero;

	switch (kind) {
	case CALL:
		zero = open("/dev/zero", O_RDONLY);
		for (unsigned long long until_ns = now() + slow_ns; now() < until_ns;)
			must(read(zero, zeros, bytes) == (ssize_t)bytes, "/dev/zero");
		close(zero);
		break;
	case LOCK:
		sem_post(&take_it);
		sem_wait(&has_it);
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		break;
	case COMPUTE:
		spin(slow_ns);
		break;
	case MOVES:
		sem_post(&take_it);
		break;
	case FAULTS:
		must(!madvise(pages, sizeof(pages), MADV_DONTNEED), "madvise");
		for (size_t page = 0; page < PAGES; page++)
			((volatile char *)pages)[page * PAGE_BYTES] = 1;
		break;
	default:
		break;
	}
}

static void take(int epoll, int round)
{
	char message[BYTES];
	struct epoll_event event;
	int number = kind == QUEUE && is_slow(round) ? CONNECTIONS : 1;

	for (int i = 0; i < number; i++) {
		must(epoll_wait(epoll, &event, 1, -1) == 1, "epoll_wait");
		if (is_slow(round))
			dawdle();
		unsigned long long work_ns = now(), cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
		work(steps);
		cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
		if (!is_slow(round) && !i)
			ordinary_ns[ordinary_count++] = cpu_ns;
		unsigned long long begin_ns = now();
		must(recv(event.data.fd, message, BYTES, 0) == BYTES, "recv");
		if (is_slow(round) && (kind != QUEUE || i >= FIRST_BEHIND)) {
			slow[slow_count].begin_ns = begin_ns;
			slow[slow_count].worked_ns = cpu_ns;
			slow[slow_count].lost_ns = begin_ns - work_ns - cpu_ns;
			slow[slow_count++].end_ns = now();
		}
		spin(SERVICE_NS);
		must(write(taken[1], "", 1) == 1, "write");
	}
}

static int by_size(const void *one, const void *other)
{
	unsigned long long a = *(const unsigned long long *)one;
	unsigned long long b = *(const unsigned long long *)other;

	return a < b ? -1 : a > b;
}

static int is_invalid(int which)
{
	unsigned long long usual_ns = ordinary_ns[ordinary_count / 2];
	unsigned long long worked_ns = slow[which].worked_ns;
	unsigned long long slower_ns = worked_ns > usual_ns ? worked_ns - usual_ns : 0;
	unsigned long long lost_ns = slow[which].lost_ns;

	return kind == MOVES && (lost_ns < LEAST_LOST_NS || lost_ns < 3 * slower_ns);
}

int main(int arguments, char **argument)
{
	int epoll = epoll_create1(0), status;
	pthread_t thread, other;

	for (int i = 0; i < KINDS; i++)
		if (arguments > 1 && !strcmp(argument[1], kinds[i]))
			kind = i;
	if (arguments > 2)
		slow_ns = strtoull(argument[2], NULL, 10) * 1000000;
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	must(!pipe(taken) && !sem_init(&take_it, 0, 0) && !sem_init(&has_it, 0, 0) &&
		     !sem_init(&hold_it, 0, 0),
	     "pipe");
	if (kind == FLOOD || kind == CROWD) {
		receive_on_first_cpu();
		listen_for_datagrams();
	}
	connect_ends();
	pid_t neighbour = fork();
	if (!neighbour) {
		send_all();
		return 0;
	}
	for (int cpu = 0; kind == MOVES && cpu < 2; cpu++)
		keep_busy(cpu);
	if (kind == CROWD)
		crowd();
	run_with_priority(0, PRIORITY);
	if (kind == FLOOD || kind == CROWD || kind == MOVES)
		steps = steps_of_work();
	must(!pthread_create(&thread, NULL, kind == MOVES ? mover : keeper, NULL) &&
		     !(kind == MOVES && pthread_create(&other, NULL, holder, NULL)),
	     "pthread_create");
	for (int i = 0; i < CONNECTIONS; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.fd = receiving[i]};

		must(!epoll_ctl(epoll, EPOLL_CTL_ADD, receiving[i], &event), "epoll_ctl");
	}
	for (int round = 0; round < ROUNDS; round++)
		take(epoll, round);
	must(waitpid(neighbour, &status, 0) == neighbour && !status, "the sender");
	qsort(ordinary_ns, ordinary_count, sizeof(*ordinary_ns), by_size);
	for (int i = 0; i < slow_count; i++)
		if (!is_invalid(i))
			printf("{\"begin_ns\": %llu, \"end_ns\": %llu}\n", slow[i].begin_ns,
			       slow[i].end_ns);
	return 0;
}
