/* Sends 251 messages of random sizes to itself and takes them in other random sizes, one thread each; its
 * arguments say how.
 * To send:
 *   send      send()
 *   splice    write() into a pipe, splice() out of it
 *   vmsplice  the same with pages of the program's own (vmsplice())
 *   sendfile  of a file
 *   zerocopy  send() with MSG_ZEROCOPY
 * To take:
 *   recv      recv()
 *   splice    splice() into a pipe, when there is something (SPLICE_F_NONBLOCK)
 *   block     the same, waiting for the first byte
 *   mixed     by turns splice and recv
 *   uring     IORING_OP_SPLICE: a thread of the kernel's waits and does it
 *   zerocopy  TCP_ZEROCOPY_RECEIVE, and recv() for what cannot be mapped
 * Each byte is a function of its offset, and is checked. Prints a line of JSON for each call that moved bytes: the
 * connection, which way and how, how many, where they end in the stream, when the call began and ended, and the
 * thread. */
#include "testbed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MESSAGES 251
#define MOST_BYTES (64 << 10) /* what a pipe holds, and the kernel sends or takes of it at once */
#define MOST_CALLS 20000
#define SEND_BUFFER 100000
#define PAGE 4096
#define TCP_ZEROCOPY_RECEIVE 35

/* include/uapi/linux/tcp.h, which does not go with netinet/in.h */
struct zerocopy_receive {
	unsigned long long address;
	unsigned length, recv_skip_hint, inq;
	int err;
	unsigned long long copybuf_address;
	int copybuf_len;
	unsigned flags;
};

/* One end of the connection, one way. */
struct end {
	int fd, pipe[2], tid, count;
	const char *direction, *how;
	unsigned long long cookie, random, offset;
	struct {
		const char *how;
		unsigned long long begin_ns, end_ns, bytes, offset_end;
	} calls[MOST_CALLS];
};

static struct end sender = {.direction = "sent", .random = 7};
static struct end receiver = {.direction = "received", .random = 8};

/* From 1 to most. */
static unsigned random_to(struct end *end, unsigned most)
{
	end->random = end->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (end->random >> 33) % most + 1;
}

/* Now and then the other side has to wait. */
static void come_late(struct end *end)
{
	struct timespec pause = {.tv_nsec = random_to(end, 1000000)};

	if (random_to(end, 100) <= 15)
		nanosleep(&pause, NULL);
}

static char byte_at(unsigned long long offset)
{
	return offset * 0x9e3779b97f4a7c15ULL >> 56;
}

static int is(const struct end *end, const char *how)
{
	return !strcmp(end->how, how);
}

static void note(struct end *end, const char *how, unsigned long long begin_ns, long bytes)
{
	must(bytes > 0 && end->count < MOST_CALLS, how);
	end->offset += bytes;
	end->calls[end->count].how = how;
	end->calls[end->count].begin_ns = begin_ns;
	end->calls[end->count].end_ns = now();
	end->calls[end->count].bytes = bytes;
	end->calls[end->count++].offset_end = end->offset;
}

/* ---- to send ---- */

static int file;

static long give_by_pipe(const char *bytes, unsigned len, unsigned long long *begin_ns)
{
	struct iovec pages = {.iov_base = (void *)bytes, .iov_len = len};
	long in = is(&sender, "splice") ? write(sender.pipe[1], bytes, len)
					: vmsplice(sender.pipe[1], &pages, 1, 0);

	must(in == (long)len, "a pipe");
	*begin_ns = now();
	return splice(sender.pipe[0], NULL, sender.fd, NULL, len, SPLICE_F_MOVE);
}

static long give(const char *bytes, unsigned len, unsigned long long *begin_ns)
{
	off_t from = sender.offset;

	*begin_ns = now();
	if (is(&sender, "send"))
		return send(sender.fd, bytes, len, 0);
	if (is(&sender, "zerocopy"))
		return send(sender.fd, bytes, len, MSG_ZEROCOPY);
	if (!is(&sender, "sendfile"))
		return give_by_pipe(bytes, len, begin_ns);
	must(pwrite(file, bytes, len, from) == (long)len, "a file");
	*begin_ns = now();
	return sendfile(sender.fd, file, &from, len);
}

/* Until the kernel has let go of the bytes: it has sent, or copied them. */
static void await_release(void)
{
	struct msghdr message = {0};
	char control[256];
	struct pollfd error = {.fd = sender.fd};

	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	must(poll(&error, 1, -1) == 1 && recvmsg(sender.fd, &message, MSG_ERRQUEUE) >= 0,
	     "MSG_ERRQUEUE");
}

