// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * victim_state MODE [NUMBER]: a process whose signals, stops, descriptors or limits an injector easily changes, and which
 * checks them: the modes are the rows of `modes`. NUMBER: of threads, if the mode does not say it. victim.h says how it is
 * asked.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucontext.h>

#include "victim.h"

/* ---- signals ---- */

static void mask_all(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	kill(getpid(), SIGUSR1);
	raise(SIGUSR2);
}

static void work_traps(int nr)
{
	sigset_t trap;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	if (nr)
		pthread_sigmask(SIG_BLOCK, &trap, NULL);
	for (int i = 0; i < 20; i++) {
		if (!nr) {
			__asm__ volatile("int3");
			raise(SIGTRAP);
			made[0] += 2;
		}
		allocate(10);
	}
}

static void take_queued(int, siginfo_t *info, void *)
{
	shared->nr[1]++;
	expect(info->si_value.sival_int == (int)shared->nr[1], "a queued signal is lost, or comes twice");
}

static void handle_queued(void)
{
	handle(SIGRTMIN, take_queued);
}

static void queue_signals(pid_t victim)
{
	if (shared->rounds && shared->nr[0] - shared->nr[1] < 20 && !shared->is_held)
		sigqueue(victim, SIGRTMIN, (union sigval){ .sival_int = ++shared->nr[0] });
	usleep(300);
}

/* Each thread has a signal on its way to it nearly all the time. */
static void count_raised(void)
{
	handle(SIGRTMIN, count_signal);
}

static void work_raises(int nr)
{
	for (int i = 0; i < 1000; i++)
		raise(SIGRTMIN);
	made[nr] += 1000;
	allocate(10);
}

/* ---- stops: nr[0] were sent, nr[1] seen by the parent ---- */

static void lead_group(void)
{
	setpgid(0, 0);
}

static void work_stops(int nr)
{
	if (nr)
		return work_nothing(nr);
	if (++shared->nr[0] & 1)
		raise(SIGSTOP);
	else
		kill(0, SIGSTOP);
	for (int i = 0; i < 5000 && shared->nr[1] < shared->nr[0]; i++)
		usleep(1000);
	expect(shared->nr[1] == shared->nr[0], "a stop is lost");
	for (int64_t begun = now_ns(CLOCK_MONOTONIC); now_ns(CLOCK_MONOTONIC) - begun < 8000000;)
		allocate(100);
}

static int has_changed(pid_t victim, int flags, int is_continued)
{
	int status;

	return waitpid(victim, &status, flags | WNOHANG) == victim && (is_continued ? WIFCONTINUED(status) : WIFSTOPPED(status));
}

static void continue_it(pid_t victim)
{
	if (has_changed(victim, WUNTRACED, 0)) {
		expect(++shared->nr[1] <= shared->nr[0], "a stop that was not sent");
		usleep(300);
		kill(victim, SIGCONT);
	}
	usleep(100);
}

static int waits_for(pid_t victim, int flags, int is_continued)
{
	for (int i = 0; i < 20000; i++) {
		if (has_changed(victim, flags, is_continued))
			return 1;
		usleep(1000);
	}
	return 0;
}

static void stop_from_outside(pid_t victim)
{
	static unsigned int seed = 4711;
	long rounds;

	usleep(rand_r(&seed) % 5000);
	expect(!has_changed(victim, WUNTRACED, 0), "a stop that was not sent");
	if (!shared->rounds || shared->is_held)
		return;
	kill(victim, SIGSTOP);
	expect(waits_for(victim, WUNTRACED, 0), "a stop is lost");
	rounds = shared->rounds;
	usleep(2000 + rand_r(&seed) % 5000);
	expect(rounds == shared->rounds, "it runs while it is stopped");
	kill(victim, SIGCONT);
	expect(waits_for(victim, WCONTINUED, 1), "it does not go on");
}

/* ---- filters: all calls of this number end in this way; the call returns what seccomp() does ---- */

static int filter_calls(unsigned int number, unsigned int end, unsigned int flags)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, end), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };
	int result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);

	if (result < 0)
		err(2, "seccomp");
	return result;
}

static void forbid_getppid(void)
{
	filter_calls(SYS_getppid, SECCOMP_RET_ERRNO | EPERM, 0);
}

static void *try_getppid(void *unused)
{
	for (int i = 0; i < 5000; i++)
		expect(syscall(SYS_getppid) == -1 && errno == EPERM, "a forbidden call has passed the filter");
	return unused;
}

/* Threads that have just begun have the filter, too. */
static void work_filtered(int nr)
{
	pthread_t thread;

	if (nr == 1 && !pthread_create(&thread, NULL, try_getppid, NULL))
		pthread_join(thread, NULL);
	else
		try_getppid(NULL);
	allocate(10);
}

/* ---- a close that ends with EINTR: nr[0] were seen, and each was one that the program has made ---- */

