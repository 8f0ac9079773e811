// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * waits CALL: waits by this call again and again, until its time limit ends. The calls are the rows of `calls`; `waits -l`
 * lists them. victim.h says how it is asked.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "victim.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define LIMIT_MS 12

static struct timespec limit = { 0, LIMIT_MS * 1000000 };
static int epoll_fd, event_fd, timer_fd, memory_fd, uring_fd, sem_id;
static struct epoll_event event;
static struct sembuf down = { 0, -1, 0 };
static sigset_t usr1;
static aio_context_t aio;
static mqd_t queue;
static uint32_t word;
static char byte[4096];

/* ---- calls with a time limit ---- */

#define CALL(name, call)                                                                              \
	static long call_##name(void)                                                                 \
	{                                                                                             \
		return call;                                                                              \
	}

CALL(epoll_wait, epoll_wait(epoll_fd, &event, 1, LIMIT_MS))
CALL(epoll_pwait, epoll_pwait(epoll_fd, &event, 1, LIMIT_MS, &usr1))
CALL(epoll_pwait2, syscall(SYS_epoll_pwait2, epoll_fd, &event, 1, &limit, &usr1, 8))
CALL(poll, poll(&(struct pollfd){ event_fd, POLLIN, 0 }, 1, LIMIT_MS))
CALL(ppoll, ppoll(&(struct pollfd){ event_fd, POLLIN, 0 }, 1, &limit, &usr1))
CALL(select, select(0, NULL, NULL, NULL, &(struct timeval){ 0, LIMIT_MS * 1000 }))
CALL(pselect, pselect(0, NULL, NULL, NULL, &limit, &usr1))
CALL(semtimedop, semtimedop(sem_id, &down, 1, &limit))
CALL(sigtimedwait, sigtimedwait(&usr1, NULL, &limit))

static long call_io_getevents(void)
{
	struct io_event done;

	return syscall(SYS_io_getevents, aio, 1, 1, &done, &limit);
}

static long call_io_pgetevents(void)
{
	struct io_event done;
	const struct { const sigset_t *mask; size_t bytes; } mask = { &usr1, 8 };

	return syscall(SYS_io_pgetevents, aio, 1, 1, &done, &limit, &mask);
}

static long call_io_uring_enter(void)
{
	struct __kernel_timespec time = { 0, limit.tv_nsec };
	struct io_uring_getevents_arg argument = { .ts = (uintptr_t)&time };

	return syscall(SYS_io_uring_enter, uring_fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument,
		       sizeof(argument));
}

static struct timespec limit_from_now(clockid_t clock)
{
	struct timespec until;

	clock_gettime(clock, &until);
	until.tv_nsec += limit.tv_nsec;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return until;
}

static long call_mq_timedreceive(void)
{
	struct timespec until = limit_from_now(CLOCK_REALTIME);

	return mq_timedreceive(queue, byte, sizeof(byte), NULL, &until);
}

CALL(futex, syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0))

static long call_futex_waitv(void)
{
	const struct { uint64_t value, address; uint32_t flags, reserved; } waiter = { 0, (uintptr_t)&word, 2, 0 };
	struct timespec until = limit_from_now(CLOCK_MONOTONIC);

	return syscall(SYS_futex_waitv, &waiter, 1, 0, &until, CLOCK_MONOTONIC);
}

CALL(nanosleep, nanosleep(&limit, NULL))

static long call_clock_nanosleep(void)
{
	struct timespec until = limit_from_now(CLOCK_MONOTONIC);

	return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static long call_timerfd(void)
{
	const struct itimerspec once = { .it_value = limit };

	timerfd_settime(timer_fd, 0, &once, NULL);
	return read(timer_fd, byte, 8);
}

/* It has no limit: it works for some milliseconds, and ends with EINTR if it sees a signal. */
static long call_fallocate(void)
{
	long result = fallocate(memory_fd, 0, 0, 4 << 20);

	expect(!ftruncate(memory_fd, 0), "ftruncate fails");
	return result;
}

/* ---- 32-bit calls ---- */

static long call32(long number, long a, long b, long c, long d)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(0)
			 : "r8", "r9", "r10", "r11", "memory");
	errno = -result;
	return result < 0 ? -1 : result;
}

