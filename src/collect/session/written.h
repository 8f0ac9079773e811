/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_WRITTEN_H
#define ALLOCSNAP_COLLECT_WRITTEN_H

/*
 * Files that are written to while they are known: a program that is deployed in place (cp, scp, rsync --inplace).
 * Breakpoints at the old program's instructions would end the new one, and the old one's names would be wrong for it.
 *
 * Probes go first, at the first write, by the process that holds them (keeper.h) or by take_written_files(). What is
 * left of the race: a program that is started within the fraction of a millisecond that this takes, and writes that
 * tell nobody (file_watch.h); these are noticed when the file is mapped next, and before each snapshot. Probes that
 * are perf events go one after another, a tenth of a second each: there it takes seconds.
 */

#include <stdint.h>

struct collector;
struct probes;

/* Notices what has been written to, lets its probes go, and has whoever maps it looked at anew. */
void take_written_files(struct collector *collector);

/* Before an object is probed: watches its file, unless the keeper does. */
void watch_file(struct collector *collector, uint32_t object);

/* Before an object is let go. */
void unwatch_file(struct collector *collector, uint32_t object);

/*
 * The keeper leaves a file alone that is open for writing, as by a defragmenter. It is tried again each second, by
 * take_written_files().
 */
void put_off(struct collector *collector, uint32_t object);

/* After a pause, what could not be placed again for that. */
void put_off_unplaced(struct collector *collector, const struct probes *probes);

/* Those of a pause are asked whether they have been written to: before they are probed again, and after. */
void check_probed_files(struct collector *collector, const struct probes *probes);

/* All files are asked whether they have been written to. */
void check_files(struct collector *collector);

#endif