static void answer_closes(int listener)
{
	struct seccomp_notif asked;
	struct seccomp_notif_resp answer;

	for (;;) {
		asked = (struct seccomp_notif){};
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
			continue;
		shared->nr[0]++;
		usleep(2000);
		answer = (struct seccomp_notif_resp){ .id = asked.id, .error = -EINTR };
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
}

static void let_closes_fail(void)
{
	int listener = filter_calls(SYS_close, SECCOMP_RET_USER_NOTIF,
				    SECCOMP_FILTER_FLAG_NEW_LISTENER | 1 << 5 /* WAIT_KILLABLE_RECV */);

	if (!fork_helper())
		answer_closes(listener);
}

static void work_closes(int nr)
{
	made[nr]++;
	expect(close(1000) == -1 && errno == EINTR && shared->nr[0] == made[nr], "close is made again");
	allocate(10);
}

/* ---- results that look like an error: the lower 32 bits of each offset are -EINTR ---- */

static void work_offsets(int nr)
{
	const off_t step = 1l << 32;
	static int files[THREADS];
	off_t at = step - EINTR;

	if (!files[nr])
		files[nr] = memfd_create("offsets", 0);
	lseek(files[nr], at, SEEK_SET);
	for (int i = 0; i < 3000; i++)
		expect(lseek(files[nr], step, SEEK_CUR) == (at += step), "lseek() is made again");
	allocate(10);
}

/* ---- workers: one opens a FIFO for the program, and waits; one waits for orders ---- */

static struct io_uring_params ring;
static struct io_uring_sqe *order;
static char *ring_head; /* of both queues, which have one and two entries */
static int ring_fd;
static char fifo[40];

static void order_to_open(void)
{
	*order = (struct io_uring_sqe){
		.opcode = IORING_OP_OPENAT, .flags = IOSQE_ASYNC, .fd = AT_FDCWD, .addr = (uintptr_t)fifo,
	};
	++*(atomic_uint *)(ring_head + ring.sq_off.tail);
	if (syscall(SYS_io_uring_enter, ring_fd, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) != 1)
		err(2, "io_uring_enter");
}

/* The FIFO has no name any more, and ends with the process. */
static void make_fifo(void)
{
	char name[] = "/tmp/allocsnap-victim.XXXXXX";

	if (!mkdtemp(name) || chdir(name) || mkfifo("fifo", 0600))
		err(2, "%s", name);
	snprintf(fifo, sizeof(fifo), "/proc/self/fd/%d", open("fifo", O_PATH));
	if (unlink("fifo") || chdir("/") || rmdir(name))
		err(2, "%s", name);
}

static void start_workers(void)
{
	const unsigned int most[2] = { 1, 1 };

	ring = (struct io_uring_params){ .flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 1 };
	ring_fd = syscall(SYS_io_uring_setup, 1, &ring);
	if (ring_fd < 0 || syscall(SYS_io_uring_register, ring_fd, IORING_REGISTER_IOWQ_MAX_WORKERS, most, 2))
		err(2, "io_uring");
	ring_head = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, IORING_OFF_SQ_RING);
	order = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, IORING_OFF_SQES);
	if (ring_head == MAP_FAILED || order == MAP_FAILED)
		err(2, "mmap");
	make_fifo();
	order_to_open();
}

static void work_with_workers(int nr)
{
	const struct io_uring_cqe *answer = (void *)(ring_head + ring.cq_off.cqes);
	atomic_uint *seen = (void *)(ring_head + ring.cq_off.head), *come = (void *)(ring_head + ring.cq_off.tail);
	int fd;

	allocate(300);
	if (nr)
		return;
	usleep(5000); /* the other worker needs no processor then */
	expect(*come == *seen, "a worker has ended its work by itself");
	fd = open(fifo, O_WRONLY);
	while (*come == *seen)
		usleep(50);
	answer += *seen % 2;
	expect(fd >= 0 && answer->res >= 0 && !close(answer->res) && !close(fd), "a worker has not done its work");
	++*seen;
	order_to_open();
}

/* ---- limits ---- */

static void use_all_files(void)
{
	struct rlimit limit = { 64, 64 };

	setrlimit(RLIMIT_NOFILE, &limit);
	while (dup(0) >= 0)
		;
}

static void use_all_memory(void)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };

	setrlimit(RLIMIT_AS, &limit);
}