/* This program lies below 4 GiB (-no-pie), and so do these. */
#define LOW(object) ((long)(uintptr_t)&(object))

static long call32_epoll_wait(void)
{
	return call32(256, epoll_fd, LOW(event), 1, LIMIT_MS);
}

static long call32_nanosleep(void)
{
	static uint32_t time[2] = { 0, LIMIT_MS * 1000000 };

	return call32(162, LOW(time), 0, 0, 0);
}

static long call32_semtimedop(void)
{
	return call32(420, sem_id, LOW(down), 1, LOW(limit));
}

/* ---- sockets ---- */

static int family = AF_UNIX;
static struct sockaddr_storage crowded; /* a listener that has enough connections */
static socklen_t crowded_bytes;
static int empty, full, lonely;	/* two connections, a listener without any */

static int limited(int fd)
{
	const struct timeval time = { 0, LIMIT_MS * 1000 };

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)))
		err(2, "setsockopt");
	return fd;
}

static int make_listener(struct sockaddr_storage *ret, socklen_t *ret_bytes)
{
	const struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = limited(socket(family, SOCK_STREAM, 0));

	*ret = (struct sockaddr_storage){ .ss_family = family };
	memcpy(ret, &loopback, family == AF_INET ? sizeof(loopback) : 0);
	*ret_bytes = sizeof(*ret);
	if (bind(fd, (void *)ret, family == AF_INET ? sizeof(loopback) : sizeof(sa_family_t)) || listen(fd, 1) ||
	    getsockname(fd, (void *)ret, ret_bytes))
		err(2, "listen");
	return fd;
}

static void make_sockets(void)
{
	struct sockaddr_storage address;
	socklen_t bytes;
	int reader;

	lonely = make_listener(&address, &bytes);
	empty = limited(socket(family, SOCK_STREAM, 0));
	full = limited(socket(family, SOCK_STREAM, 0));
	reader = connect(full, (void *)&address, bytes) ?: accept(lonely, NULL, NULL);
	if (reader < 0 || connect(empty, (void *)&address, bytes) || accept(lonely, NULL, NULL) < 0)
		err(2, "connect");
	for (int sent_nr = 1; sent_nr; usleep(20000)) /* TCP moves some of it to the reader later */
		for (sent_nr = 0; send(full, byte, sizeof(byte), MSG_DONTWAIT) > 0 || send(full, byte, 1, MSG_DONTWAIT) > 0;)
			sent_nr++;
	make_listener(&crowded, &crowded_bytes);
	for (int i = 0; i < 4; i++)
		connect(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0), (void *)&crowded, crowded_bytes);
}

static struct iovec piece = { byte, 1 };
static struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

CALL(recv, recv(empty, byte, 1, 0))
CALL(recvmsg, recvmsg(empty, &message, 0))

static long call_recvmmsg(void)
{
	struct mmsghdr messages = { .msg_hdr = message };

	return recvmmsg(empty, &messages, 1, 0, NULL);
}

CALL(read, read(empty, byte, 1))

static long call32_read(void)
{
	return call32(3, empty, LOW(byte), 1, 0);
}

CALL(accept, accept(lonely, NULL, NULL))

/* TCP may find a little more room at any time. */
static long call_send(void)
{
	long result;

	do
		result = send(full, byte, 1, 0);
	while (result > 0);
	return result;
}

CALL(sendmsg, sendmsg(full, &message, 0))
CALL(write, write(full, byte, 1))

/* When a connection by TCP is waited for a second time, the kernel ends it with EALREADY. */
static long call_connect(void)
{
	int fd = limited(socket(family, SOCK_STREAM, 0));
	long result = connect(fd, (void *)&crowded, crowded_bytes), number = errno;

	close(fd);
	errno = number == EALREADY ? EINPROGRESS : number;
	return result;
}

/* ---- the whole ---- */

