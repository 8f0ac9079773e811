/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_KEPT_SAMPLERS_H
#define ALLOCSNAP_COLLECT_PROBE_KEPT_SAMPLERS_H

/*
 * The keeper's list of processes with a sampler that the recording has injected (collect/inject): the keeper takes the
 * samplers out again, at the latest when the recording has ended.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct link_holder_ejection;

struct kept_sampler {
	pid_t pid;
	dev_t exe_dev; /* the file of its program, which forked children have, too */
	ino_t exe_inode; /* 0: not known */
};

struct kept_samplers {
	struct kept_sampler *sampler;
	size_t sampler_nr, sampler_alloc;
};

/* From here on the sampler of the process is the keeper's to eject, also if it is injected later. 0 or -ENOMEM. */
int kept_samplers_add(struct kept_samplers *kept, pid_t pid);

/*
 * Takes the sampler out now, also out of children that were forked meanwhile, and forgets the process. Waits while a
 * process cannot be stopped, some seconds at most.
 */
void kept_samplers_eject(struct kept_samplers *kept, pid_t pid, struct link_holder_ejection *ret);

void kept_samplers_eject_all(struct kept_samplers *kept);

#endif
