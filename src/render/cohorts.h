/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_COHORTS_H
#define ALLOCSNAP_RENDER_COHORTS_H

/* The parts of a report that only sums over many snapshots have. In a report of single snapshots they are empty. */

#include <stdbool.h>

#include "render.h"
#include "render/emitter.h"

/* Returns the number of snapshots or cohorts: 2 if they were compared, otherwise 1. */
size_t report_sides(const struct report *report);
bool report_is_side_sampled(const struct report *report, size_t side);

/* "18 s", "3 days": in a unit of which there are two or more. Returns text. */
#define AGE_TEXT_MAX 32
const char *age_text(char text[AGE_TEXT_MAX], uint64_t ns);

/* "2495 snapshots of 2495 processes on 499 hosts, the oldest 18 s older than the newest" */
#define COHORT_TEXT_MAX 192
const char *cohort_text(char text[COHORT_TEXT_MAX], const struct report_cohort *cohort);

/* A line for each cohort. Only text. */
void put_cohorts(struct emitter *out, const struct report *report);

/* ", per process 1.2 KiB (+30 B)", or "". Returns text. */
#define PROCESS_MEAN_TEXT_MAX 128
const char *process_mean_text(char text[PROCESS_MEAN_TEXT_MAX], const struct report *report,
			      const struct cost *cost, const struct cost *diff);

/* "selection"; or "baseline", "candidate" and the "order" of a diff. */
void emit_cohorts(struct emitter *out, const struct report *report);

/* {"snapshots":12,"confidence":0.95}, the sampled ones; {"bytes":0} if all have every block. */
void emit_cohort_sampling(struct emitter *out, const char *key, const struct report_cohort *cohort);

/* "baseline_process_mean", "candidate_process_mean" and "process_mean_diff", if the report has them. */
void emit_process_means(struct emitter *out, const struct report *report, const struct statistic *statistic);

#endif
