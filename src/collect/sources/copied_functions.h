/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_COPIED_FUNCTIONS_H
#define ALLOCSNAP_COLLECT_SOURCES_COPIED_FUNCTIONS_H

/*
 * Programs that copy their code to anonymous memory while it runs (text_copies.h). In the copy, a breakpoint ends
 * the process, and no function can be probed.
 */

#include <stdbool.h>
#include <sys/types.h>

struct notes;
struct objects;
struct probes;
struct mappings;
struct target;

/*
 * Before the objects of a process are probed: marks those that may be copied, so that they are not probed. A note
 * says so. An object that has probes already keeps them.
 */
void copied_mark(struct objects *objects, struct notes *notes, const struct mappings *mappings,
		 const struct probes *probes);

/* Whether any object is marked. */
bool copied_has_any(const struct mappings *mappings);

/*
 * Counts the probed functions of a process that are no longer in any mapping of their file, although the process
 * maps the file: LOSS_functions_copied. The first time, a note says so.
 */
void copied_count(struct objects *objects, struct notes *notes, struct target *target);

/* Whether a process maps a file, but no part of it as code. */
bool copied_is_away(pid_t pid, const char *path);

#endif
