// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/content_id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"

/* ---- ids -------------------------------------------------------------------------------------------- */

uint32_t digest_first_line(const struct snapshot_tables *tables, uint32_t frame)
{
	return tables->frame_first_line ? tables->frame_first_line[frame] : 0;
}

static struct hash_id string_id(struct digest *d, uint32_t string)
{
	struct hash_id *memo = &d->string[string];

	if (!memo->id) {
		const char *text = snapshot__string(d->snapshot, string);

		*memo = hash_id_make(text, strlen(text));
	}
	return *memo;
}

static struct hash_id make_frame_id(struct digest *d, uint32_t frame)
{
	const struct snap_frame *row = &d->tables->frame[frame];
	const struct snap_object *object = &d->tables->object[row->object];
	const struct {
		struct hash_id filename, function, path, build_id;
		uint64_t offset;
		uint32_t lineno, flags, first_line, padding;
	} content = {
		.filename = string_id(d, row->filename),
		.function = string_id(d, row->function),
		.path = string_id(d, object->path),
		.build_id = string_id(d, object->build_id),
		.offset = row->object ? row->offset : 0,
		.lineno = row->lineno,
		.flags = row->flags,
		.first_line = digest_first_line(d->tables, frame),
	};

	return hash_id_make(&content, sizeof(content));
}

struct hash_id digest_frame_id(struct digest *d, uint32_t frame)
{
	struct hash_id *memo = &d->frame[frame];

	if (!memo->id)
		*memo = make_frame_id(d, frame);
	return *memo;
}

int digest_traceback_id(struct digest *d, uint32_t at, struct hash_id *ret)
{
	const struct snap_traceback *traceback = &d->tables->traceback[at];
	const uint32_t *frame = d->tables->traceback_frame + traceback->first;
	int err = array_reserve(&d->gathered, &d->gathered_alloc, traceback->nframe);

	if (err)
		return err;
	for (uint32_t i = 0; i < traceback->nframe; i++)
		d->gathered[i] = digest_frame_id(d, frame[i]);
	*ret = hash_id_make(d->gathered, traceback->nframe * sizeof(*d->gathered));
	return 0;
}

static int forget_ids(struct digest *d)
{
	size_t strings = d->tables->string_nr, frames = d->tables->frame_nr;
	int err = array_reserve(&d->string, &d->string_alloc, strings) ?:
		  array_reserve(&d->frame, &d->frame_alloc, frames);

	if (err)
		return err;
	memset(d->string, 0, strings * sizeof(*d->string));
	memset(d->frame, 0, frames * sizeof(*d->frame));
	return 0;
}

int digest_begin(struct digest *d, const struct snapshot *snapshot)
{
	d->snapshot = snapshot;
	d->tables = snapshot__tables(snapshot);
	d->is_sampled = d->tables->trace_weight;
	return forget_ids(d);
}

static int add_traceback_ids(struct digest *d)
{
	int err = 0;

	for (size_t i = 0; i < d->row_nr && !err; i++)
		err = digest_traceback_id(d, d->row[i].traceback, &d->row[i].id);
	return err;
}

/* ---- rows ------------------------------------------------------------------------------------------- */

static bool same_domain(uint32_t id, const void *key, const void *digest)
{
	return ((const struct digest *)digest)->domain[id] == *(const uint32_t *)key;
}

static int digest_find_domain(struct digest *d, uint32_t number, uint32_t *ret)
{
	uint64_t hash = hash_bytes(&number, sizeof(number), 0);
	uint32_t id = idmap_find(&d->domain_ids, hash, same_domain, &number, d);
	int err = 0;

	if (id == IDMAP_NONE) {
		id = d->domain_nr;
		err = array_push(d, domain, number) ?: idmap_add(&d->domain_ids, hash, id);
	}
	*ret = id;
	return err;
}

