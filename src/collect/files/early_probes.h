/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FILES_EARLY_PROBES_H
#define ALLOCSNAP_COLLECT_FILES_EARLY_PROBES_H

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

#include <stddef.h>

struct collector;

/* Zeroed: none. */
struct early_programs {
	char **program; /* their paths */
	size_t program_nr, program_alloc;
};

/* In system-wide mode only. 0 or a negative errno. A file that cannot be probed is not an error: a note names it. */
int probe_host_allocators(struct collector *collector);

/* After each pass: probes a program of such a path, too, if it has been replaced since. */
void probe_replaced_programs(struct collector *collector);

#endif
