/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TRIGGERS_H
#define ALLOCSNAP_TRIGGERS_H

/*
 * Why a snapshot is taken, and whether it is time for one: decisions only, from what a process has now
 * and what its last snapshots show (struct process_view). There is nothing to keep: what they show is
 * the collector's knowledge, and ends with the process.
 *
 *	growth   what is live is more than the last snapshot has, by so much
 *	peak     what is live is more than any snapshot has, by so many percent: however large the process
 *	         becomes, one of its snapshots has at least 100 / (100 + PCT) of its peak, if that lasts
 *	         for as long as a snapshot takes
 *	oom      the OOM killer has chosen somebody in its memory cgroup
 *
 * A step is TRIGGER_STEP_LEAST bytes at least: of a process that has nothing yet anything is more.
 *
 *	while (…) {
 *		trigger = triggers__judge(&options, &view);
 *		if (trigger)
 *			take a snapshot
 *		else
 *			collector__ring_at(collector, i, triggers__threshold(&options, &view));
 *		wait for collector__event_fd()
 *	}
 */

#include <stdbool.h>
#include <stdint.h>

#define TRIGGER_STEP_LEAST 65536

/* X(NAME, name): the name is the snapshot's metadata "trigger". Append only. */
#define TRIGGERS(X) \
	X(NONE, none) \
	X(INTERVAL, interval) \
	X(GROWTH, growth) \
	X(PEAK, peak) \
	X(OOM, oom) \
	X(SIGNAL, signal) /* SIGUSR1 */ \
	X(END, end) /* of the process */ \
	X(DURATION, duration) \
	X(LAST, last) /* the recording was told to stop */

enum trigger {
#define X(NAME, name) TRIGGER_##NAME,
	TRIGGERS(X)
#undef X
};

/* Zero is the default: no trigger. */
struct trigger_options {
	uint64_t growth_bytes;	 /* of one of these two, whichever is said last */
	uint64_t growth_percent;
	uint64_t peak_percent;
	bool on_oom;
};

struct option_row;
struct process_view;
struct reason;

const char *trigger_name(enum trigger trigger);

/* Whether any trigger is asked for. */
bool triggers__any(const struct trigger_options *options);

/* Whether it is time for a snapshot of the process, and why; TRIGGER_NONE. */
enum trigger triggers__judge(const struct trigger_options *options, const struct process_view *view);

/* The least that must be live for growth or peak, as things are now; 0: neither is asked for. */
uint64_t triggers__threshold(const struct trigger_options *options, const struct process_view *view);

/*
 * Of --on-growth "20%" or "100M", the field being the whole struct, and of --on-peak "5%", the field being
 * peak_percent: parse() functions of options.
 */
int parse_growth(const char *text, void *field, struct reason *why);
int parse_peak(const char *text, void *field, struct reason *why);

#endif