/* Bytes that the kernel may still read are not overwritten: each message has pages of its own. */
static void *send_all(void *unused)
{
	size_t room = (size_t)MESSAGES * MOST_BYTES;
	char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long long begin_ns;
	int on = 1;

	sender.tid = gettid();
	file = memfd_create("file", 0);
	must(!setsockopt(sender.fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), "SO_ZEROCOPY");
	for (int i = 0; i < MESSAGES; i++, at += MOST_BYTES) {
		unsigned len = random_to(&sender, MOST_BYTES);

		/* pages can be mapped if they are whole */
		if (is(&receiver, "zerocopy") && random_to(&sender, 4) > 1)
			len = (len + PAGE - 1) & -PAGE;
		for (unsigned j = 0; j < len; j++)
			at[j] = byte_at(sender.offset + j);
		long given = give(at, len, &begin_ns);
		must(given == (long)len, sender.how);
		note(&sender, sender.how, begin_ns, given);
		if (is(&sender, "zerocopy"))
			await_release();
		come_late(&sender);
	}
	must(!shutdown(sender.fd, SHUT_WR), "shutdown");
	return unused;
}

/* ---- to take ---- */

static void check(const char *bytes, long len)
{
	for (long i = 0; i < len; i++)
		must(bytes[i] == byte_at(receiver.offset + i), "a byte is not what was sent");
}

/* 0: the end of the stream. */
static long take_by_recv(unsigned len)
{
	static char bytes[MOST_BYTES];
	unsigned long long begin_ns = now();
	long taken = recv(receiver.fd, bytes, len, 0);

	must(taken >= 0, "recv");
	check(bytes, taken);
	if (taken)
		note(&receiver, "recv", begin_ns, taken);
	return taken;
}

/* io_uring with one entry. */
static struct {
	int fd;
	struct io_uring_sqe *sqe;
	unsigned *sq_tail, *cq_head;
	struct io_uring_cqe *cqes;
	unsigned cq_mask;
} ring;

