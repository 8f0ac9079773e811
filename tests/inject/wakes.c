// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * wakes CALL FOLDER: waits by this call again and again, until a waker, which is a process of its own, ends the wait. No
 * event is lost or comes twice. Or it waits without end, or beside signals that a program never notices. The calls are the
 * rows of `calls`; `wakes -l` lists them. victim.h says how it is asked.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "victim.h"

#define LIMIT_MS 12

static int inotify_fd, lock_fd, listener, sem_id, msg_id;
static int talk[2], go_pipe[2], ready_pipe[2];
static char fifo[200], lock[200], entry[200];
static struct sembuf down = { 0, -1, 0 }, up = { 0, 1, 0 };
static sigset_t usr1;
static uint32_t sent, seen;
static char byte[4096];
static pid_t victim;

/* ---- the waker ---- */

static void go(void)
{
	expect(write(go_pipe[1], "g", 1) == 1 && read(ready_pipe[0], byte, 1) == 1, "the waker is gone");
}

static void run_waker(void (*prepare)(void), void (*wake)(void))
{
	unsigned int seed = 4711;

	if (fork_helper())
		return;
	while (read(go_pipe[0], byte, 1) == 1) {
		if (prepare)
			prepare();
		if (write(ready_pipe[1], "r", 1) != 1)
			break;
		usleep(2000 + rand_r(&seed) % 6000);
		wake();
	}
	_exit(0);
}

/* ---- calls that the waker ends ---- */

static void give_number(void)
{
	sent++;
	expect(write(talk[1], &sent, sizeof(sent)) == sizeof(sent), "write fails");
}

/* The number that comes is the next one. */
static long is_next(long bytes, const void *number)
{
	seen++;
	return bytes == sizeof(seen) && !memcmp(number, &seen, sizeof(seen)) ? 0 : -1;
}

static long wait_read(void)
{
	go();
	return is_next(read(talk[0], byte, sizeof(byte)), byte);
}

static long wait_recv(void)
{
	go();
	return is_next(recv(talk[0], byte, sizeof(byte), 0), byte);
}

static long wait_epoll(void)
{
	struct epoll_event data;
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, talk[0], &(struct epoll_event){ .events = EPOLLIN });
	go();
	expect(epoll_wait(fd, &data, 1, -1) == 1, "epoll_wait ends without an event");
	close(fd);
	return is_next(read(talk[0], byte, sizeof(byte)), byte);
}

static void raise_semaphore(void)
{
	semop(sem_id, &up, 1);
}

static long wait_semop(void)
{
	go();
	return semop(sem_id, &down, 1) ?: semctl(sem_id, 0, GETVAL);
}

static void send_message(void)
{
	struct { long kind; uint32_t number; } sending = { 1, ++sent };

	msgsnd(msg_id, &sending, sizeof(sending.number), 0);
}

static long wait_msgrcv(void)
{
	struct { long kind; uint32_t number; } got = {};

	go();
	return is_next(msgrcv(msg_id, &got, sizeof(got.number), 0, 0), &got.number);
}

static void send_usr1(void)
{
	kill(victim, SIGUSR1);
}

static long wait_sigwaitinfo(void)
{
	go();
	return sigwaitinfo(&usr1, NULL) == SIGUSR1 ? 0 : -1;
}

static void send_usr2(void)
{
	kill(victim, SIGUSR2);
}

static void block_usr2(void)
{
	sigset_t usr2;

	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	sigprocmask(SIG_BLOCK, &usr2, NULL);
}

/* SIGUSR2 comes once, and is blocked while the thread does not wait. */
static long ends_by_usr2(int (*wait)(const sigset_t *mask))
{
	sigset_t nothing;
	long before = handled;

	sigemptyset(&nothing);
	block_usr2();
	handle(SIGUSR2, count_signal);
	go();
	return wait(&nothing) == -1 && errno == EINTR && handled == before + 1 ? 0 : -1;
}

static long wait_sigsuspend(void)
{
	return ends_by_usr2(sigsuspend);
}

/* The kernel itself would not make it again without a handler. */
static int epoll_with_mask(const sigset_t *mask)
{
	struct epoll_event event;

	int fd = epoll_create1(0), result = epoll_pwait(fd, &event, 1, -1, mask), number = errno;

	close(fd);
	errno = number;
	return result;
}

static void *pause_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Another thread makes the calls of an injector. */
static long wait_epoll_pwait(void)
{
	static pthread_t other;

	if (!other) {
		block_usr2();
		pthread_create(&other, NULL, pause_for_ever, NULL);
	}
	return ends_by_usr2(epoll_with_mask);
}

