/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_SELECTION_H
#define ALLOCSNAP_FLEET_SELECTION_H

/*
 * Which snapshots of a fleet are meant: "host=web-*,comm=redis*,label.version=1.4,time>=2026-11-21".
 *
 * KEY OP VALUE, with commas between, all of them true. Keys: host comm exe build-id cgroup container boot
 * kernel version trigger end path label.NAME, whose values are patterns (engine/pattern.h), with = and !=; pid,
 * size, count and time, numbers, with = != < <= > >=. A size may have a suffix (4M). A time is RFC 3339, or the
 * beginning of it (2026-11-21, 2026-11-21T03:15, UTC; = means within it, <= up to its end), seconds since 1970 (but
 * four digits are a year), or a duration ago (-24h), an instant that goes with < <= > >= only. A comma separates only
 * where a known KEY and OP follow: patterns may have commas; [,] never separates. Where an unknown one follows, a blank
 * and a KEY, or nothing, it is refused; so is a pattern that begins with = (it is written [=]). An empty text means all
 * of them.
 * A label that a snapshot has not is the empty text. `end` is what became of the process, as far as the catalogue
 * knows, whichever of its snapshots it is: end=running, end=exited*, end=killed*, "end=replaced by exec".
 */

#include <stdbool.h>
#include <stddef.h>

#include "fleet/catalogue.h"

struct selection_term;

struct fleet_selection {
	struct selection_term *term;
	size_t term_nr, term_alloc;
	char *text; /* what terms point into */
};

/* now_ns: what durations count back from. 0, -ENOMEM, or -EINVAL with a line that says what is right. */
int fleet_selection_parse(const char *text, int64_t now_ns, struct fleet_selection *ret,
			  struct reason *why);
void fleet_selection_release(struct fleet_selection *selection);
bool fleet_selection_matches(const struct fleet_selection *selection, const struct fleet_facts *facts,
			     const struct fleet_snapshot *snapshot);

enum cohort_times {
	COHORT_LATEST, /* of each process the last one that matches, also of one that has ended since */
	COHORT_ALL, /* but for parts (`convert`) of snapshots that are chosen themselves */
};

/* Snapshots that are taken together: by process, and then by time. Pointers into the facts. */
struct cohort {
	const struct fleet_snapshot **snapshot;
	size_t snapshot_nr, snapshot_alloc;
	uint32_t process_nr, host_nr; /* that they are of */
	enum cohort_times times;
};

/* Snapshots that match all the selections. 0 or -ENOMEM; none is no error. */
int cohort_choose(const struct fleet_facts *facts, const struct fleet_selection *const *selection,
		  size_t selection_nr, enum cohort_times times, struct cohort *ret);
/*
 * What an answer about cohorts failed with: err, and where that is -ERANGE *why also says which of their snapshots is the
 * largest, and how it is left out.
 */
int cohort_error(int err, const struct cohort *const *cohort, size_t cohort_nr, struct reason *why);

void cohort_release(struct cohort *cohort);

#endif
