/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_SELECTION_H
#define ALLOCSNAP_FLEET_SELECTION_H

/*
 * A selection of a fleet's snapshots: "host=web-*,comm=redis*,label.version=1.4,time>=2026-11-21".
 *
 * It has terms KEY OP VALUE with commas between; all terms must be true. The values of host comm exe build-id cgroup
 * container boot kernel version trigger end path pod namespace label.NAME are patterns (engine/pattern.h), with = and !=. The
 * values of pid, size, count and time are numbers, with = != < <= > >=. A size may have a suffix (4M). A time is RFC
 * 3339, or the beginning of it (2026-11-21, 2026-11-21T03:15, UTC; = means within it, <= up to its end), or seconds
 * since 1970 (four digits are a year), or a duration ago (-24h), which is an instant and goes with < <= > >= only.
 *
 * A comma separates terms only before a known KEY and an OP. Any other comma is part of the pattern, and [,] always
 * is. It is an error if an unknown KEY and an OP follow a comma, or a blank and a KEY, or nothing. A pattern that
 * begins with = is an error, too (it is written [=]). An empty text selects all snapshots.
 *
 * pod and namespace are the labels k8s.pod.name and k8s.namespace.name. A label that a snapshot lacks is the empty text.
 * `end` is what became of the process, as far as the catalogue knows, in all its snapshots: end=running, end=exited*, end=killed*, "end=replaced by exec", "end=not seen again".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fleet/catalogue.h"

struct selection_term;

struct fleet_selection {
	struct selection_term *term;
	size_t term_nr, term_alloc;
	char *text; /* terms point into it */
};

/* Durations count back from now_ns. Returns 0, -ENOMEM, or -EINVAL with a line that says what is right. */
int fleet_selection_parse(const char *text, int64_t now_ns, struct fleet_selection *ret,
			  struct reason *why);
void fleet_selection_release(struct fleet_selection *selection);
bool fleet_selection_matches(const struct fleet_selection *selection, const struct fleet_facts *facts,
			     const struct fleet_snapshot *snapshot);

/* Whether it says itself which processes of those that have ended it means: it has an `end`, or goes up to a time. */
bool fleet_selection_asks_for_ended(const struct fleet_selection *selection);

/*
 * Writes that all selections match as a condition in ClickHouse's SQL on the columns of row tables. fates: the text of
 * sql/fates.sql. Returns 0, -ENOMEM, or -EINVAL with a line in *why: there is a text that SQL cannot compare.
 */
int fleet_selections_write_sql(const struct fleet_selection *const *selection, size_t selection_nr, const char *fates,
			       FILE *out, struct reason *why);

enum cohort_times {
	COHORT_LATEST, /* the last matching snapshot of each process, also of a process that has ended since */
	/* The same without processes that had ended. If a selection asks for these, it is COHORT_LATEST. */
	COHORT_LIVE,
	COHORT_ALL, /* all matching snapshots, without parts (`convert`) of snapshots that are chosen themselves */
	COHORT_WITH_PARTS, /* the same with these parts */
};

/* Processes that COHORT_LIVE leaves out. */
struct cohort_ended {
	uint32_t process_nr;
	double bytes; /* in their last snapshots */
	int64_t least_behind_ns, most_behind_ns; /* behind_ns of these */
};

/* The snapshots of one question, ordered by process and then by time. They are pointers into the facts. */
struct cohort {
	const struct fleet_snapshot **snapshot;
	size_t snapshot_nr, snapshot_alloc;
	uint32_t process_nr, host_nr; /* of these snapshots */
	enum cohort_times times;
	struct cohort_ended ended, unseen; /* known to have ended; only not seen again */
};

/* Chooses the snapshots that match all the selections. Returns 0 or -ENOMEM. A cohort may have no snapshots. */
int cohort_choose(const struct fleet_facts *facts, const struct fleet_selection *const *selection,
		  size_t selection_nr, enum cohort_times times, struct cohort *ret);

/* The same of snapshots that a cluster has chosen: their chosen_by has the bit. */
int cohort_of_chosen(const struct fleet_facts *facts, uint8_t bit, enum cohort_times times, struct cohort *ret);

/*
 * Returns err, with which a question about cohorts failed. If it is -ERANGE, *why also names the largest of their
 * snapshots, and how to leave it out.
 */
int cohort_explain_error(int err, const struct cohort *const *cohort, size_t cohort_nr, struct reason *why);

/* The number of rows of its snapshots. */
uint64_t cohort_row_nr(const struct cohort *cohort);

void cohort_release(struct cohort *cohort);

#endif
