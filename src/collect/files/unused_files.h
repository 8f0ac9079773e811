/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FILES_UNUSED_FILES_H
#define ALLOCSNAP_COLLECT_FILES_UNUSED_FILES_H

/*
 * The loader drops files that no process needs any more: descriptor, probes, probe_info, unwind table, names. So file
 * systems can be unmounted, and the space of removed files is freed. The memory of the kernel's maps and of the
 * loader is bounded by the mapped files, not by the length of the recording.
 *
 * A file is needed while a process maps it, or while a traceback that is kept leads into it. It is dropped with
 * the first pass after the one with the process's last snapshot. Files of the recorder's own root file system
 * (which is not unmounted) stay probed for the next process that runs them, unless they are removed or there are
 * too many.
 */

#include <stdbool.h>
#include <stddef.h>

#include "collect/files/written_files.h"

/* Called after each drain. */
void drop_unused(struct collector *collector);

/* Called when an unwind table did not fit: drops the tables of files that no process maps now. */
void drop_unmapped_tables(struct collector *collector);

/*
 * The recorder hears of a new program when the program runs already, and must not stop it. So the loader probes
 * the allocators that the programs of the rules will most likely use before any of these programs runs:
 *
 *	--exe PATH, no * and ?   that file; if it names a loader, also the loader and the C library beside it
 *	other rules, or none     the allocators that PID 1 maps besides its program, that is the C library;
 *				 if PID 1 maps none, those that the recorder maps
 *	--pid                    nothing: such a process runs already
 *
 * All processes that use these files pay for the traps. Other files, such as the C library of a container, are
 * probed when the first recorded process has mapped them; functions_late counts these.
 */

/* Zeroed: none. */
struct early_programs {
	char **program; /* their paths */
	size_t program_nr, program_alloc;
};

/* In system-wide mode only. 0 or a negative errno. A file that cannot be probed is not an error: a note names it. */
int probe_host_allocators(struct collector *collector);

struct file_state {
	struct written_files written;
	struct early_programs early;
};

#endif
