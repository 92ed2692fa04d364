/* Messages over a loopback of its own that one CPU receives while it holds softirqs back: it runs a traffic
 * classifier by hand, which the kernel does with softirqs disabled. Prints for each of 31 messages when it
 * was sent and until when they were held back (CLOCK_MONOTONIC), as a line of JSON. */
#include "testbed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 31
#define HELD_NS 3000000
/* The verifier follows no more. */
#define MOST_STEPS 8000

#define SENDER 0
#define HOLDER 1

static int ends[2], holder;
static volatile int turn, begun, held;
static unsigned long long sent_ns[ROUNDS], until_ns[ROUNDS];

/* Enters a network namespace that receives its loopback on the holder's CPU. */
static void enter_namespace(void)
{
	struct ifreq loopback = {.ifr_name = "lo"};
	char mask[] = {'0' + (1 << HOLDER)};
	int file;

	must(!unshare(CLONE_NEWNET | CLONE_NEWNS), "unshare");
	must(!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount /");
	must(!mount("sysfs", "/sys", "sysfs", 0, NULL), "mount /sys");
	file = socket(AF_INET, SOCK_DGRAM, 0);
	must(!ioctl(file, SIOCGIFFLAGS, &loopback), "SIOCGIFFLAGS");
	loopback.ifr_flags |= IFF_UP;
	must(!ioctl(file, SIOCSIFFLAGS, &loopback), "SIOCSIFFLAGS");
	close(file);
	file = open("/sys/class/net/lo/queues/rx-0/rps_cpus", O_WRONLY);
	must(file >= 0 && write(file, mask, sizeof(mask)) == sizeof(mask), "rps_cpus");
	close(file);
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

/* A classifier that asks for the time until HELD_NS have passed, and returns the lower half of it. */
static void load_holder(void)
{
#define TIME {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_ktime_get_ns}
#define TIMES TIME, TIME, TIME, TIME, TIME, TIME, TIME, TIME
	struct bpf_insn steps[] = {
		TIME,
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 6, .src_reg = 0},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 6, .imm = HELD_NS},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 7, .imm = 0},
		TIMES, TIMES, TIMES, TIMES,
		{.code = BPF_JMP | BPF_JGE | BPF_X, .dst_reg = 0, .src_reg = 6, .off = 2},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 7, .imm = 1},
		{.code = BPF_JMP | BPF_JLT | BPF_K, .dst_reg = 7, .imm = MOST_STEPS, .off = -35},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_SCHED_CLS,
		.insn_cnt = sizeof(steps) / sizeof(steps[0]),
		.insns = (unsigned long)steps,
		.license = (unsigned long)"GPL",
	};

	holder = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	must(holder >= 0, "BPF_PROG_LOAD");
}

/* Holds softirqs back once; gives until when. */
static unsigned long long hold(void)
{
	char packet[64] = {};
	union bpf_attr run = {.test = {
		.prog_fd = holder,
		.data_in = (unsigned long)packet,
		.data_size_in = sizeof(packet),
		.repeat = 1,
	}};
	unsigned long long before_ns = now();

	begun = 1;
	must(!syscall(SYS_bpf, BPF_PROG_TEST_RUN, &run, sizeof(run)), "BPF_PROG_TEST_RUN");
	return before_ns + (run.test.retval - (unsigned int)before_ns);
}

static void *holds(void *unused)
{
	run_on(HOLDER);
	for (int round = 0; round < ROUNDS; round++) {
		while (turn <= round)
			;
		until_ns[round] = hold();
		held = round + 1;
	}
	return unused;
}

static void wait_ns(unsigned long long length_ns)
{
	unsigned long long end_ns = now() + length_ns;

	while (now() < end_ns)
		;
}

int main(void)
{
	pthread_t thread;
	char message[100] = {};

	enter_namespace();
	connect_ends();
	load_holder();
	run_on(SENDER);
	must(!pthread_create(&thread, NULL, holds, NULL), "pthread_create");
	for (int round = 0; round < ROUNDS; round++) {
		begun = 0;
		turn = round + 1;
		while (!begun)
			;
		/* from 0.2 ms on, of 3 */
		wait_ns(200000 + 70000 * round);
		sent_ns[round] = now();
		must(send(ends[0], message, sizeof(message), 0) == sizeof(message), "send");
		must(recv(ends[1], message, sizeof(message), MSG_WAITALL) == sizeof(message), "recv");
		while (held <= round)
			;
	}
	pthread_join(thread, NULL);
	for (int round = 0; round < ROUNDS; round++)
		printf("{\"sent_ns\": %llu, \"until_ns\": %llu}\n", sent_ns[round], until_ns[round]);
	return 0;
}
