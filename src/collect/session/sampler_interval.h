/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_SAMPLER_INTERVAL_H
#define ALLOCSNAP_COLLECT_SESSION_SAMPLER_INTERVAL_H

/*
 * Keeps the cost of processes that sample their own heap to a number of samples a second, or to a budget: writes the
 * interval of allocsnap's own sampler (sampler/sampler_info.h) in the process. Other samplers have no such word, and
 * nothing is written to them.
 *
 * The word is written by /proc/PID/mem, which stays open: the descriptor belongs to the memory of one program, so after
 * an exec, or in another process with the PID, nothing can be written. It is opened when the sampler is found, for
 * `attach` and `run` before they give up privileges. It needs the user of the process, or CAP_DAC_OVERRIDE.
 */

#include <stdbool.h>
#include <stdint.h>

struct collector;
struct target;

/* Opens the memory of a process whose sampler is used, if the sampler has an interval that may be changed. */
void sampler_interval_open(struct collector *collector, struct target *target);

/* Looks at all processes, and changes intervals. Returns when to look again, in ns; UINT64_MAX: no need to. */
uint64_t sampler_intervals_keep(struct collector *collector);

/* Whether a larger interval may still bring the cost of a process into its budget: then it need not pause. */
bool sampler_interval_helps(const struct target *target);

/* Gives the process the interval back that its user chose, and closes its memory. */
void sampler_interval_leave(struct target *target);

#endif
