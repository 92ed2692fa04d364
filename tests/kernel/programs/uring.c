/* Sends 503 messages of random sizes to itself and receives them in other random sizes, through io_uring; one
 * of its threads sends, another receives, each by a ring of its own. Its argument says how:
 *   plain   IORING_OP_SEND and RECV: at once if the socket lets it, or later in the thread (task work)
 *   file    IORING_OP_WRITE and READ
 *   worker  the same as plain, begun by a thread of the kernel's (IOSQE_ASYNC)
 *   polled  a thread of the kernel's does all (IORING_SETUP_SQPOLL)
 *   many    one RECV for all messages (IORING_RECV_MULTISHOT)
 *   zc      IORING_OP_SEND_ZC
 *   usage   the same, and the kernel is asked whether it copied; the last line has the counts
 *   throw   what is received is thrown away (MSG_TRUNC)
 * Prints a line of JSON for each completion that moved bytes: the connection, which way, how many, where they
 * end in the stream, when it was asked for and when it was there, the thread that asked, and whether it was thrown
 * away. */
#include "testbed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MESSAGES 503
#define MOST_SENT 30000
#define MOST_TAKEN 65536
#define MOST_COMPLETIONS 100000
#define SEND_BUFFER 50000
#define ENTRIES 4
#ifndef IORING_SEND_ZC_REPORT_USAGE /* headers before Linux 6.2 */
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3)
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)
#endif
/* powers of two */
#define BUFFERS 16
#define BUFFER_BYTES 4096

static const char *const hows[] = {"plain", "file", "worker", "polled", "many", "zc", "usage", "throw"};
static enum how { PLAIN, FILES, WORKER, POLLED, MANY, ZC, USAGE, THROW } how;

struct ring {
	int fd;
	unsigned *sq_tail, *sq_flags, *cq_head, *cq_tail, sq_mask, cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

/* Of a completion. */
struct done {
	int res;
	unsigned flags;
};

/* One end of a connection, one way. */
struct end {
	int fd;
	const char *direction;
	unsigned long long cookie, random, offset;
	struct ring ring;
	struct {
		unsigned long long begin_ns, end_ns, bytes, offset_end;
	} moved[MOST_COMPLETIONS];
	int count;
	int tid;
};

static struct end sender = {.direction = "sent", .random = 7};
static struct end receiver = {.direction = "received", .random = 8};
static unsigned long long copied; /* zero-copy sends */

/* From 1 to most. */
static unsigned random_to(struct end *end, unsigned most)
{
	end->random = end->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (end->random >> 33) % most + 1;
}

/* Now and then the other side has to wait. */
static void come_late(struct end *end, unsigned percent)
{
	struct timespec pause = {.tv_nsec = random_to(end, 2000000)};

	if (random_to(end, 100) <= percent)
		nanosleep(&pause, NULL);
}

static void ring_begin(struct ring *ring)
{
	struct io_uring_params params = {.sq_thread_idle = 2};
	size_t bytes;
	char *at;

	if (how == POLLED)
		params.flags = IORING_SETUP_SQPOLL;
	ring->fd = syscall(SYS_io_uring_setup, ENTRIES, &params);
	must(ring->fd >= 0 && params.features & IORING_FEAT_SINGLE_MMAP, "io_uring_setup");
	bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			  MAP_SHARED, ring->fd, IORING_OFF_SQES);
	must(at != MAP_FAILED && (void *)ring->sqes != MAP_FAILED, "mmap");
	ring->sq_tail = (unsigned *)(at + params.sq_off.tail);
	ring->sq_flags = (unsigned *)(at + params.sq_off.flags);
	ring->sq_mask = *(unsigned *)(at + params.sq_off.ring_mask);
	ring->cq_head = (unsigned *)(at + params.cq_off.head);
	ring->cq_tail = (unsigned *)(at + params.cq_off.tail);
	ring->cq_mask = *(unsigned *)(at + params.cq_off.ring_mask);
	ring->cqes = (struct io_uring_cqe *)(at + params.cq_off.cqes);
	for (unsigned i = 0; i < params.sq_entries; i++)
		((unsigned *)(at + params.sq_off.array))[i] = i;
}

