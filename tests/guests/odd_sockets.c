/* A client that asks and a server that answers on loopback, over sockets that are not what they seem: its first
 * argument.
 *   tls  TCP; the kernel encrypts its records, with a key that both ends know
 *   smc  SMC sockets, which fall back to TCP where no device is there
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

int main(int argc, char **argv)
{
	int is_smc = argc > 1 && !strcmp(argv[1], "smc"), rounds = argc > 2 ? atoi(argv[2]) : 1;
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
		return 0;
	}
	fd = accept(listener, NULL, NULL);
	demand(fd >= 0, "accept");
	if (!is_smc)
		encrypt(fd);
	talk(fd, rounds, 0);
	close(fd);
	demand(wait(&status) > 0 && status == 0, "client");
	printf("{\"rounds\": %d, \"bytes\": %d}\n", rounds, BYTES);
	return 0;
}
