// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recording/targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collect/bpf.h"
#include "collect/recording/collector.h"
#include "shared/links_state.h"

int targets_open(struct targets *targets, const struct allocsnap_bpf *bpf)
{
	targets->new_child = calloc(PROCESSES_MAX, sizeof(*targets->new_child));
	return targets->new_child ? books_open(&targets->books, bpf) : -ENOMEM;
}

void targets_release(struct targets *targets)
{
	free(targets->target);
	books_close(&targets->books);
	free(targets->by_pid);
	free(targets->new_child);
}

const struct process *collector_books_of(const struct targets *targets, uint32_t slot)
{
	return &targets->books.process[slot];
}

/* ---- by PID ---- */

static size_t place_of_pid(const struct targets *targets, pid_t pid)
{
	return (uint32_t)pid * 2654435761u & (targets->by_pid_nr - 1);
}

/* Several targets may have had the PID, one after another: enters the latest. */
static void enter_pid(struct targets *targets, struct target *target)
{
	size_t at = place_of_pid(targets, target->identity.pid);

	while (targets->by_pid[at] && targets->by_pid[at]->identity.pid != target->identity.pid)
		at = (at + 1) & (targets->by_pid_nr - 1);
	if (!targets->by_pid[at] || targets->by_pid[at]->life.started_ns < target->life.started_ns)
		targets->by_pid[at] = target;
}

/* Enters all targets anew, with room for one more; at most half of the table is used. 0 or -ENOMEM. */
static int rebuild_pid_table(struct targets *targets)
{
	size_t nr = 64;

	while (nr < 2 * (targets->target_nr + 1))
		nr *= 2;
	if (nr != targets->by_pid_nr) {
		struct target **by_pid = realloc(targets->by_pid, nr * sizeof(*by_pid));

		if (!by_pid)
			return -ENOMEM;
		targets->by_pid = by_pid;
		targets->by_pid_nr = nr;
	}
	memset(targets->by_pid, 0, nr * sizeof(*targets->by_pid));
	for (size_t i = 0; i < targets->target_nr; i++)
		enter_pid(targets, targets->target[i]);
	return 0;
}

struct target *find_target(const struct targets *targets, pid_t pid)
{
	size_t at = targets->by_pid_nr ? place_of_pid(targets, pid) : 0;

	if (!targets->by_pid_nr)
		return NULL;
	while (targets->by_pid[at] && targets->by_pid[at]->identity.pid != pid)
		at = (at + 1) & (targets->by_pid_nr - 1);
	return targets->by_pid[at];
}

/* ---- coming and going ---- */

int targets_add(struct targets *targets, struct target *target)
{
	int err = rebuild_pid_table(targets) ?: array_push(targets, target, target);
	if (err)
		return err;
	enter_pid(targets, target);
	targets->by_slot[target->slot] = target;
	return 0;
}

struct target *targets_take_out(struct targets *targets, size_t i)
{
	struct target *target = targets->target[i];

	memmove(targets->target + i, targets->target + i + 1, (--targets->target_nr - i) * sizeof(*targets->target));
	rebuild_pid_table(targets); /* cannot fail: there is room */
	return target;
}

unsigned int targets_beside_nr(const struct targets *targets)
{
	unsigned int nr = 0;

	for (size_t i = 0; i < targets->target_nr; i++)
		nr += targets->target[i]->probes.beside.link_nr && !targets->target[i]->life.has_ended;
	return nr;
}

void targets_close(struct targets *targets, struct target *target)
{
	probes_close(&target->probes.own); /* first: late writes must not hit the slot's next owner */
	probes_close(&target->probes.beside);
	if (target->slot != BOOKS_NONE && targets->by_slot[target->slot] == target)
		targets->by_slot[target->slot] = NULL;
	books_end(&targets->books, target->slot);
	target__free(target);
}

bool links_are_own(const struct collector *collector)
{
	enum links_phase phase = LINKS_PHASE(collector->bpf->bss->links_state);

	return phase == LINKS_TO_OWN || phase == LINKS_OWN;
}
