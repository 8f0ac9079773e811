/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_UNUSED_H
#define ALLOCSNAP_COLLECT_UNUSED_H

/*
 * Files that no process needs any more are let go: descriptor, probes, facts, unwind table, names. So file systems
 * can be unmounted, the space of removed files is given back, and what the kernel's maps and our memory hold is
 * bounded by what is mapped, not by how long the recording has lasted.
 *
 * A file is needed as long as a process maps it, or a traceback that is kept leads into it; it goes with the first pass
 * after that of its last snapshot. Files of the recorder's own root file system, which is not unmounted, stay probed for
 * the next process that runs them, unless they are removed or too many.
 */

#include <stdbool.h>

struct collector;
struct object;

/* Whether a file is on the recorder's own root file system. */
bool is_on_root(const struct object *object);

/* After each drain. */
void let_go_of_unused(struct collector *collector);

/* Where an unwind table did not fit: the tables of files that no process maps any more make room. */
void make_room_for_tables(struct collector *collector);

#endif
