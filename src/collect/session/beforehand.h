/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BEFOREHAND_H
#define ALLOCSNAP_COLLECT_BEFOREHAND_H

/*
 * The recorder hears of a new program when that runs already, and must not hold it. So the allocators that
 * the programs of the rules will most likely use are probed before any of them runs:
 *
 *	--exe PATH, no * and ?   that file, and where it names a loader, that one and the C library beside it
 *	other rules, or none     what PID 1 maps of allocators besides its program: the C library; where it
 *	                         maps none, what the recorder does
 *	--pid                    nothing: such a process is there already
 *
 * All processes that use these files pay for the traps. Other files, as the C library of a container, are
 * probed when the first process that is recorded has mapped them, which functions_late counts.
 */

struct collector;
struct collector_options;

/* Where everyone is recorded. 0 or a negative errno; of a file that cannot be probed a note says so. */
int probe_beforehand(struct collector *collector, const struct collector_options *options);

/* After each pass: a program of such a path that has been replaced since is probed, too. */
void probe_replaced_programs(struct collector *collector);

#endif
