/* A disk that fails, is slow, or is watched: loaded into whylat by LD_PRELOAD, it is between the program and the
 * files below one directory. In, by environment:
 *
 *   DISK_ROOT     the directory
 *   DISK_FAIL     FIRST:EVERY:ERRNO: of the operations that write, number FIRST (from 1) fails and then every
 *                 EVERY-th (0: none)
 *   DISK_RATE     bytes a second that a write takes, synchronously
 *   DISK_LOG      file to which all operations are written, with their data, in order
 *
 * No block device is needed, and nobody but this process is concerned.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static long first, every, error_number, rate, operations;
static int log_fd = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
	const char *fail = getenv("DISK_FAIL"), *slow = getenv("DISK_RATE"), *log = getenv("DISK_LOG");

	root = getenv("DISK_ROOT");
	if (fail)
		sscanf(fail, "%ld:%ld:%ld", &first, &every, &error_number);
	rate = slow ? atol(slow) : 0;
	if (log)
		log_fd = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_below(const char *path)
{
	size_t length = root ? strlen(root) : 0;

	return length && path && !strncmp(path, root, length) && (!path[length] || path[length] == '/');
}

static int path_of(int fd, char *path)
{
	char link[64];
	ssize_t length;

	if (!root)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, 4095);
	path[length > 0 ? length : 0] = 0;
	return is_below(path);
}

/* Called with the lock held. */
static void say(const char *what, const char *path, const char *other, long at, const void *data, size_t length)
{
	char line[9000];
	int used;

	if (log_fd < 0)
		return;
	used = snprintf(line, sizeof(line), "%s\t%s\t%s\t%ld\t%zu\n", what, path, other, at, length);
	if (REAL(write)(log_fd, line, used) != used || (length && REAL(write)(log_fd, data, length) != (ssize_t)length))
		abort();
}

/* Is it this operation's turn to fail? Called with the lock held. */
static int fails(void)
{
	long number = ++operations;

	if (!first || number < first || (number > first && (!every || (number - first) % every)))
		return 0;
	errno = error_number;
	return 1;
}

static void take_time(size_t bytes)
{
	struct timespec wait;
	double seconds;

	if (!rate)
		return;
	seconds = (double)bytes / rate;
	wait.tv_sec = seconds;
	wait.tv_nsec = (seconds - wait.tv_sec) * 1e9;
	nanosleep(&wait, NULL);
}

ssize_t write(int fd, const void *data, size_t length)
{
	char path[4096];
	ssize_t done = -1;
	long at;

	if (!path_of(fd, path))
		return REAL(write)(fd, data, length);
	pthread_mutex_lock(&lock);
	at = lseek(fd, 0, SEEK_CUR);
	if (!fails()) {
		done = REAL(write)(fd, data, length);
		if (done > 0)
			say("write", path, "", at, data, done);
	}
	pthread_mutex_unlock(&lock);
	take_time(length);
	return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	char path[4096];
	ssize_t all = 0;

	if (!path_of(fd, path))
		return REAL(writev)(fd, parts, count);
	for (int i = 0; i < count; i++) {
		ssize_t done = write(fd, parts[i].iov_base, parts[i].iov_len);

		if (done < 0)
			return all ? all : -1;
		all += done;
		if ((size_t)done < parts[i].iov_len)
			break;
	}
	return all;
}

#define SYNC(name)                                             \
	int name(int fd)                                       \
	{                                                      \
		char path[4096];                               \
		int done = -1;                                 \
                                                               \
		if (!path_of(fd, path))                        \
			return REAL(name)(fd);                 \
		pthread_mutex_lock(&lock);                     \
		if (!fails()) {                                \
			done = REAL(name)(fd);                 \
			if (!done)                             \
				say("sync", path, "", 0, 0, 0); \
		}                                              \
		pthread_mutex_unlock(&lock);                   \
		return done;                                   \
	}

SYNC(fsync)
SYNC(fdatasync)

int ftruncate64(int fd, off64_t length)
{
	char path[4096];
	int done = -1;

	if (!path_of(fd, path))
		return REAL(ftruncate64)(fd, length);
	pthread_mutex_lock(&lock);
	if (!fails()) {
		done = REAL(ftruncate64)(fd, length);
		if (!done)
			say("truncate", path, "", length, 0, 0);
	}
	pthread_mutex_unlock(&lock);
	return done;
}

int open64(const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;
	int done = -1;

	va_start(rest, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	if (!is_below(path) || !(flags & O_CREAT))
		return REAL(open64)(path, flags, mode);
	pthread_mutex_lock(&lock);
	if (!fails()) {
		done = REAL(open64)(path, flags, mode);
		if (done >= 0)
			say("create", path, "", 0, 0, 0);
	}
	pthread_mutex_unlock(&lock);
	return done;
}

#define NAMES(name, what, declaration, call, from, to)          \
	int name declaration                                    \
	{                                                       \
		int done = -1;                                  \
                                                                \
		if (!is_below(from))                            \
			return REAL(name) call;                 \
		pthread_mutex_lock(&lock);                      \
		if (!fails()) {                                 \
			done = REAL(name) call;                 \
			if (!done)                              \
				say(what, from, to, 0, 0, 0);   \
		}                                               \
		pthread_mutex_unlock(&lock);                    \
		return done;                                    \
	}

NAMES(rename, "rename", (const char *old, const char *new), (old, new), old, new)
NAMES(unlink, "unlink", (const char *path), (path), path, "")
NAMES(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), path, "")
