// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preloaded: stops the program behind every so many calls of an allocator function, while the stack is
 * still what it was in the call. See stopper.h.
 */
#include "stopper.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t nr, size_t size);
void *__libc_realloc(void *block, size_t size);

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
	kill(getpid(), SIGSTOP);
	__atomic_store_n(&stop->is_taken, 0, __ATOMIC_RELEASE);
	return block;
}

void *malloc(size_t size)
{
	return pass(__libc_malloc(size), __builtin_return_address(0));
}

void *calloc(size_t nr, size_t size)
{
	return pass(__libc_calloc(nr, size), __builtin_return_address(0));
}

void *realloc(void *block, size_t size)
{
	return pass(__libc_realloc(block, size), __builtin_return_address(0));
}
