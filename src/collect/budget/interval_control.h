/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_INTERVAL_CONTROL_H
#define ALLOCSNAP_COLLECT_BUDGET_INTERVAL_CONTROL_H

/*
 * Decides the interval (the mean bytes between two samples) of a process that samples its own heap, so that its samples
 * cost no more than they may. This is arithmetic only: the caller reads the clock and the process, and writes.
 *
 * The interval is the chosen one times a power of two, and never below it. It grows at once if samples come faster than
 * they may, and halves after a second in which less than a quarter came. Each sample has the weight of the interval that
 * its distance was drawn with, so estimates stay unbiased.
 *
 * Several recorders may write. The largest wish counts: a recorder raises an interval that is below its own wish, and
 * lowers only what it has written last. So after another one was killed, it waits for some seconds.
 */

#include <stdbool.h>
#include <stdint.h>

#define INTERVAL_RATE_DEFAULT 1000 /* samples a second */
#define INTERVAL_MOST (UINT64_C(1) << 30)

/* The most that recording a process may cost. */
struct interval_aim {
	uint64_t rate;	   /* samples a second */
	uint64_t share_ns; /* of a second, for all that recording costs the process; 0: no budget */
};

/* A process at one moment. The process supplies the first three members: they may have any value. */
struct interval_look {
	uint64_t chosen, interval, samples;
	uint64_t cost_ns, now_ns;
};

/* Zeroed: no look yet. */
struct interval_control {
	uint64_t chosen;
	uint64_t wanted;    /* the interval that this recorder needs */
	uint64_t written;   /* what it has written last; 0: nothing */
	uint64_t found;	    /* at the last look, or written since */
	uint64_t most;	    /* the largest that was in force at a look */
	bool has_changed;   /* it was not always the same */
	uint64_t foreign_ns; /* since when a larger one of another recorder is in force; 0: none is */
	uint64_t began_ns, samples, cost_ns; /* when the period began, and what had been counted then; 0: none has */
	uint64_t quiet_ns;  /* since when few samples come; 0: not few */
	uint64_t sample_ns; /* what a sample costs */
	bool is_vain;	    /* the cost is above the budget, and a larger interval would not help */
};

/* Returns the interval that is to be written, or 0: none is. The caller reports back by interval_has_written(). */
uint64_t interval_decide(struct interval_control *control, const struct interval_aim *aim,
			 const struct interval_look *look);

void interval_has_written(struct interval_control *control, uint64_t interval);

/* The recording pauses, or the process has another program: the next look begins a new period. */
void interval_end_period(struct interval_control *control);

/* The interval to leave behind, or 0: what is there now is not this recorder's. */
uint64_t interval_to_restore(const struct interval_control *control);

/* Whether the next look should be soon: samples come fast, or the interval may be lowered. */
bool interval_is_busy(const struct interval_control *control);

/* How long only samples of a process were recorded to stay within a budget. Times are of CLOCK_MONOTONIC. */

/* A zeroed struct is the beginning: every block is recorded. */
struct thinned_time {
	uint64_t sum_ns;   /* until since_ns */
	uint64_t since_ns; /* only samples are recorded since then; 0: every block is */
};

/* From now_ns on only samples are recorded, or every block is. */
static inline void thinned_time_set(struct thinned_time *time, bool is_thinned, uint64_t now_ns)
{
	if (time->since_ns && now_ns > time->since_ns)
		time->sum_ns += now_ns - time->since_ns;
	time->since_ns = is_thinned ? now_ns : 0;
}

/* The sum until now_ns, which may be earlier than the last change: a process may have ended before it. */
static inline uint64_t thinned_time_until(const struct thinned_time *time, uint64_t now_ns)
{
	return time->sum_ns + (time->since_ns && now_ns > time->since_ns ? now_ns - time->since_ns : 0);
}

#endif
