// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * dropped: two allocators in one file. The code of easy_alloc() shows where it returns; hard_alloc() goes
 * on through a pointer, so its code does not show it.
 *
 *	go N     four threads make N objects of each kind and free all but every tenth; after a
 *	         tenth of them the first thread sets an alternate signal stack up
 *	quit
 *
 * The answer has the objects that each has allocated, and the live ones, in all.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "workload.h"

#define THREADS 4
#define OBJECTS_MAX (4u << 20)
#define OBJECT_BYTES 64

static char arena[2][OBJECTS_MAX][OBJECT_BYTES];
static atomic_uint used[2];
static atomic_long live[2];
static long each;

SITE void *easy_alloc(size_t)
{
	return arena[0][used[0]++];
}

static void *give_hard(size_t)
{
	return arena[1][used[1]++];
}

void *(*volatile hard_way)(size_t) = give_hard;
void *hard_alloc(size_t size);
__asm__(".text\n.globl hard_alloc\n.type hard_alloc, @function\n"
	"hard_alloc:\n\tpush %rbp\n\tpop %rbp\n\tjmp *hard_way(%rip)\n.size hard_alloc, . - hard_alloc\n");

SITE void easy_free(void *object)
{
	live[0] -= !!object;
}

SITE void hard_free(void *object)
{
	live[1] -= !!object;
}

/* It stays for all threads to come, as a runtime's would. */
static void have_alternate_stack(void)
{
	static char memory[64 << 10];
	const stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };

	sigaltstack(&stack, NULL);
}

SITE void *make_easy(void)
{
	live[0]++;
	return easy_alloc(OBJECT_BYTES);
}

SITE void *make_hard(void)
{
	live[1]++;
	return hard_alloc(OBJECT_BYTES);
}

/* Slowly enough that a second goes by. */
static void *work(void *is_first)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (long i = 0; i < each; i++) {
		void *easy = make_easy(), *hard = make_hard();

		if (i % 10) {
			easy_free(easy);
			hard_free(hard);
		}
		if (is_first && i == each / 10)
			have_alternate_stack();
		if (i % 32 == 0)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	const char *command;

	ready();
	while (strcmp(command = next_command(), "quit")) {
		each = atol(command + 3);
		for (long i = 1; i < THREADS; i++)
			pthread_create(&thread[i], NULL, work, NULL);
		work("");
		for (int i = 1; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		answer("{\"done\": {\"easy\": [%u, %ld], \"hard\": [%u, %ld]}}", used[0], live[0],
		       used[1], live[1]);
	}
}
