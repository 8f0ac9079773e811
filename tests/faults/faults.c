// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Functions of the C library that fail on request. They are linked before the library, so calls by the program come
 * here, and calls by the libraries that it uses: jansson's malloc, libbpf's syscall. The program itself has no code for
 * this.
 *
 * A site is a function and the first address of the program on the stack, so a library's call belongs to the program's
 * call of this library. Sites and the fault are in a file that the processes map ($FAULTS), so forked helpers below
 * seccomp take part, too. Without $FAULTS nothing fails.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#define SITES_MAX 8192 /* tests/faults/faults.py has these, too */
#define NAME_MAX_LEN 24
#define HIDDEN __attribute__((section("faults_code"), noinline))
#define CALLER __builtin_return_address(0)

enum mode {
	MODE_LIST,
	MODE_ONCE,
	MODE_ALWAYS,
	MODE_SIGNAL, /* the call is not changed, but the program gets signal err before it */
	MODE_STEP,   /* the wall clock goes on err seconds later or earlier, from a call on, wherever it is */
	MODE_MEET,   /* the call is not changed, but waits until the test has another mode here */
};

struct site {
	char name[NAME_MAX_LEN];
	uint32_t place; /* offset in the program; 0: not used yet */
	uint32_t calls;
};

struct table {
	uint32_t mode, err, fired, crashed;
	uint32_t pid; /* of the program; its helpers have others */
	struct site fault; /* fault.calls: calls before the first one that fails */
	struct site sites[SITES_MAX];
};

extern char __executable_start[], etext[], __start_faults_code[], __stop_faults_code[];
static struct table *table;
static __thread bool is_inside __attribute__((tls_model("initial-exec")));

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t nr, size_t size);
void *__libc_realloc(void *old, size_t size);

static void HIDDEN count_crash(int signal)
{
	__atomic_fetch_add(&table->crashed, 1, __ATOMIC_RELAXED);
	raise(signal); /* SA_RESETHAND: it ends the process now */
}

