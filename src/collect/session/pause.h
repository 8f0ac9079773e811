/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PAUSE_H
#define ALLOCSNAP_COLLECT_PAUSE_H

/*
 * Recordings that pause to keep to a budget, and the gaps that come of it. A budget belongs to probes:
 * to those of a process, or where children are followed to those of everybody, and then what all
 * processes together cost decides, and what each of them does (shares.h).
 */

struct collector;
struct pausing;

/* Gives what has no budget yet the collector's. */
void pausing_begin(struct collector *collector, struct pausing *pausing);

/* Pauses what has spent its budget, resumes what has earned enough, and sets when to look again. */
void keep_budgets(struct collector *collector);

/*
 * Whether the keeper has ended, and the probes with it: then a gap begins for every process, which has no end.
 * Or the process that starts the readers of files. Once, with a note.
 */
void notice_blindness(struct collector *collector);

/* Before something that takes long: pauses what could spend much meanwhile. */
void pause_spenders(struct collector *collector);

/* All probes are placed again: a process is about to be looked at for the first time. */
int resume_everybody(struct collector *collector);

#endif