/* NUMBER mappings are left. */
static void use_all_mappings(void)
{
	const size_t page = 4096, nr = 1 << 18;
	char *all = mmap(NULL, nr * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t i = 1;

	while (i < nr && !mprotect(all + i * page, page, PROT_READ))
		i += 2;
	for (int k = 0; k < (mode_number + 1) / 2; k++)
		mprotect(all + (i -= 2) * page, page, PROT_NONE);
	if (mode_number & 1)
		mmap(NULL, page, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* ---- descriptors ---- */

static void use_files(int nr, int pause_us)
{
	struct stat before, now;

	for (int i = 0; i < nr; i++) {
		int fd = open("/proc/self/status", O_RDONLY);

		expect(!fstat(fd, &before), "open");
		if (pause_us)
			usleep(pause_us);
		expect(!fstat(fd, &now) && now.st_ino == before.st_ino && now.st_dev == before.st_dev && !close(fd),
		       "a descriptor is not what it was opened for");
	}
}

static void work_files(int)
{
	use_files(500, 0);
	allocate(10);
}

/* A thread with descriptors of its own: none is closed, and none comes. */
static void work_own_files(int nr)
{
	static int first_free;

	if (nr && !first_free) {
		expect(!unshare(CLONE_FILES), "unshare");
		for (int i = 0; i < 20; i++)
			first_free = open("/dev/null", O_RDWR) + 1;
	}
	for (int i = 0; i < 2000 && nr; i++) {
		int fd = dup(0);

		expect(fd == first_free && !close(fd), "descriptors of its own have changed");
	}
	allocate(300);
}

/* Another process has the same descriptors. Each of them stays what it was opened for. nr[0]: it has one open. */
static void check_own_files(void)
{
	for (;;) {
		while (shared->is_held)
			usleep(1000);
		shared->nr[0] = 1;
		use_files(20, 100);
		shared->nr[0] = 0;
	}
}

static void share_files(void)
{
	if (syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL))
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check_own_files();
}

static void wait_for_sharer(void)
{
	while (shared->is_held && shared->nr[0])
		usleep(1000);
}

/* ---- the whole ---- */

/* ---- coroutines of the main thread, whose stacks lie just below its variables ---- */

#define STACK_BYTES (64 << 10)

static ucontext_t scheduler, coroutine[2];
static char *stacks;

static void run_coroutine(int nr)
{
	for (;;) {
		allocate(1);
		swapcontext(&coroutine[nr], &scheduler);
	}
}

/* The lowest address from which on all can be read, up to the thread pointer. */
static uintptr_t low_end_of_readable(uintptr_t pointer)
{
	uintptr_t start, end, last = 0, low = 0;
	static char text[1 << 16];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), len = 0, part;
	char perms[5];

	while ((part = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += part;
	close(fd);
	text[len] = '\0';
	for (const char *line = text; sscanf(line, "%lx-%lx %4s", &start, &end, perms) == 3 && start <= pointer;
	     line = strchr(line, '\n') + 1) {
		if (*perms != 'r')
			low = end;
		else if (start != last)
			low = start;
		last = end;
	}
	return low;
}

/* There nothing is mapped yet. */
static void map_stacks_below(void)
{
	uintptr_t end = low_end_of_readable((uintptr_t)__builtin_thread_pointer());

	stacks = mmap((void *)(end - 2 * STACK_BYTES), 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (stacks == MAP_FAILED)
		err(2, "mmap");
}

static void run_on_stack(int nr, char *stack)
{
	getcontext(&coroutine[nr]);
	coroutine[nr].uc_stack.ss_sp = stack;
	coroutine[nr].uc_stack.ss_size = STACK_BYTES;
	makecontext(&coroutine[nr], (void (*)(void))run_coroutine, 1, nr);
	swapcontext(&scheduler, &coroutine[nr]);
}

/* The upper one goes while the lower one is in use. */
static void work_below(int)
{
	run_on_stack(0, stacks + STACK_BYTES);
	run_on_stack(1, stacks);
	mprotect(stacks + STACK_BYTES, STACK_BYTES, PROT_NONE);
	swapcontext(&scheduler, &coroutine[1]);
	mprotect(stacks + STACK_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE);
	allocate(30);
}

static const struct mode modes[] = {
	{ "masked", work_nothing, .prepare = mask_all, .thread_nr = 2 },
	{ "traps", work_traps, check_handled, handle_traps, .thread_nr = 2 },
	{ "queued", work_nothing, .prepare = handle_queued, .control = queue_signals, .thread_nr = 1 },
	{ "raises", work_raises, check_handled, count_raised, .thread_nr = 4 },
	{ "stops", work_stops, .prepare = lead_group, .control = continue_it },
	{ "stopped", work_nothing, .control = stop_from_outside },
	{ "closes", work_closes, .prepare = let_closes_fail, .thread_nr = 1 },
	{ "filtered", work_filtered, .prepare = forbid_getppid, .thread_nr = 4 },
	{ "offsets", work_offsets, .thread_nr = 4 },
	{ "workers", work_with_workers, .prepare = start_workers, .thread_nr = 2 },
	{ "files", work_files, .thread_nr = 4 },
	{ "own-files", work_own_files, .thread_nr = 2 },
	{ "all-files", work_nothing, .prepare = use_all_files, .thread_nr = 1 },
	{ "all-memory", work_nothing, .prepare = use_all_memory, .thread_nr = 1 },
	{ "all-mappings", work_nothing, .prepare = use_all_mappings, .thread_nr = 1 },
	{ "shared-files", work_nothing, wait_for_sharer, share_files, .thread_nr = 2 },
	{ "no-leader", work_nothing, .thread_nr = 2, .has_no_leader = 1 },
	{ "below", work_below, .prepare = map_stacks_below, .thread_nr = 1 },
	{ "plain", work_nothing },
	{},
};

int main(int argc, char **argv)
{
	run_modes(modes, argc, argv);
}
