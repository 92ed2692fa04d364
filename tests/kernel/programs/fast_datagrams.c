/* Sends itself datagrams of one size, in bursts and alone, to a reader on another CPU that never sleeps. Prints a
 * line of JSON for each call that moved one, as datagrams.py does. */
#include "testbed.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT 10007
#define PAUSES 8
#define PAUSE_NS 1000

struct moved {
	unsigned long long begin_ns, end_ns;
};

static int ends[2];
static volatile int all_sent;
static struct moved sent[COUNT], received[COUNT];

static void print(int end, const char *direction, const struct moved *moved)
{
	unsigned long long cookie;
	socklen_t len = sizeof(cookie);

	must(!getsockopt(ends[end], SOL_SOCKET, SO_COOKIE, &cookie, &len), "SO_COOKIE");
	for (int number = 0; number < COUNT; number++)
		if (moved[number].end_ns)
			printf("{\"conn\": %llu, \"direction\": \"%s\", \"bytes\": 4, "
			       "\"begin_ns\": %llu, \"end_ns\": %llu, \"number\": %d, "
			       "\"tid\": %d}\n",
			       cookie, direction, moved[number].begin_ns, moved[number].end_ns,
			       number, gettid());
}

static void *reader(void *unused)
{
	int number;

	run_on(1);
	while (1) {
		int ended = all_sent;
		unsigned long long begin_ns = now();

		if (recv(ends[1], &number, sizeof(number), MSG_DONTWAIT) == sizeof(number))
			received[number] = (struct moved){begin_ns, now()};
		else if (ended)
			break;
	}
	print(1, "received", received);
	return unused;
}

int main(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	pthread_t thread;

	ends[0] = socket(AF_INET, SOCK_DGRAM, 0);
	ends[1] = socket(AF_INET, SOCK_DGRAM, 0);
	must(!bind(ends[1], (struct sockaddr *)&at, len), "bind");
	must(!getsockname(ends[1], (struct sockaddr *)&at, &len), "getsockname");
	must(!connect(ends[0], (struct sockaddr *)&at, len), "connect");
	run_on(0);
	must(!pthread_create(&thread, NULL, reader, NULL), "pthread_create");
	for (int number = 0; number < COUNT; number++) {
		unsigned long long until_ns = now() + number % PAUSES * PAUSE_NS;

		while (now() < until_ns)
			;
		sent[number].begin_ns = now();
		must(send(ends[0], &number, sizeof(number), 0) == sizeof(number), "send");
		sent[number].end_ns = now();
	}
	all_sent = 1;
	pthread_join(thread, NULL);
	print(0, "sent", sent);
	return 0;
}