static void ring_enter(struct ring *ring, unsigned submit, unsigned wait)
{
	unsigned flags = wait ? IORING_ENTER_GETEVENTS : 0;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (how == POLLED && __atomic_load_n(ring->sq_flags, __ATOMIC_ACQUIRE) & IORING_SQ_NEED_WAKEUP)
		flags |= IORING_ENTER_SQ_WAKEUP;
	must(syscall(SYS_io_uring_enter, ring->fd, submit, wait, flags, NULL, 0) >= 0, "io_uring_enter");
}

/* Submits one request, and waits for a completion. */
static void ring_submit(struct ring *ring, const struct io_uring_sqe *sqe)
{
	unsigned tail = *ring->sq_tail;

	ring->sqes[tail & ring->sq_mask] = *sqe;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
	ring_enter(ring, 1, 1);
}

/* The next completion. */
static struct done ring_reap(struct ring *ring)
{
	unsigned head = *ring->cq_head;
	const struct io_uring_cqe *cqe;
	struct done done;

	while (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		ring_enter(ring, 0, 1);
	cqe = &ring->cqes[head & ring->cq_mask];
	done.res = cqe->res;
	done.flags = cqe->flags;
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return done;
}

static void note(struct end *end, unsigned long long begin_ns, int bytes)
{
	must(bytes > 0 && end->count < MOST_COMPLETIONS, end->direction);
	end->offset += bytes;
	end->moved[end->count].begin_ns = begin_ns;
	end->moved[end->count].end_ns = now();
	end->moved[end->count].bytes = bytes;
	end->moved[end->count++].offset_end = end->offset;
}

/* Moves some of `bytes`; 0: the end of the stream. */
static int move(struct end *end, int op, void *at, unsigned bytes)
{
	struct io_uring_sqe sqe = {.opcode = op, .fd = end->fd, .addr = (size_t)at, .len = bytes};
	unsigned long long begin_ns = now();
	struct done done;

	if (how == WORKER)
		sqe.flags = IOSQE_ASYNC;
	if (how == THROW && op == IORING_OP_RECV)
		sqe.msg_flags = MSG_TRUNC;
	if (how == USAGE && op == IORING_OP_SEND_ZC)
		sqe.ioprio = IORING_SEND_ZC_REPORT_USAGE;
	ring_submit(&end->ring, &sqe);
	done = ring_reap(&end->ring);
	if (done.res)
		note(end, begin_ns, done.res);
	if (done.flags & IORING_CQE_F_MORE) /* another completion says that the kernel no longer needs the bytes */
		if (ring_reap(&end->ring).res & IORING_NOTIF_USAGE_ZC_COPIED)
			copied++;
	return done.res;
}

static void *send_all(void *unused)
{
	int op = how == FILES ? IORING_OP_WRITE : how == ZC || how == USAGE ? IORING_OP_SEND_ZC : IORING_OP_SEND;
	static char bytes[MOST_SENT];

	sender.tid = gettid();
	ring_begin(&sender.ring);
	for (int i = 0; i < MESSAGES; i++) {
		int rest = random_to(&sender, MOST_SENT);

		while (rest)
			rest -= move(&sender, op, bytes, rest);
		come_late(&sender, 15);
	}
	must(!shutdown(sender.fd, SHUT_WR), "shutdown");
	return unused;
}

static void receive_each(void)
{
	int op = how == FILES ? IORING_OP_READ : IORING_OP_RECV;
	static char bytes[MOST_TAKEN];

	while (move(&receiver, op, bytes, random_to(&receiver, MOST_TAKEN)))
		come_late(&receiver, 15);
}

static void give_buffer(struct io_uring_buf_ring *ring, char *buffers, unsigned id)
{
	struct io_uring_buf *to = &ring->bufs[ring->tail & (BUFFERS - 1)];

	to->addr = (size_t)(buffers + id * BUFFER_BYTES);
	to->len = BUFFER_BYTES;
	to->bid = id;
	__atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
}

/* Each completion has taken one of the buffers; when there was none, the request has ended. */
static void receive_many(void)
{
	struct io_uring_sqe sqe = {.opcode = IORING_OP_RECV, .fd = receiver.fd, .flags = IOSQE_BUFFER_SELECT,
				   .ioprio = IORING_RECV_MULTISHOT};
	static char buffers[BUFFERS * BUFFER_BYTES];
	struct io_uring_buf_ring *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct io_uring_buf_reg reg = {.ring_addr = (size_t)ring, .ring_entries = BUFFERS};
	unsigned long long begin_ns = 0;
	struct done done = {};

	must(!syscall(SYS_io_uring_register, receiver.ring.fd, IORING_REGISTER_PBUF_RING, &reg, 1),
	     "IORING_REGISTER_PBUF_RING");
	for (unsigned id = 0; id < BUFFERS; id++)
		give_buffer(ring, buffers, id);
	do {
		if (!(done.flags & IORING_CQE_F_MORE)) {
			begin_ns = now();
			ring_submit(&receiver.ring, &sqe);
		}
		done = ring_reap(&receiver.ring);
		if (done.res > 0) {
			note(&receiver, begin_ns, done.res);
			give_buffer(ring, buffers, done.flags >> IORING_CQE_BUFFER_SHIFT);
		}
		come_late(&receiver, 1);
	} while (done.res > 0 || done.res == -ENOBUFS);
}

static void connect_ends(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM, 0), buffer = SEND_BUFFER;
	socklen_t len = sizeof(at), cookie_len = sizeof(sender.cookie);

