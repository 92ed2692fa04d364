/* Sends 101 messages of 30,000 bytes to itself with MSG_ZEROCOPY over loopback, where the kernel copies each after all, and
 * 23 without it. Its argument says when it takes the reports of their ends: `after` all of them, or `each` at once.
 * Prints a line of JSON: the connection, and the counts of the reports. */
#include "testbed.h"

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ZEROCOPY_SENDS 101
#define PLAIN_SENDS 23
#define BYTES 30000

static char bytes[BYTES];
static int sender, receiver;
static unsigned long long cookie, copied, not_copied;

static void connect_ends(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	socklen_t len = sizeof(at), cookie_len = sizeof(cookie);

	must(!bind(listener, (struct sockaddr *)&at, len) && !listen(listener, 1), "listen");
	must(!getsockname(listener, (struct sockaddr *)&at, &len), "getsockname");
	sender = socket(AF_INET, SOCK_STREAM, 0);
	must(!connect(sender, (struct sockaddr *)&at, len), "connect");
	receiver = accept(listener, NULL, NULL);
	must(!getsockopt(sender, SOL_SOCKET, SO_COOKIE, &cookie, &cookie_len), "SO_COOKIE");
	must(!setsockopt(sender, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), "SO_ZEROCOPY");
}

/* One message, received before the next is sent. */
static void move(int flags)
{
	must(send(sender, bytes, BYTES, flags) == BYTES, "send");
	must(recv(receiver, bytes, BYTES, MSG_WAITALL) == BYTES, "recv");
}

/* Waits for a report and takes it. */
static void take_report(void)
{
	struct pollfd error = {.fd = sender};
	struct sock_extended_err *report;
	char control[128];
	struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};

	must(poll(&error, 1, -1) == 1, "poll");
	must(recvmsg(sender, &message, MSG_ERRQUEUE) >= 0, "MSG_ERRQUEUE");
	report = (struct sock_extended_err *)CMSG_DATA(CMSG_FIRSTHDR(&message));
	must(report->ee_origin == SO_EE_ORIGIN_ZEROCOPY, "the origin");
	if (report->ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
		copied += report->ee_data - report->ee_info + 1;
	else
		not_copied += report->ee_data - report->ee_info + 1;
}

int main(int arguments, char **argument)
{
	int at_once = arguments > 1 && !strcmp(argument[1], "each");

	connect_ends();
	for (int i = 0; i < PLAIN_SENDS; i++)
		move(0);
	for (unsigned long long i = 1; i <= ZEROCOPY_SENDS; i++) {
		move(MSG_ZEROCOPY);
		while (at_once && copied + not_copied < i)
			take_report();
	}
	while (copied + not_copied < ZEROCOPY_SENDS)
		take_report();
	printf("{\"conn\": %llu, \"copied\": %llu, \"not_copied\": %llu}\n", cookie, copied, not_copied);
	return 0;
}
