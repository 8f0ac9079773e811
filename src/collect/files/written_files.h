/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FILES_WRITTEN_FILES_H
#define ALLOCSNAP_COLLECT_FILES_WRITTEN_FILES_H

/*
 * Files that are written to while they are in use: a program that is deployed in place (cp, scp, rsync
 * --inplace). Breakpoints at the old program's instructions would end the new one, and the old names would be
 * wrong for it.
 *
 * The probes are removed at the first write, by the process that holds them (link_holder.h) or by
 * handle_written_files(). Two cases remain. A program may start within the fraction of a millisecond that the
 * removal takes. Some writes cause no event (file_watch.h): these are noticed when the file is mapped next, and
 * before each snapshot.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/probe/file_watch.h"

struct collector;
struct objects;
struct probes;
struct reason;

struct written_files {
	struct file_watch watch; /* on probed files, if there is no link holder */
	struct file_lease {
		int fd; /* of file_lease_take() */
		uint32_t object; /* OBJECT_GONE: dropped */
		bool is_ending; /* its probes are being removed: then it goes */
	} *lease; /* the same */
	size_t lease_nr, lease_alloc;
	uint64_t changed_nr;	 /* the objects.changed_nr that has been handled */
	uint64_t put_off_ns;	 /* when objects that are put off were last tried */
	size_t put_off_at;	 /* the next object to try */
	size_t put_off_told_nr;
};

/* Finds files that were written to, drops their probes, and lets the processes that map them be looked at again. */
void handle_written_files(struct collector *collector);

/*
 * Called before an object is probed: watches its file and takes a lease on it, unless the link holder does. 0, even if that
 * fails; -ETXTBSY: the file is open for writing, or a process waits to open it.
 */
int watch_file(struct collector *collector, uint32_t object);

/* Called before an object is dropped. */
void unwatch_file(struct written_files *written, struct objects *objects, uint32_t object);

/*
 * Probes the allocators in an object, unless it was looked at already. with_heap and the result are as for
 * probes_attach(). An object whose file is open for writing, as by a defragmenter, is put off: the link holder does not
 * probe it, and handle_written_files() tries again each second.
 */
int probe_object(struct collector *collector, struct probes *probes, uint32_t object, bool with_heap,
		 struct reason *why);

/* After a pause: puts off the objects whose probes could not be placed again for this reason. */
void put_off_unplaced_objects(struct collector *collector, const struct probes *probes);

/*
 * Checks whether the files of these probes were written to: before probes are placed after a pause, and
 * afterwards.
 */
void check_probed_files(struct collector *collector, const struct probes *probes);

/* Checks whether any file was written to. */
void check_files(struct collector *collector);

/* Once no probe is left. */
void release_written_files(struct written_files *written);

#endif
