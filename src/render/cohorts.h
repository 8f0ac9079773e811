/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_COHORTS_H
#define ALLOCSNAP_RENDER_COHORTS_H

/* What a report of sums over many snapshots has that one of snapshots has not; nothing where it is none. */

#include <jansson.h>
#include <stdbool.h>

#include "render.h"

/* The snapshots or cohorts that were compared, or the one: 2 or 1. */
size_t report_sides(const struct report *report);
bool is_sampled_side(const struct report *report, size_t side);

/* "2495 snapshots of 2495 processes on 499 hosts" */
#define COHORT_TEXT_MAX 128
const char *cohort_text(char text[COHORT_TEXT_MAX], const struct report_cohort *cohort);

/* A line for each cohort. 0 or a negative errno. */
int put_cohorts(FILE *out, const struct report *report);

/* ", per process 1.2 KiB (+30 B)", or "". Returns text. */
#define PROCESS_MEAN_TEXT_MAX 128
const char *process_mean_text(char text[PROCESS_MEAN_TEXT_MAX], const struct report *report,
			      const struct cost *cost, const struct cost *diff);

/* "selection" or "baseline" and "candidate", and what a diff is ordered by; 0 or -ENOMEM. */
int json_set_cohorts(json_t *head, const struct report *report);

/* {"snapshots":12,"confidence":0.95} of those that were sampled; {"bytes":0} of every block. NULL: no memory. */
json_t *cohort_sampling_json(const struct report_cohort *cohort);

/* "baseline_process_mean", "candidate_process_mean", "process_mean_diff"; 0 or -ENOMEM. */
int json_set_process_means(json_t *object, const struct report *report, const struct statistic *statistic);

#endif
