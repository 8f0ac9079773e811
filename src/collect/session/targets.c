// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/session/targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collect/bpf.h"
#include "collect/session/sampler_interval.h"

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
	int err = rebuild_pid_table(targets);

	if (!err)
		err = array_push(targets, target, target);
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

#define CODES_LEFT_MOST (16u << 10) /* and not more than a quarter of all: so a sweep costs little for each */

void targets_forget_python(struct targets *targets, const struct target *target)
{
	const struct allocsnap_bpf *bpf = targets->books.bpf;

	if (!targets->books.process || !target->python.memory)
		return;
	targets->codes_left += python_process_forget(&targets->books.process[target->slot % PROCESSES_MAX],
						     target->python.memory);
	if (targets->codes_left < CODES_LEFT_MOST || targets->codes_left < bpf->bss->python_codes_held / 4)
		return;
	if (!python_codes_sweep(bpf, targets->books.process))
		targets->codes_left = 0;
}

void targets_close(struct targets *targets, struct target *target)
{
	sampler_interval_leave(target);
	probes_close(&target->probes.own); /* first: late writes must not hit the slot's next owner */
	probes_close(&target->probes.python);
	if (target->slot != BOOKS_NONE && targets->by_slot[target->slot] == target)
		targets->by_slot[target->slot] = NULL;
	targets_forget_python(targets, target);
	target_python_release(&target->python);
	books_end(&targets->books, target->slot);
	target__free(target);
}