static const struct call calls[] = {
	{ "epoll_wait", call_epoll_wait, .limit_ms = LIMIT_MS },
	{ "epoll_pwait", call_epoll_pwait, .limit_ms = LIMIT_MS },
	{ "epoll_pwait2", call_epoll_pwait2, .limit_ms = LIMIT_MS },
	{ "poll", call_poll, .limit_ms = LIMIT_MS },
	{ "ppoll", call_ppoll, .limit_ms = LIMIT_MS },
	{ "select", call_select, .limit_ms = LIMIT_MS },
	{ "pselect", call_pselect, .limit_ms = LIMIT_MS },
	{ "semtimedop", call_semtimedop, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "sigtimedwait", call_sigtimedwait, .result = -EAGAIN, .limit_ms = LIMIT_MS, .is_masked = 1 },
	{ "io_getevents", call_io_getevents, .limit_ms = LIMIT_MS },
	{ "io_pgetevents", call_io_pgetevents, .limit_ms = LIMIT_MS },
	{ "io_uring_enter", call_io_uring_enter, .result = -ETIME, .limit_ms = LIMIT_MS },
	{ "mq_timedreceive", call_mq_timedreceive, .result = -ETIMEDOUT, .limit_ms = LIMIT_MS },
	{ "futex", call_futex, .result = -ETIMEDOUT, .limit_ms = LIMIT_MS },
	{ "futex_waitv", call_futex_waitv, .result = -ETIMEDOUT, .limit_ms = LIMIT_MS },
	{ "nanosleep", call_nanosleep, .limit_ms = LIMIT_MS },
	{ "clock_nanosleep", call_clock_nanosleep, .limit_ms = LIMIT_MS },
	{ "timerfd", call_timerfd, .result = 8, .limit_ms = LIMIT_MS },
	{ "fallocate", call_fallocate },
	{ "int80-epoll_wait", call32_epoll_wait, .limit_ms = LIMIT_MS },
	{ "int80-nanosleep", call32_nanosleep, .limit_ms = LIMIT_MS },
	{ "int80-semtimedop", call32_semtimedop, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "int80-read", call32_read, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "recv", call_recv, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "recvmsg", call_recvmsg, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "recvmmsg", call_recvmmsg, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "read", call_read, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "accept", call_accept, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "send", call_send, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "sendmsg", call_sendmsg, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "write", call_write, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "connect", call_connect, .result = -EAGAIN, .limit_ms = LIMIT_MS },
	{ "tcp-recv", call_recv, .result = -EAGAIN, .limit_ms = LIMIT_MS, .family = AF_INET },
	{ "tcp-recvmmsg", call_recvmmsg, .result = -EAGAIN, .limit_ms = LIMIT_MS, .family = AF_INET },
	{ "tcp-accept", call_accept, .result = -EAGAIN, .limit_ms = LIMIT_MS, .family = AF_INET },
	{ "tcp-send", call_send, .result = -EAGAIN, .limit_ms = LIMIT_MS, .family = AF_INET },
	{ "tcp-connect", call_connect, .result = -EINPROGRESS, .limit_ms = LIMIT_MS, .family = AF_INET },
	{},
};

/* Semaphores and queues end with their namespace. */
static void make_objects(void)
{
	struct io_uring_params params = {};
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 100 };

	if (unshare(CLONE_NEWIPC))
		err(2, "unshare");
	sem_id = semget(IPC_PRIVATE, 1, 0600);
	queue = mq_open("/waits", O_CREAT | O_RDWR, 0600, &attributes);
	event_fd = eventfd(0, 0);
	epoll_fd = epoll_create1(0);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
	memory_fd = memfd_create("waits", 0);
	uring_fd = syscall(SYS_io_uring_setup, 4, &params);
	if (sem_id < 0 || queue < 0 || uring_fd < 0 || syscall(SYS_io_setup, 1, &aio) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &(struct epoll_event){ .events = EPOLLIN }))
		err(2, "what is waited for");
}

int main(int argc, char **argv)
{
	const struct call *call = find_call(calls, argc > 1 ? argv[1] : "");

	if (!call)
		return argc != 2;
	become_victim(NULL);
	family = call->family ?: AF_UNIX;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	if (call->is_masked)
		sigprocmask(SIG_BLOCK, &usr1, NULL);
	make_objects();
	make_sockets();
	make_calls(call);
}