/* Returns the slot of a row, or the free slot where it belongs. */
static uint32_t *find_slot(const struct digest *d, uint32_t traceback, uint32_t domain)
{
	uint64_t hash = (traceback + domain * 0x9e3779b1ull) * 0x9e3779b97f4a7c15;
	size_t mask = d->slot_nr - 1, i = hash >> 32 & mask;

	for (; d->slot[i]; i = (i + 1) & mask) {
		const struct digest_row *row = &d->row[d->slot[i] - 1];

		if (row->traceback == traceback && d->domain[row->domain] == domain)
			break;
	}
	return &d->slot[i];
}

static int resize_slots(struct digest *d, size_t slot_nr)
{
	uint32_t *slot = calloc(slot_nr, sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	free(d->slot);
	d->slot = slot;
	d->slot_nr = slot_nr;
	for (size_t i = 0; i < d->row_nr; i++)
		*find_slot(d, d->row[i].traceback, d->domain[d->row[i].domain]) = i + 1;
	return 0;
}

static int digest_add_row(struct digest *d, uint32_t traceback, uint32_t domain, size_t *ret)
{
	struct digest_row row = { .traceback = traceback };
	int err = d->row_nr * 2 >= d->slot_nr ? resize_slots(d, d->slot_nr * 2) : 0;

	if (d->row_nr >= UINT32_MAX)
		err = -ENOMEM;
	err = err ?: digest_find_domain(d, domain, &row.domain) ?: array_push(d, row, row);
	if (!err && d->is_sampled)
		err = array_reserve(&d->sums, &d->sums_alloc, d->row_nr);
	if (err)
		return err;
	if (d->is_sampled)
		d->sums[d->row_nr - 1] = (struct sums){};
	*find_slot(d, traceback, domain) = d->row_nr;
	*ret = d->row_nr - 1;
	return 0;
}

static int digest_find_row(struct digest *d, uint64_t at, size_t *ret)
{
	uint32_t traceback = d->tables->trace_traceback[at];
	uint32_t domain = d->tables->trace_domain ? d->tables->trace_domain[at] : 0;
	uint32_t *slot = find_slot(d, traceback, domain);

	if (!*slot)
		return digest_add_row(d, traceback, domain, ret);
	*ret = *slot - 1;
	return 0;
}

/* The check of the total's size covers the rows: no row is larger than the total. */
static int digest_add_traces(struct digest *d, struct sums *total, struct reason *why)
{
	const struct snapshot_tables *t = d->tables;
	size_t row;
	int err = 0;

	for (uint64_t i = 0; i < t->trace_nr; i++) {
		err = digest_find_row(d, i, &row);
		if (err)
			return err;
		if (__builtin_add_overflow(d->total.size, t->trace_size[i], &d->total.size))
			return cost_too_much(why);
		d->row[row].cost.size += t->trace_size[i];
		d->row[row].cost.count++;
		if (d->is_sampled)
			sums_add_block(&d->sums[row], total, t->trace_size[i], t->trace_weight[i],
				       PAIR_IN_TOTAL | PAIR_IN_GROUP);
	}
	d->total.count = t->trace_nr;
	return 0;
}

#define SLOTS_LEAST 1024

static int forget_rows(struct digest *d)
{
	d->row_nr = d->domain_nr = 0;
	d->total = (struct cost){};
	idmap_release(&d->domain_ids);
	if (!d->slot_nr || d->slot_nr > d->tables->traceback_nr * 8ull + SLOTS_LEAST)
		return resize_slots(d, SLOTS_LEAST);
	memset(d->slot, 0, d->slot_nr * sizeof(*d->slot));
	return 0;
}

int digest_add_up(struct digest *d, const struct snapshot *snapshot, struct reason *why)
{
	struct sums total = {};
	int err = digest_begin(d, snapshot);

	err = err ?: forget_rows(d) ?: digest_add_traces(d, &total, why);
	if (!err && d->is_sampled)
		err = estimate_cost(&d->total, &total, why);
	err = err ?: add_traceback_ids(d);
	return err == -ENOMEM ? reason_set(why, err, "%s", strerror(ENOMEM)) : err;
}

void digest_release(struct digest *d)
{
	free(d->row);
	free(d->sums);
	free(d->domain);
	idmap_release(&d->domain_ids);
	free(d->slot);
	free(d->string);
	free(d->frame);
	free(d->gathered);
	*d = (struct digest){};
}