static void HIDDEN __attribute__((constructor)) map_table(void)
{
	const char *path = getenv("FAULTS");
	int fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	long mapped = fd < 0 ? -1 : syscall(SYS_mmap, NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		syscall(SYS_close, fd);
	if (mapped == -1)
		return;
	for (const int *nr = (int[]){ SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, 0 }; *nr; nr++)
		sigaction(*nr, &(struct sigaction){ .sa_handler = count_crash, .sa_flags = SA_RESETHAND | SA_NODEFER }, NULL);
	table = (void *)mapped;
	table->pid = table->pid ?: (uint32_t)getpid();
}

static bool HIDDEN is_program(uintptr_t address)
{
	return address > (uintptr_t)__executable_start && address <= (uintptr_t)etext &&
	       !(address >= (uintptr_t)__start_faults_code && address <= (uintptr_t)__stop_faults_code);
}

static _Unwind_Reason_Code HIDDEN look_at_frame(struct _Unwind_Context *context, void *found)
{
	uintptr_t address = _Unwind_GetIP(context);

	if (!is_program(address))
		return _URC_NO_REASON;
	*(uintptr_t *)found = address;
	return _URC_END_OF_STACK;
}

/* Processes and threads fill the table together: a slot belongs to the one that sets its place. */
static void HIDDEN count_call(const char *name, uint32_t place)
{
	for (uint32_t i = place * 2654435761u, tries = 0; tries < SITES_MAX; i++, tries++) {
		struct site *site = &table->sites[i % SITES_MAX];
		uint32_t none = 0;

		if (__atomic_compare_exchange_n(&site->place, &none, place, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			memcpy(site->name, name, strnlen(name, NAME_MAX_LEN - 1));
		if (site->place == place && !strncmp(site->name, name, NAME_MAX_LEN - 1)) {
			__atomic_fetch_add(&site->calls, 1, __ATOMIC_RELAXED);
			return;
		}
	}
}

static bool HIDDEN is_due(const char *name, uint32_t place)
{
	if (place != table->fault.place || strncmp(name, table->fault.name, NAME_MAX_LEN - 1))
		return false;

	uint32_t before = __atomic_fetch_add(&table->fired, 1, __ATOMIC_RELAXED);

	return table->mode == MODE_ALWAYS ? before >= table->fault.calls : before == table->fault.calls;
}

/* Without a call of the system: a sandbox permits few. */
static void HIDDEN meet(void)
{
	while (__atomic_load_n(&table->mode, __ATOMIC_ACQUIRE) == MODE_MEET)
		;
}

static bool HIDDEN fails(const char *name, void *caller)
{
	uintptr_t address = (uintptr_t)caller;
	enum mode mode;
	int err = errno;
	bool due = false;

	if (!table || is_inside)
		return false;
	is_inside = true;
	mode = table->mode;
	if (!is_program(address)) {
		address = 0;
		_Unwind_Backtrace(look_at_frame, &address);
	}
	if (address) {
		uint32_t place = address - (uintptr_t)__executable_start;

		if (mode == MODE_LIST)
			count_call(name, place);
		else
			due = is_due(name, place);
	}
	if (due && mode == MODE_SIGNAL)
		kill(table->pid, table->err);
	if (due && mode == MODE_MEET)
		meet();
	is_inside = false;
	due &= mode != MODE_SIGNAL && mode != MODE_MEET;
	errno = due ? (int)table->err : err;
	return due;
}

static void *HIDDEN next_one(const char *name)
{
	bool was_inside = is_inside;
	int err = errno;
	void *found;

	is_inside = true;
	found = dlsym(RTLD_NEXT, name);
	is_inside = was_inside;
	errno = err;
	return found;
}

/* Up to seven arguments that are no floating-point numbers, as every call has them that is listed below. */
typedef long any_function(long, long, long, long, long, long, long);
typedef int printing(FILE *, const char *, va_list);

#define NEXT(type, name)					\
	static type *next;								\
								\
	if (!next)						\
		next = next_one(#name)

#define FAILS_BY(failure, name)								\
	long HIDDEN fault_##name(long a, long b, long c, long d, long e, long f, long g) asm(#name);	\
	long HIDDEN fault_##name(long a, long b, long c, long d, long e, long f, long g)	\
	{										\
		NEXT(any_function, name);						\
		return fails(#name, CALLER) ? (failure) : next(a, b, c, d, e, f, g);	\
	}

/* The call takes place, too: a close that fails has closed. */
#define FAILS_AFTER(failure, name)							\
	long HIDDEN fault_##name(long a) asm(#name);					\
	long HIDDEN fault_##name(long a)						\
	{										\
		NEXT(any_function, name);						\
		long result = next(a, 0, 0, 0, 0, 0, 0);				\
		return fails(#name, CALLER) ? (failure) : result;			\
	}

/* Error 0: half of the bytes. */
#define FAILS_OR_SHORT(name)								\
	long HIDDEN fault_##name(long a, long b, long c, long d) asm(#name);		\
	long HIDDEN fault_##name(long a, long b, long c, long d)			\
	{										\
		NEXT(any_function, name);						\
		if (fails(#name, CALLER)) {						\
			if (table->err)							\
				return -1;						\
			c -= c / 2;							\
		}									\
		return next(a, b, c, d, 0, 0, 0);					\
	}

#define FAILS(name) FAILS_BY(-1, name)
#define FAILS_NULL(name) FAILS_BY(0, name)
#define FAILS_RETURNING_ERROR(name) FAILS_BY((long)table->err, name)

FAILS(open) FAILS(open64) FAILS(openat) FAILS(openat64) FAILS(mkostemp) FAILS(mkdir) FAILS(mkdirat) FAILS(rmdir)
FAILS(fsync) FAILS(fdatasync) FAILS(fallocate) FAILS(ftruncate) FAILS(rename) FAILS(renameat) FAILS(linkat) FAILS(unlink)
FAILS(unlinkat) FAILS(remove) FAILS(fchmod) FAILS(fchown) FAILS(fchownat) FAILS(futimens) FAILS(fsetxattr) FAILS(fgetxattr)
FAILS(flistxattr) FAILS(fstat) FAILS(stat) FAILS(lstat) FAILS(fstatat) FAILS(fstatfs) FAILS(access) FAILS(faccessat)
FAILS(lseek) FAILS(readlink) FAILS(readlinkat) FAILS(dup) FAILS(dup2) FAILS(fcntl) FAILS(ioctl) FAILS(flock) FAILS(pipe2)
FAILS(socket) FAILS(socketpair) FAILS(connect) FAILS(sendto) FAILS(sendmsg) FAILS(recv) FAILS(recvmsg) FAILS(setsockopt)
FAILS(sendfile) FAILS(poll) FAILS(epoll_create1) FAILS(epoll_ctl) FAILS(epoll_wait) FAILS(inotify_init1) FAILS(inotify_add_watch)
FAILS(eventfd) FAILS(signalfd) FAILS(timerfd_create) FAILS(timerfd_settime) FAILS(timer_create) FAILS(timer_settime)
FAILS(memfd_create) FAILS(fork) FAILS(waitpid) FAILS(waitid) FAILS(ptrace) FAILS(process_vm_readv) FAILS(process_vm_writev)
FAILS(prctl) FAILS(setrlimit) FAILS(getrlimit) FAILS(setgroups) FAILS(setresuid) FAILS(setresgid) FAILS(setsid)
FAILS(sched_getaffinity) FAILS(getrandom) FAILS(uname) FAILS(madvise) FAILS(mprotect) FAILS(mmap) FAILS(syscall)
FAILS_NULL(fopen) FAILS_NULL(fdopen) FAILS_NULL(opendir) FAILS_NULL(fdopendir) FAILS_NULL(readdir) FAILS_NULL(realpath)
FAILS_NULL(mkdtemp) FAILS_NULL(open_memstream)
FAILS_RETURNING_ERROR(pthread_create) FAILS_RETURNING_ERROR(posix_spawn) FAILS_RETURNING_ERROR(posix_spawnp)
FAILS_AFTER(-1, close) FAILS_AFTER(-1, fclose) FAILS_AFTER(-1, fflush)
FAILS_OR_SHORT(read) FAILS_OR_SHORT(pread) FAILS_OR_SHORT(pread64) FAILS_OR_SHORT(write) FAILS_OR_SHORT(pwrite)
FAILS_OR_SHORT(pwrite64) FAILS_OR_SHORT(send)

/* glibc's own functions come here, too: strdup, asprintf, getline, fopen. */
void *HIDDEN malloc(size_t size)
{
	return fails("malloc", CALLER) ? NULL : __libc_malloc(size);
}

void *HIDDEN calloc(size_t nr, size_t size)
{
	return fails("calloc", CALLER) ? NULL : __libc_calloc(nr, size);
}

void *HIDDEN realloc(void *old, size_t size)
{
	return fails("realloc", CALLER) ? NULL : __libc_realloc(old, size);
}

int HIDDEN clock_gettime(clockid_t clock, struct timespec *ret)
{
	typedef int reading(clockid_t, struct timespec *);
	NEXT(reading, clock_gettime);
	int err = next(clock, ret);

	if (!err && clock == CLOCK_REALTIME && table && table->mode == MODE_STEP &&
	    __atomic_fetch_add(&table->fired, 1, __ATOMIC_RELAXED) >= table->fault.calls)
		ret->tv_sec += (int)table->err;
	return err;
}

/* A stream that has failed says so until its end (ferror). stderr does not fail: it says what has. */
static bool HIDDEN stream_fails(const char *name, void *caller, FILE *stream)
{
	if (stream == stderr || !fails(name, caller))
		return false;
	stream->_flags |= 0x20; /* glibc's _IO_ERR_SEEN */
	return true;
}

#define STREAM_FAILS(failure, name, stream)						\
	long HIDDEN fault_##name(long a, long b, long c, long d) asm(#name);		\
	long HIDDEN fault_##name(long a, long b, long c, long d)			\
	{										\
		NEXT(any_function, name);						\
		return stream_fails(#name, CALLER, (FILE *)(stream)) ? (failure) : next(a, b, c, d, 0, 0, 0); \
	}

STREAM_FAILS(0, fwrite, d) STREAM_FAILS(0, fwrite_unlocked, d) STREAM_FAILS(EOF, fputs, b) STREAM_FAILS(EOF, fputc, b)
STREAM_FAILS(EOF, putc, b) STREAM_FAILS(EOF, puts, stdout) STREAM_FAILS(0, fread, d) STREAM_FAILS(0, fgets, c)
STREAM_FAILS(-1, __getdelim, d) STREAM_FAILS(-1, getline, c)

int HIDDEN vfprintf(FILE *stream, const char *format, va_list arguments)
{
	NEXT(printing, vfprintf);
	return stream_fails("vfprintf", CALLER, stream) ? -1 : next(stream, format, arguments);
}

#define PRINTS(name, stream, ...)							\
	int HIDDEN fault_##name(__VA_ARGS__, const char *format, ...) asm(#name);	\
	int HIDDEN fault_##name(__VA_ARGS__, const char *format, ...)			\
	{										\
		NEXT(printing, vfprintf);			\
		va_list arguments;							\
		int written = -1;							\
											\
		va_start(arguments, format);						\
		if (!stream_fails(#name, CALLER, stream))				\
			written = next(stream, format, arguments);			\
		va_end(arguments);							\
		return written;								\
	}

PRINTS(fprintf, to, FILE *to)
PRINTS(__fprintf_chk, to, FILE *to, int flag __attribute__((unused)))

int HIDDEN printf(const char *format, ...)
{
	NEXT(printing, vfprintf);
	va_list arguments;
	int written = -1;

	va_start(arguments, format);
	if (!stream_fails("printf", CALLER, stdout))
		written = next(stdout, format, arguments);
	va_end(arguments);
	return written;
}