static void ring_begin(void)
{
	struct io_uring_params params = {0};
	char *at;

	ring.fd = syscall(SYS_io_uring_setup, 1, &params);
	must(ring.fd >= 0, "io_uring_setup");
	at = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	ring.sqe = mmap(NULL, sizeof(*ring.sqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
			IORING_OFF_SQES);
	must(at != MAP_FAILED && (void *)ring.sqe != MAP_FAILED, "mmap");
	ring.sq_tail = (unsigned *)(at + params.sq_off.tail);
	ring.cq_head = (unsigned *)(at + params.cq_off.head);
	ring.cqes = (struct io_uring_cqe *)(at + params.cq_off.cqes);
	ring.cq_mask = *(unsigned *)(at + params.cq_off.ring_mask);
	*(unsigned *)(at + params.sq_off.array) = 0;
}

static long splice_by_ring(unsigned len)
{
	unsigned head = *ring.cq_head;

	*ring.sqe = (struct io_uring_sqe){.opcode = IORING_OP_SPLICE, .fd = receiver.pipe[1],
					  .splice_fd_in = receiver.fd, .splice_off_in = -1,
					  .off = -1, .len = len};
	__atomic_store_n(ring.sq_tail, *ring.sq_tail + 1, __ATOMIC_RELEASE);
	must(syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
	     "io_uring_enter");
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	return ring.cqes[head & ring.cq_mask].res;
}

static long take_by_splice(unsigned len)
{
	int flags = is(&receiver, "block") ? 0 : SPLICE_F_NONBLOCK;
	struct pollfd ready = {.fd = receiver.fd, .events = POLLIN};
	static char bytes[MOST_BYTES];
	unsigned long long begin_ns;
	long taken;

	if (flags)
		must(poll(&ready, 1, -1) == 1, "poll");
	begin_ns = now();
	taken = is(&receiver, "uring")
			? splice_by_ring(len)
			: splice(receiver.fd, NULL, receiver.pipe[1], NULL, len, flags);
	must(taken >= 0, "splice");
	if (!taken)
		return 0;
	unsigned long long offset = receiver.offset;
	note(&receiver, "splice", begin_ns, taken);
	must(read(receiver.pipe[0], bytes, taken) == taken, "a pipe");
	receiver.offset = offset;
	check(bytes, taken);
	receiver.offset = offset + taken;
	return taken;
}

/* Maps what lies in whole pages, and copies what comes before and after. */
static long take_by_zerocopy(unsigned len)
{
	static char *pages, rest[MOST_BYTES];
	struct zerocopy_receive zc = {.length = (len + PAGE - 1) & -PAGE};
	struct pollfd ready = {.fd = receiver.fd, .events = POLLIN};
	socklen_t zc_len = sizeof(zc);
	unsigned long long begin_ns;

	if (!pages)
		pages = mmap(NULL, MOST_BYTES, PROT_READ, MAP_SHARED, receiver.fd, 0);
	must(pages != MAP_FAILED, "mmap of a socket");
	zc.address = (size_t)pages;
	zc.copybuf_address = (size_t)rest;
	zc.copybuf_len = random_to(&receiver, 2) == 1 ? 0 : PAGE;
	must(poll(&ready, 1, -1) == 1, "poll");
	begin_ns = now();
	if (getsockopt(receiver.fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &zc, &zc_len)) {
		must(errno == EIO, "TCP_ZEROCOPY_RECEIVE"); /* the end of the stream */
		return take_by_recv(1);
	}
	if (zc.length || zc.copybuf_len > 0) {
		unsigned long long offset = receiver.offset;

		note(&receiver, zc.length ? "zerocopy" : "zerocopy_copied", begin_ns,
		     zc.length + zc.copybuf_len);
		receiver.offset = offset;
		check(pages, zc.length);
		receiver.offset += zc.length;
		check(rest, zc.copybuf_len);
		receiver.offset += zc.copybuf_len;
		return 1;
	}
	len = zc.recv_skip_hint < MOST_BYTES ? zc.recv_skip_hint : MOST_BYTES;
	return take_by_recv(len ? len : 1);
}

static long take(int number)
{
	unsigned len = random_to(&receiver, MOST_BYTES);

	if (is(&receiver, "recv") || (is(&receiver, "mixed") && number % 2))
		return take_by_recv(len);
	return is(&receiver, "zerocopy") ? take_by_zerocopy(len) : take_by_splice(len);
}

/* ---- */

static void connect_ends(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at), cookie_len = sizeof(sender.cookie);
	int listener = socket(AF_INET, SOCK_STREAM, 0), buffer = SEND_BUFFER;

	must(!bind(listener, (struct sockaddr *)&at, len) && !listen(listener, 1), "listen");
	must(!getsockname(listener, (struct sockaddr *)&at, &len), "getsockname");
	sender.fd = socket(AF_INET, SOCK_STREAM, 0);
	must(!setsockopt(sender.fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)), "SO_SNDBUF");
	must(!connect(sender.fd, (struct sockaddr *)&at, len), "connect");
	receiver.fd = accept(listener, NULL, NULL);
	must(!getsockopt(sender.fd, SOL_SOCKET, SO_COOKIE, &sender.cookie, &cookie_len) &&
		     !getsockopt(receiver.fd, SOL_SOCKET, SO_COOKIE, &receiver.cookie, &cookie_len),
	     "SO_COOKIE");
	must(!pipe(sender.pipe) && !pipe(receiver.pipe), "pipe");
	/* a byte may take a page */
	must(fcntl(sender.pipe[1], F_SETPIPE_SZ, 1 << 20) >= 0 &&
		     fcntl(receiver.pipe[1], F_SETPIPE_SZ, 1 << 20) >= 0,
	     "F_SETPIPE_SZ");
}

static void print_calls(const struct end *end)
{
	for (int i = 0; i < end->count; i++)
		printf("{\"conn\": %llu, \"direction\": \"%s\", \"how\": \"%s\", \"bytes\": %llu, "
		       "\"offset_end\": %llu, \"begin_ns\": %llu, \"end_ns\": %llu, \"tid\": %d}\n",
		       end->cookie, end->direction, end->calls[i].how, end->calls[i].bytes,
		       end->calls[i].offset_end, end->calls[i].begin_ns, end->calls[i].end_ns, end->tid);
}

int main(int arguments, char **argument)
{
	pthread_t thread;

	must(arguments == 3, "arguments: how to send, how to take");
	sender.how = argument[1];
	receiver.how = argument[2];
	connect_ends();
	if (is(&receiver, "uring"))
		ring_begin();
	must(!pthread_create(&thread, NULL, send_all, NULL), "pthread_create");
	receiver.tid = gettid();
	for (int number = 0; take(number); number++)
		come_late(&receiver);
	must(!pthread_join(thread, NULL), "pthread_join");
	print_calls(&sender);
	print_calls(&receiver);
	return 0;
}
