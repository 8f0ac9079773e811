/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_JSON_PARTS_H
#define ALLOCSNAP_RENDER_JSON_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "render.h"
#include "render/emitter.h"

struct frame_view;
struct snapshot;
struct snapshot_facts;

/*
 * jansson with the rules of this program: strings are cleaned, so that they are UTF-8; a key that is set twice keeps
 * its last value. New JSON is emitted (emitter.h); these change JSON that is there.
 */

/* Takes ownership of value, also on failure; a NULL value is -ENOMEM. Returns 0 or -ENOMEM. */
int json_set(json_t *object, const char *key, json_t *value);

/* NULL: no memory. A number above INT64_MAX, which no honest snapshot has, becomes a real: it is visibly inexact. */
json_t *json_clean_string(const char *text);
json_t *json_count(uint64_t value);

/* A copy with all of its members, or NULL: no memory. jansson's copies lack what it found no memory for. */
json_t *json_whole_copy(json_t *value);

/* Returns value if err is 0. Otherwise drops it and returns NULL. */
json_t *json_unless(int err, json_t *value);

/*
 * Writes value without spaces and drops it. JSON_EMBED in flags leaves its outer braces out. Returns 0, -ENOMEM (also
 * for NULL) or the errno of the write.
 */
int json_put(FILE *out, json_t *value, size_t flags);

/* ---- members that several answers have ---- */

/* {"bytes":524288,"confidence":0.95}, or {"bytes":0} if the snapshot has every block */
void emit_sampling(struct emitter *out, const char *key, const struct snapshot *snapshot);

/* "traceback": the frames, most recent call first, as all JSON has them. frame: oldest first. */
void emit_frames(struct emitter *out, const struct frame_view *frame, uint32_t nframe);

/* "cost" if it is known */
void emit_cost(struct emitter *out, const struct snapshot *snapshot);

/* "rss" if its parts are known. Only JSON: render_rss() writes the text. */
void emit_rss(struct emitter *out, const struct snapshot *snapshot);

/* "tracebacks": blocks by how their stack walk ended */
void emit_tracebacks(struct emitter *out, const struct snapshot_facts *facts);

/* "schema", "key_type", "measure", "cumulative", "selection" or "baseline" and "candidate", "sampling", "gap_blocks" */
void emit_origin(struct emitter *out, const struct report *report, const char *schema);

/* "cannot_be_judged", "warnings", "losses" */
void emit_caveats(struct emitter *out, const struct report *report);

/* "key", "name", "traceback": they identify the group */
void emit_group(struct emitter *out, const struct report *report, const struct statistic *statistic);

/* "size", "count", and "size_diff", "count_diff"; diff may be NULL */
void emit_sizes(struct emitter *out, const struct cost *cost, const struct cost *diff);

/* ---- sums over cohorts ---- */

/* The parts of a report that only sums over many snapshots have. In a report of single snapshots they are empty. */

/* Returns the number of snapshots or cohorts: 2 if they were compared, otherwise 1. */
size_t report_sides(const struct report *report);
bool report_is_side_sampled(const struct report *report, size_t side);

/* "18 s", "3 days": in a unit of which there are two or more. Returns text. */
#define AGE_TEXT_MAX 32
const char *age_text(char text[AGE_TEXT_MAX], uint64_t ns);

/* "2495 snapshots of 2495 processes on 499 hosts, the oldest 18 s older than the newest" */
#define COHORT_TEXT_MAX 192

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