/* SIGUSR2 comes when the call of number nr[0] has begun, and an injector may have interrupted it since. */
static void send_usr2_amid(void)
{
	static unsigned int seed = 4711;
	char path[40], text[16] = "";

	snprintf(path, sizeof(path), "/proc/%d/syscall", victim);
	while (atol(text) != shared->nr[0]) {
		int fd = open(path, O_RDONLY);

		usleep(200);
		if (read(fd, text, sizeof(text) - 1) < 1)
			_exit(1);
		close(fd);
	}
	usleep(rand_r(&seed) % 5000);
	send_usr2();
}

/* Its handler has no SA_RESTART: the call ends once for each signal, and never without one. */
static long end_by_handler(long number, long (*call)(void))
{
	const struct sigaction action = { .sa_sigaction = count_signal, .sa_flags = SA_SIGINFO };
	long before = handled;

	shared->nr[0] = number;
	sigaction(SIGUSR2, &action, NULL);
	go();
	return call() == -1 && errno == EINTR && handled == before + 1 ? 0 : -1;
}

static long never_pause(void)
{
	return pause();
}

static long wait_pause(void)
{
	return end_by_handler(SYS_pause, never_pause);
}

static long never_recv(void)
{
	return recv(talk[0], byte, 1, 0);
}

static long wait_recv_handler(void)
{
	return end_by_handler(SYS_recvfrom, never_recv);
}

static void take_flock(void)
{
	lock_fd = open(lock, O_RDWR);
	flock(lock_fd, LOCK_EX);
}

static void take_lock(void)
{
	struct flock whole = { .l_type = F_WRLCK };

	lock_fd = open(lock, O_RDWR);
	fcntl(lock_fd, F_SETLK, &whole);
}

static void leave_lock(void)
{
	close(lock_fd);
}

static long wait_flock(void)
{
	go();
	return flock(lock_fd, LOCK_EX) ?: flock(lock_fd, LOCK_UN);
}

static long wait_setlkw(void)
{
	struct flock whole = { .l_type = F_WRLCK }, nothing = { .l_type = F_UNLCK };

	go();
	return fcntl(lock_fd, F_SETLKW, &whole) ?: fcntl(lock_fd, F_SETLK, &nothing);
}

static void open_to_write(void)
{
	close(open(fifo, O_WRONLY));
}

static long wait_open(void)
{
	int fd;

	go();
	fd = open(fifo, O_RDONLY);
	return fd < 0 ? -1 : close(fd);
}

static void make_entry(void)
{
	close(open(entry, O_CREAT | O_WRONLY, 0600));
	unlink(entry);
}

static long wait_inotify(void)
{
	go();
	return read(inotify_fd, byte, sizeof(byte)) > 0 && ((struct inotify_event *)byte)->mask == IN_CREATE ? 0 : -1;
}

static void connect_to_listener(void)
{
	struct sockaddr_un address;
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	getsockname(listener, (void *)&address, &bytes);
	connect(fd, (void *)&address, bytes);
	close(fd);
}

static long wait_accept(void)
{
	int fd;

	go();
	fd = accept(listener, NULL, NULL);
	return fd < 0 ? -1 : close(fd);
}

static pid_t fork_child(int ms)
{
	pid_t pid = fork_helper();

	if (!pid) {
		usleep(ms * 1000);
		_exit(7);
	}
	return pid;
}

static long wait_waitid(void)
{
	pid_t pid = fork_child(4);
	siginfo_t info = {};

	return waitid(P_PID, pid, &info, WEXITED) == 0 && info.si_pid == pid && info.si_status == 7 ? 0 : -1;
}

static long wait_wait4(void)
{
	pid_t pid = fork_child(4);
	int status = 0;

	return waitpid(pid, &status, 0) == pid && status == 7 << 8 ? 0 : -1;
}

/* ---- signals that a program never notices come meanwhile ---- */

static long wait_for_nothing(void)
{
	struct epoll_event event;
	int fd = epoll_create1(0);
	long result = epoll_wait(fd, &event, 1, LIMIT_MS);

	close(fd);
	return result;
}

static long beside_children(void)
{
	pid_t child[] = { fork_child(3), fork_child(6), fork_child(9) };
	long result = wait_for_nothing();

	for (int i = 0; i < 3; i++)
		waitpid(child[i], NULL, 0);
	return result;
}

static void send_unnoticed(void)
{
	static const int number[] = { SIGWINCH, SIGURG, SIGCONT, SIGCHLD, SIGPIPE };

	for (int i = 0; i < 5; i++) {
		kill(victim, number[i]);
		usleep(500);
	}
}

