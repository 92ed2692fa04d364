/* A reader that loses its CPU, to a higher priority, from before each message until 10 ms later. Prints for
 * each of 20 messages, as a line of JSON (CLOCK_MONOTONIC): when the call that sent it began and ended, when the CPU
 * was given back, and when the reader had it. With an argument, the messages are datagrams of UDP, and else go over
 * TCP. */
#include "testbed.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 20
#define TAKEN_NS 10000000ULL

static int ends[2], go[2], done[2];
static volatile int taken, reader_tid, waits_for;
/* The reader's, before it waits. */
static volatile long switches_before;
static unsigned long long send_ns[ROUNDS], sent_ns[ROUNDS], given_back_ns[ROUNDS], had_ns[ROUNDS];

static void run_with_priority(int cpu, int priority)
{
	struct sched_param how = {.sched_priority = priority};

	run_on(cpu);
	must(!sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &how),
	     "sched_setscheduler");
}

static void connect_ends(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	must(!bind(listener, (struct sockaddr *)&at, len) && !listen(listener, 1), "listen");
	must(!getsockname(listener, (struct sockaddr *)&at, &len), "getsockname");
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(!connect(ends[0], (struct sockaddr *)&at, len), "connect");
	ends[1] = accept(listener, NULL, NULL);
	must(ends[1] >= 0, "accept");
}

static void bind_ends(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);

	ends[0] = socket(AF_INET, SOCK_DGRAM, 0);
	ends[1] = socket(AF_INET, SOCK_DGRAM, 0);
	must(!bind(ends[1], (struct sockaddr *)&at, len), "bind");
	must(!getsockname(ends[1], (struct sockaddr *)&at, &len), "getsockname");
	must(!connect(ends[0], (struct sockaddr *)&at, len), "connect");
}

static void *reader(void *unused)
{
	char message[100];

	run_with_priority(1, 0);
	reader_tid = gettid();
	for (int round = 0; round < ROUNDS; round++) {
		struct rusage used;

		must(!getrusage(RUSAGE_THREAD, &used), "getrusage");
		switches_before = used.ru_nvcsw;
		waits_for = round + 1;
		must(recv(ends[1], message, sizeof(message), MSG_WAITALL) == sizeof(message), "recv");
		had_ns[round] = now();
		must(write(done[1], "", 1) == 1, "write");
	}
	return unused;
}

static void *taker(void *unused)
{
	char byte;

	run_with_priority(1, 1);
	for (int round = 0; round < ROUNDS; round++) {
		must(read(go[0], &byte, 1) == 1, "read");
		unsigned long long until_ns = now() + TAKEN_NS;
		taken = 1;
		while (now() < until_ns)
			;
		given_back_ns[round] = now();
	}
	return unused;
}

/* Until the reader has given up its CPU to wait for this message: it may be preempted on its way there, and then
 * looks as if it slept. */
static void reader_sleeps(int round)
{
	char path[64], line[256];
	long switches = 0;

	while (waits_for <= round)
		;
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", reader_tid);
	while (switches <= switches_before) {
		FILE *status = fopen(path, "r");

		must(status != NULL, path);
		while (fgets(line, sizeof(line), status))
			sscanf(line, "voluntary_ctxt_switches: %ld", &switches);
		fclose(status);
	}
}

int main(int arguments, char **unused)
{
	pthread_t threads[2];
	char message[100] = {}, byte;

	must(!pipe(go) && !pipe(done), "pipe");
	if (arguments > 1)
		bind_ends();
	else
		connect_ends();
	run_with_priority(0, 0);
	must(!pthread_create(&threads[0], NULL, reader, NULL) &&
		     !pthread_create(&threads[1], NULL, taker, NULL),
	     "pthread_create");
	for (int round = 0; round < ROUNDS; round++) {
		taken = 0;
		reader_sleeps(round);
		must(write(go[1], "", 1) == 1, "write");
		while (!taken)
			;
		send_ns[round] = now();
		must(send(ends[0], message, sizeof(message), 0) == sizeof(message), "send");
		sent_ns[round] = now();
		must(read(done[0], &byte, 1) == 1, "read");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int round = 0; round < ROUNDS; round++)
		printf("{\"send_ns\": %llu, \"sent_ns\": %llu, \"given_back_ns\": %llu, \"had_ns\": %llu}\n",
		       send_ns[round], sent_ns[round], given_back_ns[round], had_ns[round]);
	return 0;
}
