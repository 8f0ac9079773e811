/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_TRIGGERS_H
#define ALLOCSNAP_RECORD_TRIGGERS_H

/*
 * Decides whether a process is due for a snapshot, and why. It decides from what the process has now
 * and what its last snapshots show (struct process_view). It keeps nothing: the collector knows what
 * the snapshots show, until the process ends.
 *
 *	growth   live bytes exceed the last snapshot by the given size or percentage
 *	peak     live bytes exceed every snapshot by PCT percent: however large the process
 *	         becomes, one of its snapshots has at least 100 / (100 + PCT) of its peak, if that lasts
 *	         for as long as a snapshot takes
 *	oom      the OOM killer has chosen a process in its memory cgroup
 *
 * A step is TRIGGER_STEP_LEAST bytes at least: otherwise any block is enough for an empty process.
 *
 *	while (…) {
 *		trigger = triggers__decide(&options, &view);
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
	X(LAST, last) /* a signal or a blind collector ended the recording */

enum trigger {
#define X(NAME, name) TRIGGER_##NAME,
	TRIGGERS(X)
#undef X
};

/* Zero is the default: no trigger. */
struct trigger_options {
	uint64_t growth_bytes;	 /* of these two only the last one given is set, the other is 0 */
	uint64_t growth_percent;
	uint64_t peak_percent;
	bool on_oom;
};

struct process_view;
struct reason;

const char *trigger_name(enum trigger trigger);

/* Whether any trigger is asked for. */
bool triggers__are_set(const struct trigger_options *options);

/* Returns why the process is due for a snapshot, or TRIGGER_NONE. */
enum trigger triggers__decide(const struct trigger_options *options, const struct process_view *view);

/* Returns the least live bytes that growth or peak needs, as things are now; 0: neither is asked for. */
uint64_t triggers__threshold(const struct trigger_options *options, const struct process_view *view);

/*
 * parse() functions of options: --on-growth "20%" or "100M", whose field is the whole struct, and --on-peak "5%",
 * whose field is peak_percent.
 */
int parse_growth_trigger(const char *text, void *field, struct reason *why);
int parse_peak_trigger(const char *text, void *field, struct reason *why);

#endif
