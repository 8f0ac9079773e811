// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preloaded: stops the program after every so many calls of an allocator function, while the stack is still the one of
 * the call. See stopper.h.
 */
#include "stopper.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The dynamic linker takes these labels for malloc, but allocsnap does not, because they are no functions
 * in the symbol table. So the recorded call is the one made here, and it has returned when the program stops.
 */
#define STANDS_FOR(name) \
	__asm__(".text\n.globl " #name "\n" #name ": jmp stopping_" #name "\n"); \
	__attribute__((used))

static struct stop *stop;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("STOPPER");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*stop), PROT_READ | PROT_WRITE,
					      MAP_SHARED, fd, 0);

	unsetenv("STOPPER"); /* of this program only */
	if (fd >= 0)
		close(fd);
	if (at != MAP_FAILED)
		stop = at;
}

static __attribute__((noinline)) void *pass(void *block, void *caller)
{
	if (!stop || !block || !stop->every ||
	    __atomic_add_fetch(&stop->call_nr, 1, __ATOMIC_RELAXED) % stop->every ||
	    __atomic_exchange_n(&stop->is_taken, 1, __ATOMIC_ACQUIRE))
		return block;
	stop->address = (uintptr_t)block;
	stop->caller = (uintptr_t)caller;
	stop->tid = syscall(SYS_gettid);
	__atomic_store_n(&stop->is_whole, 1, __ATOMIC_RELEASE);
	kill(getpid(), SIGSTOP);
	__atomic_store_n(&stop->is_whole, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&stop->is_taken, 0, __ATOMIC_RELEASE);
	return block;
}

/* The one that the program would have without us, which may be another library's than the C one. */
static void *next(void **function, const char *name)
{
	if (!*function)
		*function = dlsym(RTLD_NEXT, name);
	return *function;
}

STANDS_FOR(malloc) static void *stopping_malloc(size_t size)
{
	static void *function;
	void *(*call)(size_t) = next(&function, "malloc");

	return pass(call(size), __builtin_return_address(0));
}

STANDS_FOR(calloc) static void *stopping_calloc(size_t nr, size_t size)
{
	static void *function;
	void *(*call)(size_t, size_t) = next(&function, "calloc");

	return pass(call(nr, size), __builtin_return_address(0));
}

STANDS_FOR(realloc) static void *stopping_realloc(void *block, size_t size)
{
	static void *function;
	void *(*call)(void *, size_t) = next(&function, "realloc");

	return pass(call(block, size), __builtin_return_address(0));
}
