/* A server that uses 50 ms of CPU time in burn() for each byte that comes. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;

static long cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

__attribute__((noinline)) static void burn(void)
{
	long end = cpu_ms() + 50;

	while (cpu_ms() < end)
		for (int i = 0; i < 100000; i++)
			sum += i;
}

int main(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int sock;
	char byte;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (void *)&address, size) || listen(listener, 1) ||
	    getsockname(listener, (void *)&address, &size))
		return 1;
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	sock = accept(listener, NULL, NULL);
	while (read(sock, &byte, 1) == 1) {
		burn();
		if (write(sock, "!", 1) != 1)
			return 1;
	}
	return 0;
}
