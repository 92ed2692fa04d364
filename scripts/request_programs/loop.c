/* A server with one epoll loop: it reads all requests that are there, computes for each when it reads it, and then answers
 * them all. Its log has a line a request: the client's port, offset, CPU time and time asleep, each at least and at most.
 *
 * usage: loop PORT LOG */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST = 16, RESPONSE = 64, MOST = 64 };

static uint64_t offsets[1024];

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static unsigned port(int fd) {
    struct sockaddr_in other = {0};
    socklen_t size = sizeof other;
    getpeername(fd, (void *)&other, &size);
    return ntohs(other.sin_port);
}

/* A request: where its answer goes, and what it took. */
struct request {
    int fd;
    uint64_t cpu, cpu_most, asked, slept;
};

/* Adds the CPU time of work that ends now: what the loop used since the work before may be of it. */
static void add_cpu(struct request *of, uint64_t begin) {
    static uint64_t last;
    uint64_t now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    of->cpu += now - begin;
    of->cpu_most += now - last;
    last = now;
}

static void work(struct request *of, const char *request) {
    uint64_t ns = strtoull(request + 1, NULL, 10) * 1000, since = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (request[0] == 's') {
        struct timespec time = {.tv_nsec = ns};
        uint64_t begin = clock_ns(CLOCK_MONOTONIC);
        nanosleep(&time, NULL);
        of->asked = ns;
        of->slept = clock_ns(CLOCK_MONOTONIC) - begin;
    } else {
        while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - since < ns)
            ;
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[MOST];
    FILE *out = fopen(argv[2], "w");
    char request[REQUEST + 1] = "", response[RESPONSE] = "";
    if (argc != 3 || !out) return 2;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, MOST)) return 1;
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(set, ready, MOST, -1), answered = 0;
        struct request answers[MOST];
        for (int at = 0; at < count; at++) {
            int fd = ready[at].data.fd;
            if (fd == listener) {
                event.data.fd = accept(listener, NULL, NULL);
                offsets[event.data.fd] = 0;
                epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            uint64_t since = clock_ns(CLOCK_THREAD_CPUTIME_ID);
            ssize_t size = recv(fd, request, REQUEST, MSG_WAITALL);
            if (size != REQUEST) {
                close(fd);
                continue;
            }
            if (request[0] == 'q') return fclose(out);
            answers[answered] = (struct request){.fd = fd};
            work(&answers[answered], request);
            add_cpu(&answers[answered++], since);
        }
        for (int at = 0; at < answered; at++) {
            struct request *of = &answers[at];
            uint64_t since = clock_ns(CLOCK_THREAD_CPUTIME_ID);
            send(of->fd, response, RESPONSE, MSG_NOSIGNAL);
            add_cpu(of, since);
            fprintf(out, "%u %lu %lu %lu %lu %lu\n", port(of->fd), offsets[of->fd], of->cpu, of->cpu_most, of->asked,
                    of->slept);
            offsets[of->fd] += REQUEST;
        }
    }
}
