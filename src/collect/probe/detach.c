// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/detach.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"
#include "base/privileges.h"

struct detachment {
	pthread_t thread;
	bool is_done;
	size_t nr;
	struct held_probes held[];
};

void detach_now(const struct held_probes *held)
{
	if (held->has_lease)
		fcntl(held->fd, F_SETLEASE, F_UNLCK);
	if (held->event)
		bpf_link__destroy(held->event);
	else
		close(held->fd);
}

static void *end_detachment(void *what)
{
	struct detachment *detachment = what;

	/* The recorded program pays for each trap until this thread has run, so the thread gets a high priority. */
	setpriority(PRIO_PROCESS, gettid(), -20);
	capabilities_keep(0); /* capabilities may be dropped only after this thread has started */
	for (size_t i = 0; i < detachment->nr; i++)
		detach_now(&detachment->held[i]);
	__atomic_store_n(&detachment->is_done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void join_detachment(struct detachment *detachment)
{
	pthread_join(detachment->thread, NULL);
	free(detachment);
}

/* Frees finished threads, so that they do not accumulate when probes come and go often. */
static void join_done(struct detacher *detacher)
{
	size_t kept = 0;

	for (size_t i = 0; i < detacher->detachment_nr; i++)
		if (__atomic_load_n(&detacher->detachment[i]->is_done, __ATOMIC_ACQUIRE))
			join_detachment(detacher->detachment[i]);
		else
			detacher->detachment[kept++] = detacher->detachment[i];
	detacher->detachment_nr = kept;
}

/* The thread blocks all signals: other threads handle them. */
static int start_detachment(struct detachment *detachment)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = pthread_create(&detachment->thread, NULL, end_detachment, detachment);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

void detach_begin(struct detacher *detacher, const struct held_probes *held, size_t nr)
{
	struct detachment *detachment = malloc(sizeof(*detachment) + nr * sizeof(*held));
	int err;

	join_done(detacher);
	if (detachment) {
		*detachment = (struct detachment){ .nr = nr };
		memcpy(detachment->held, held, nr * sizeof(*held));
		err = array_push(detacher, detachment, detachment);
		if (!err && !start_detachment(detachment))
			return;
		detacher->detachment_nr -= !err;
	}
	free(detachment);
	for (size_t i = 0; i < nr; i++)
		detach_now(&held[i]);
}

size_t detach_pending(struct detacher *detacher)
{
	join_done(detacher);
	return detacher->detachment_nr;
}

void detach_end(struct detacher *detacher)
{
	for (size_t i = 0; i < detacher->detachment_nr; i++)
		join_detachment(detacher->detachment[i]);
	free(detacher->detachment);
	*detacher = (struct detacher){};
}
