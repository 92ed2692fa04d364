/* A client that asks and a server that answers on loopback, over sockets that are no plain TCP: its first argument.
 *   tls        TCP; the kernel encrypts its records, with a key that both ends know
 *   smc        SMC sockets, which fall back to TCP where no device is there
 *   udp, udp6  UDP sockets that are connected to each other, over IPv4 and IPv6
 *   unix, seqpacket  UNIX sockets
 * The second is how many rounds: in each one send and one receive at either end, of BYTES. Says as JSON how many. */
#include <arpa/inet.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 100

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

static void demand(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* Has the kernel encrypt what is sent, and decrypt what comes; both ends use one key for both ways. */
static void encrypt(int fd)
{
	struct tls12_crypto_info_aes_gcm_128 keys = {
		.info = {.version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128},
		.key = "not so secret",
		.salt = "and",
	};

	demand(!setsockopt(fd, SOL_TCP, TCP_ULP, "tls", sizeof("tls")), "TCP_ULP");
	demand(!setsockopt(fd, SOL_TLS, TLS_TX, &keys, sizeof(keys)), "TLS_TX");
	demand(!setsockopt(fd, SOL_TLS, TLS_RX, &keys, sizeof(keys)), "TLS_RX");
}

/* A round begins with a send at one end and with a receive at the other. */
static void talk(int fd, int rounds, int asks)
{
	char data[BYTES] = {0};

	for (int half = 0; half < 2 * rounds; half++) {
		if ((half + asks) % 2)
			demand(send(fd, data, BYTES, 0) == BYTES, "send");
		else
			demand(recv(fd, data, BYTES, MSG_WAITALL) == BYTES, "recv");
	}
}

/* A UDP socket on loopback, and its address. */
static int udp_socket(int family, struct sockaddr_storage *address, socklen_t *length)
{
	int fd = socket(family, SOCK_DGRAM, 0);

	memset(address, 0, sizeof(*address));
	address->ss_family = family;
	if (family == AF_INET)
		((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)address)->sin6_addr = in6addr_loopback;
	*length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	demand(fd >= 0 && !bind(fd, (struct sockaddr *)address, *length), "bind");
	demand(!getsockname(fd, (struct sockaddr *)address, length), "getsockname");
	return fd;
}

static void connect_udp(int family, int ends[2])
{
	struct sockaddr_storage addresses[2];
	socklen_t length;

	for (int i = 0; i < 2; i++)
		ends[i] = udp_socket(family, &addresses[i], &length);
	for (int i = 0; i < 2; i++)
		demand(!connect(ends[i], (struct sockaddr *)&addresses[!i], length), "connect");
}

/* Two ends that are connected before anybody talks; 0: such sockets are not. */
static int make_pair(const char *kind, int ends[2])
{
	if (!strcmp(kind, "udp"))
		connect_udp(AF_INET, ends);
	else if (!strcmp(kind, "udp6"))
		connect_udp(AF_INET6, ends);
	else if (!strcmp(kind, "unix"))
		demand(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	else if (!strcmp(kind, "seqpacket"))
		demand(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), "socketpair");
	else
		return 0;
	return 1;
}

static void finish(int rounds)
{
	int status;

	demand(wait(&status) > 0 && status == 0, "client");
	printf("{\"rounds\": %d, \"bytes\": %d}\n", rounds, BYTES);
}

static void talk_over_connection(int is_smc, int rounds)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(address);
	int family = is_smc ? AF_SMC : AF_INET;
	int listener = socket(family, SOCK_STREAM, 0), fd, status;

	demand(listener >= 0, "socket");
	demand(!bind(listener, (struct sockaddr *)&address, sizeof(address)), "bind");
	demand(!listen(listener, 1), "listen");
	demand(!getsockname(listener, (struct sockaddr *)&address, &length), "getsockname");
	if (!fork()) {
		fd = socket(family, SOCK_STREAM, 0);
		demand(!connect(fd, (struct sockaddr *)&address, sizeof(address)), "connect");
		if (!is_smc)
			encrypt(fd);
		talk(fd, rounds, 1);
		/* until the server has read all */
		demand(read(fd, &status, 1) == 0, "end");
		exit(0);
	}
	fd = accept(listener, NULL, NULL);
	demand(fd >= 0, "accept");
	if (!is_smc)
		encrypt(fd);
	talk(fd, rounds, 0);
	close(fd);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "tls";
	int rounds = argc > 2 ? atoi(argv[2]) : 1, ends[2];

	if (!make_pair(kind, ends)) {
		talk_over_connection(!strcmp(kind, "smc"), rounds);
	} else if (!fork()) {
		talk(ends[1], rounds, 1);
		return 0;
	} else {
		talk(ends[0], rounds, 0);
	}
	finish(rounds);
	return 0;
}