static long epoll_beside_signals(void)
{
	go();
	return wait_for_nothing();
}

static long semtimedop_beside_signals(void)
{
	static const struct timespec limit = { 0, LIMIT_MS * 1000000 };

	go();
	return semtimedop(sem_id, &down, 1, &limit);
}

static long recv_beside_signals(void)
{
	const struct timeval limit = { 0, LIMIT_MS * 1000 };

	setsockopt(talk[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	go();
	return recv(talk[0], byte, 1, 0);
}

/* ---- calls that never end ---- */

static long never_sigsuspend(void)
{
	return sigsuspend(&usr1);
}

static long never_epoll_wait(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, -1);
}

/* ---- the whole ---- */

static const struct call calls[] = {
	{ "woken-read", wait_read, .wake = give_number },
	{ "woken-recv", wait_recv, .wake = give_number },
	{ "woken-epoll", wait_epoll, .wake = give_number },
	{ "woken-semop", wait_semop, .wake = raise_semaphore },
	{ "woken-msgrcv", wait_msgrcv, .wake = send_message },
	{ "woken-sigwaitinfo", wait_sigwaitinfo, .is_masked = 1, .wake = send_usr1 },
	{ "woken-sigsuspend", wait_sigsuspend, .wake = send_usr2 },
	{ "woken-epoll_pwait", wait_epoll_pwait, .wake = send_usr2 },
	{ "woken-pause", wait_pause, .wake = send_usr2_amid },
	{ "woken-recv-handler", wait_recv_handler, .wake = send_usr2_amid },
	{ "woken-flock", wait_flock, .wake = leave_lock, .prepare = take_flock },
	{ "woken-setlkw", wait_setlkw, .wake = leave_lock, .prepare = take_lock },
	{ "woken-open", wait_open, .wake = open_to_write },
	{ "woken-inotify", wait_inotify, .wake = make_entry },
	{ "woken-accept", wait_accept, .wake = connect_to_listener },
	{ "waitid", wait_waitid },
	{ "wait4", wait_wait4 },
	{ "epoll_wait-beside-children", beside_children, .limit_ms = LIMIT_MS },
	{ "epoll_wait-beside-signals", epoll_beside_signals, .limit_ms = LIMIT_MS, .wake = send_unnoticed },
	{ "recv-beside-signals", recv_beside_signals, .result = -EAGAIN, .limit_ms = LIMIT_MS, .wake = send_unnoticed },
	{ "semtimedop-beside-signals", semtimedop_beside_signals, .result = -EAGAIN, .limit_ms = LIMIT_MS, .wake = send_unnoticed },
	{ "never-pause", never_pause, .is_endless = 1 },
	{ "never-sigsuspend", never_sigsuspend, .is_endless = 1 },
	{ "never-epoll_wait", never_epoll_wait, .is_endless = 1 },
	{},
};

static void make_files(const char *folder)
{
	snprintf(fifo, sizeof(fifo), "%s/fifo.%d", folder, victim);
	snprintf(lock, sizeof(lock), "%s/lock.%d", folder, victim);
	snprintf(entry, sizeof(entry), "%s/watched.%d", folder, victim);
	inotify_fd = inotify_init();
	if (mkfifo(fifo, 0600) || mkdir(entry, 0700) || inotify_add_watch(inotify_fd, entry, IN_CREATE) < 0)
		err(2, "%s", folder);
	strcat(entry, "/entry");
	lock_fd = open(lock, O_CREAT | O_RDWR, 0600);
}

/* Semaphores and queues end with their namespace. */
static void make_objects(void)
{
	const struct sockaddr address = { .sa_family = AF_UNIX };

	if (unshare(CLONE_NEWIPC))
		err(2, "unshare");
	sem_id = semget(IPC_PRIVATE, 1, 0600);
	msg_id = msgget(IPC_PRIVATE, 0600);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (sem_id < 0 || msg_id < 0 || bind(listener, &address, sizeof(sa_family_t)) || listen(listener, 1) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, talk) || pipe(go_pipe) || pipe(ready_pipe))
		err(2, "what is waited for");
}

int main(int argc, char **argv)
{
	const struct call *call = find_call(calls, argc > 1 ? argv[1] : "");

	if (!call || argc != 3)
		return argc != 2;
	become_victim(NULL);
	victim = getpid();
	signal(SIGPIPE, SIG_IGN); /* send_unnoticed() */
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	if (call->is_masked)
		sigprocmask(SIG_BLOCK, &usr1, NULL);
	make_objects();
	make_files(argv[2]);
	if (call->wake)
		run_waker(call->prepare, call->wake);
	make_calls(call);
}