	must(!bind(listener, (struct sockaddr *)&at, len) && !listen(listener, 1), "listen");
	must(!getsockname(listener, (struct sockaddr *)&at, &len), "getsockname");
	sender.fd = socket(AF_INET, SOCK_STREAM, 0);
	must(!setsockopt(sender.fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)), "SO_SNDBUF");
	must(!connect(sender.fd, (struct sockaddr *)&at, len), "connect");
	receiver.fd = accept(listener, NULL, NULL);
	must(!getsockopt(sender.fd, SOL_SOCKET, SO_COOKIE, &sender.cookie, &cookie_len) &&
		     !getsockopt(receiver.fd, SOL_SOCKET, SO_COOKIE, &receiver.cookie, &cookie_len),
	     "SO_COOKIE");
}

static void print_moved(const struct end *end)
{
	for (int i = 0; i < end->count; i++)
		printf("{\"conn\": %llu, \"direction\": \"%s\", \"bytes\": %llu, \"offset_end\": %llu, "
		       "\"begin_ns\": %llu, \"end_ns\": %llu, \"tid\": %d, \"thrown\": %s}\n",
		       end->cookie, end->direction, end->moved[i].bytes, end->moved[i].offset_end,
		       end->moved[i].begin_ns, end->moved[i].end_ns, end->tid,
		       how == THROW && end == &receiver ? "true" : "false");
}

int main(int arguments, char **argument)
{
	pthread_t thread;

	for (unsigned i = 0; i < sizeof(hows) / sizeof(*hows); i++)
		if (arguments > 1 && !strcmp(argument[1], hows[i]))
			how = i;
	connect_ends();
	must(!pthread_create(&thread, NULL, send_all, NULL), "pthread_create");
	receiver.tid = gettid();
	ring_begin(&receiver.ring);
	if (how == MANY)
		receive_many();
	else
		receive_each();
	must(!pthread_join(thread, NULL), "pthread_join");
	print_moved(&sender);
	print_moved(&receiver);
	if (how == USAGE)
		printf("{\"conn\": %llu, \"copied\": %llu}\n", sender.cookie, copied);
	return 0;
}
