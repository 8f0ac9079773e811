/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_KEPT_SAMPLERS_H
#define ALLOCSNAP_COLLECT_PROBE_KEPT_SAMPLERS_H

/*
 * The link holder's list of processes with a sampler that the recording has injected (collect/inject): the link holder takes the
 * samplers out again, at the latest when the recording has ended. All ejections together have five seconds from the first
 * one on: each process gets an equal part of what is left, and one try if nothing is.
 *
 * Forked children are known by the files: the recording says which ones it has put in, and where. No other process can
 * map them, as they have no name, and no descriptor of them is left. Nothing else is believed of a process.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/inject.h"

struct link_holder_ejection;

struct kept_sampler {
	pid_t pid;
	uint32_t file_nr; /* 0: not said */
	struct inject_file file[INJECT_ALLOCATORS_MAX];
};

struct kept_samplers {
	struct kept_sampler *sampler;
	size_t sampler_nr, sampler_alloc;
	uint64_t until_ns; /* 0: nothing was to be ejected yet */
};

/* From here on the sampler of the process is the link holder's to eject, also if it is injected later. 0 or -ENOMEM. */
int kept_samplers_add(struct kept_samplers *kept, pid_t pid);

/* The files of the sampler, once it is in the process. 0; -ENOENT: the process was not added; -E2BIG: too many files. */
int kept_samplers_tell_files(struct kept_samplers *kept, pid_t pid, const struct inject_file *file, uint32_t nr);

/*
 * Takes the sampler out now, also out of children that were forked meanwhile, and forgets the process. *ret is -ENOENT if
 * it was not added.
 */
void kept_samplers_eject(struct kept_samplers *kept, pid_t pid, struct link_holder_ejection *ret);

void kept_samplers_eject_all(struct kept_samplers *kept);

#endif
