// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The traces of a snapshot that is being built, as columns. */

static const uint32_t trace_columns[] = {
	SNAP_TRACE_SIZE, SNAP_TRACE_TRACEBACK, SNAP_TRACE_DOMAIN,
	SNAP_TRACE_BIRTH, SNAP_TRACE_ADDRESS, SNAP_TRACE_THREAD,
	SNAP_TRACE_WEIGHT,
};

static bool has_column(const struct snapshot_builder *b, uint32_t type)
{
	return !snap_shapes[type].column || b->columns & snap_shapes[type].column;
}

/* Does not write to the first rows: the caller that sets them touches the pages. */
static int begin_with_zeros(struct snap_table *t, size_t nr, size_t row_size)
{
	free(t->row);
	t->row = calloc(nr, row_size);
	t->alloc = t->row ? nr : 0;
	t->nr = t->alloc;
	if (!t->row)
		return -ENOMEM;
	huge_pages_will_be_used(t->row, nr * row_size);
	return 0;
}

static int append_zeros(struct snap_table *t, size_t nr, size_t row_size)
{
	int err;

	if (!nr)
		return 0;
	if (!t->nr && nr > 1)
		return begin_with_zeros(t, nr, row_size);
	err = array_reserve_bytes(&t->row, &t->alloc, t->nr + nr, row_size);
	if (err)
		return err;
	memset((char *)t->row + t->nr * row_size, 0, nr * row_size);
	t->nr += nr;
	return 0;
}

int snapshot_builder__add_traces(struct snapshot_builder *b, uint64_t nr, uint64_t *ret_first)
{
	uint64_t first = b->table[SNAP_TRACE_SIZE].nr;
	int err = 0;

	if (nr > SIZE_MAX / sizeof(struct snap_trace) - first)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(trace_columns) && !err; i++)
		if (has_column(b, trace_columns[i]))
			err = append_zeros(&b->table[trace_columns[i]], nr,
					   snap_shapes[trace_columns[i]].row_size);
	if (!err)
		*ret_first = first;
	return err;
}

static bool is_weight(double weight)
{
	uint64_t bits;

	memcpy(&bits, &weight, sizeof(bits));
	return snap_is_weight(bits);
}

static double trace_weight_or_one(const struct snap_trace *trace)
{
	return trace->weight != 0 ? trace->weight : 1;
}

/* If weights are not recorded, they may have any value, because no reader sees them. */
static bool weights_are_good(const struct snapshot_builder *b, const struct snap_trace *trace,
			     size_t nr)
{
	bool good = true;

	for (size_t i = 0; has_column(b, SNAP_TRACE_WEIGHT) && i < nr; i++)
		good &= is_weight(trace_weight_or_one(&trace[i]));
	return good;
}

static void set_weights(struct snapshot_builder *b, uint64_t first, const struct snap_trace *trace,
			size_t nr)
{
	double *weight = b->table[SNAP_TRACE_WEIGHT].row;

	for (size_t i = 0; has_column(b, SNAP_TRACE_WEIGHT) && i < nr; i++)
		weight[first + i] = trace_weight_or_one(&trace[i]);
}

/* Sets one column after the other, so that writes are sequential. */
#define SET_COLUMN(b, type, element, first, trace, nr, field) \
	do { \
		element *column_ = (b)->table[type].row; \
		for (size_t i_ = 0; has_column(b, type) && i_ < (nr); i_++) \
			column_[(first) + i_] = (trace)[i_].field; \
	} while (0)

int snapshot_builder__set_traces(struct snapshot_builder *b, uint64_t first,
				 const struct snap_trace *trace, size_t nr)
{
	uint64_t has = b->table[SNAP_TRACE_SIZE].nr;
	uint32_t domains = 0, most = 0;

	for (size_t i = 0; i < nr; i++) {
		domains |= trace[i].domain;
		most = trace[i].traceback > most ? trace[i].traceback : most;
	}
	if (first > has || nr > has - first || most >= b->table[SNAP_TRACEBACKS].nr ||
	    !weights_are_good(b, trace, nr))
		return -EINVAL;
	SET_COLUMN(b, SNAP_TRACE_SIZE, uint64_t, first, trace, nr, size);
	SET_COLUMN(b, SNAP_TRACE_TRACEBACK, uint32_t, first, trace, nr, traceback);
	if (domains)
		SET_COLUMN(b, SNAP_TRACE_DOMAIN, uint32_t, first, trace, nr, domain);
	SET_COLUMN(b, SNAP_TRACE_BIRTH, uint64_t, first, trace, nr, birth_ns);
	SET_COLUMN(b, SNAP_TRACE_ADDRESS, uint64_t, first, trace, nr, address);
	SET_COLUMN(b, SNAP_TRACE_THREAD, uint32_t, first, trace, nr, thread);
	set_weights(b, first, trace, nr);
	__atomic_fetch_or(&b->domains, domains, __ATOMIC_RELAXED);
	return 0;
}

int snapshot_builder__trace(struct snapshot_builder *b, const struct snap_trace *trace)
{
	uint64_t first;

	if (trace->traceback >= b->table[SNAP_TRACEBACKS].nr || !weights_are_good(b, trace, 1))
		return -EINVAL;
	return snapshot_builder__add_traces(b, 1, &first) ?:
	       snapshot_builder__set_traces(b, first, trace, 1);
}

struct frame_key {
	struct snap_frame row;
	uint32_t first_line, padding;
};

struct traceback_key {
	const uint32_t *frame;
	uint32_t nframe, total_nframe, flags;
};

static bool builder_same_frame(uint32_t id, const void *key, const void *builder)
{
	const struct snap_table *table = ((const struct snapshot_builder *)builder)->table;
	const struct frame_key *want = key;

	return !memcmp((const struct snap_frame *)table[SNAP_FRAMES].row + id, &want->row,
		       sizeof(want->row)) &&
	       ((const uint32_t *)table[SNAP_FRAME_FIRST_LINE].row)[id] == want->first_line;
}

static bool builder_same_traceback(uint32_t id, const void *key, const void *builder)
{
	const struct snap_table *table = ((const struct snapshot_builder *)builder)->table;
	const struct snap_traceback *row = table[SNAP_TRACEBACKS].row;
	const uint32_t *frame = table[SNAP_TRACEBACK_FRAMES].row;
	const struct traceback_key *want = key;

	row += id;
	return row->nframe == want->nframe && row->total_nframe == want->total_nframe &&
	       row->flags == want->flags &&
	       (!row->nframe ||
		!memcmp(frame + row->first, want->frame, want->nframe * sizeof(*frame)));
}

static int builder_append(struct snapshot_builder *b, uint32_t type, const void *row, size_t nr)
{
	struct snap_table *t = &b->table[type];
	size_t size = snap_shapes[type].row_size;
	int err;

	if (!nr)
		return 0;
	if (t->nr + nr > snap_shapes[type].row_max)
		return -EOVERFLOW;
	err = array_reserve_bytes(&t->row, &t->alloc, t->nr + nr, size);
	if (err)
		return err;
	memcpy((char *)t->row + t->nr * size, row, nr * size);
	t->nr += nr;
	return 0;
}

static int builder_intern_row(struct snapshot_builder *b, uint32_t type, const void *row, uint32_t *ret_id)
{
	size_t size = snap_shapes[type].row_size;
	struct snap_table *t = &b->table[type];
	uint32_t id = idmap_find_key(&t->ids, row, size, t->row, size);
	int err = 0;

	if (id == IDMAP_NONE) {
		id = t->nr;
		err = builder_append(b, type, row, 1) ?: idmap_add_key(&t->ids, row, size, id);
	}
	if (!err)
		*ret_id = id;
	return err;
}

static int builder_add_frame(struct snapshot_builder *b, const struct frame_key *key)
{
	return builder_append(b, SNAP_FRAMES, &key->row, 1) ?:
	       builder_append(b, SNAP_FRAME_FIRST_LINE, &key->first_line, 1);
}

static int builder_intern_frame(struct snapshot_builder *b, const struct frame_key *key, uint32_t *ret_id)
{
	struct snap_table *t = &b->table[SNAP_FRAMES];
	uint64_t hash = hash_bytes(key, sizeof(*key), 0);
	uint32_t id = idmap_find(&t->ids, hash, builder_same_frame, key, b);
	int err = 0;

	if (id == IDMAP_NONE) {
		id = t->nr;
		err = builder_add_frame(b, key) ?: idmap_add(&t->ids, hash, id);
	}
	if (!err)
		*ret_id = id;
	return err;
}

static int builder_add_traceback(struct snapshot_builder *b, const struct traceback_key *key, uint64_t hash)
{
	struct snap_table *t = &b->table[SNAP_TRACEBACKS];
	struct snap_traceback row = {
		.first = b->table[SNAP_TRACEBACK_FRAMES].nr,
		.nframe = key->nframe,
		.total_nframe = key->total_nframe,
		.flags = key->flags,
	};

	if (b->columns & SNAP_WITH_CHURN) {
		int err = builder_append(b, SNAP_TRACEBACK_CHURN, &(struct snap_churn){ 0 }, 1);

		if (err)
			return err;
	}
	return builder_append(b, SNAP_TRACEBACKS, &row, 1) ?:
	       builder_append(b, SNAP_TRACEBACK_FRAMES, key->frame, key->nframe) ?:
	       idmap_add(&t->ids, hash, t->nr - 1);
}

static int intern_traceback(struct snapshot_builder *b, const struct traceback_key *key,
			    uint32_t *ret_id)
{
	struct snap_table *t = &b->table[SNAP_TRACEBACKS];
	uint64_t seed = (uint64_t)key->total_nframe << 32 | key->flags;
	uint64_t hash = hash_bytes(key->frame, key->nframe * sizeof(*key->frame), seed);
	uint32_t id = idmap_find(&t->ids, hash, builder_same_traceback, key, b);
	int err = 0;

	if (id == IDMAP_NONE) {
		id = t->nr;
		err = builder_add_traceback(b, key, hash);
	}
	if (!err)
		*ret_id = id;
	return err;
}

struct snapshot_builder *snapshot_builder__new(unsigned int columns)
{
	struct snapshot_builder *b = calloc(1, sizeof(*b));
	uint32_t zero;

	if (!b)
		return NULL;
	b->columns = columns & ~SNAP_OF_FILES_ONLY;
	if (snapshot_builder__string(b, "", &zero) ?:
	    builder_intern_row(b, SNAP_OBJECTS, &(struct snap_object){ 0 }, &zero) ?:
	    builder_add_frame(b, &(struct frame_key){ 0 }) ?: intern_traceback(b, &(struct traceback_key){ 0 }, &zero)) {
		snapshot_builder__free(b);
		errno = ENOMEM;
		return NULL;
	}
	return b;
}

void snapshot_builder__free(struct snapshot_builder *b)
{
	if (!b)
		return;
	for (uint32_t type = 0; type < SNAP_SECTION_TYPE_MAX; type++) {
		free(b->table[type].row);
		idmap_release(&b->table[type].ids);
	}
	strpool_release(&b->string);
	free(b);
}

static bool is_string(const struct snapshot_builder *b, uint32_t id)
{
	return id < b->string.start_nr;
}

static bool is_row(const struct snapshot_builder *b, uint32_t type, uint32_t id)
{
	return id < b->table[type].nr;
}

int snapshot_builder__string(struct snapshot_builder *b, const char *text, uint32_t *ret_id)
{
	text = text ?: "";
	return strpool_add(&b->string, text, strlen(text), ret_id);
}

int snapshot_builder__object(struct snapshot_builder *b, const struct snap_object *object,
			     uint32_t *ret_id)
{
	if (!is_string(b, object->path) || !is_string(b, object->build_id) ||
	    !snap_is_build_id(strpool_get(&b->string, object->build_id)))
		return -EINVAL;
	return builder_intern_row(b, SNAP_OBJECTS, object, ret_id);
}

int snapshot_builder__frame(struct snapshot_builder *b, const struct snap_frame *frame,
			    uint32_t *ret_id)
{
	return snapshot_builder__frame_declared(b, frame, 0, ret_id);
}

int snapshot_builder__frame_declared(struct snapshot_builder *b, const struct snap_frame *frame,
				     uint32_t first_line, uint32_t *ret_id)
{
	struct frame_key key = {
		.row = *frame,
		.first_line = b->columns & SNAP_WITH_FIRST_LINE ? first_line : 0,
	};

	if (!is_string(b, frame->filename) || !is_string(b, frame->function) ||
	    !is_row(b, SNAP_OBJECTS, frame->object) || frame->flags & ~SNAP_FRAME_FLAGS ||
	    frame->reserved || (first_line && !frame->lineno))
		return -EINVAL;
	b->has_first_lines |= key.first_line;
	return builder_intern_frame(b, &key, ret_id);
}

int snapshot_builder__traceback(struct snapshot_builder *b, const uint32_t *frame, uint32_t nframe,
				uint32_t total_nframe, uint32_t flags, uint32_t *ret_id)
{
	struct traceback_key key = {
		.frame = frame, .nframe = nframe, .total_nframe = total_nframe, .flags = flags,
	};

	if (nframe > SNAP_TRACEBACK_MAX || !snap_traceback_flags_are_known(flags))
		return -EINVAL;
	for (uint32_t i = 0; i < nframe; i++)
		if (!frame[i] || !is_row(b, SNAP_FRAMES, frame[i]))
			return -EINVAL;
	return intern_traceback(b, &key, ret_id);
}

int snapshot_builder__churn(struct snapshot_builder *b, uint32_t traceback,
			    const struct snap_churn *churn)
{
	struct snap_churn *row = b->table[SNAP_TRACEBACK_CHURN].row;

	if (!is_row(b, SNAP_TRACEBACK_CHURN, traceback))
		return -EINVAL;
	row[traceback].allocations += churn->allocations;
	row[traceback].allocated_bytes += churn->allocated_bytes;
	row[traceback].temporary += churn->temporary;
	row[traceback].temporary_bytes += churn->temporary_bytes;
	return 0;
}

/* Replaces the row with the same name, or appends the row. Rows begin with the string id of their name. */
static int builder_set_named(struct snapshot_builder *b, uint32_t type, const void *row)
{
	size_t size = snap_shapes[type].row_size;
	char *at = b->table[type].row;

	for (size_t i = 0; i < b->table[type].nr; i++, at += size)
		if (!memcmp(at, row, sizeof(uint32_t))) {
			memcpy(at, row, size);
			return 0;
		}
	return builder_append(b, type, row, 1);
}

int snapshot_builder__metadata(struct snapshot_builder *b, const char *key, const char *value)
{
	struct snap_pair row;
	int err;

	if (!key || !*key)
		return -EINVAL;
	err = snapshot_builder__string(b, key, &row.key) ?:
	      snapshot_builder__string(b, value, &row.value);
	if (err)
		return err;
	return builder_set_named(b, SNAP_METADATA, &row);
}

int snapshot_builder__counter(struct snapshot_builder *b, enum snap_counter_kind kind,
			      const char *name, uint64_t value)
{
	struct snap_counter row = { .kind = kind, .value = value };
	int err;

	if (!name || !*name || (kind != SNAP_COUNTED && kind != SNAP_LOST))
		return -EINVAL;
	err = snapshot_builder__string(b, name, &row.name);
	if (err)
		return err;
	return builder_set_named(b, SNAP_COUNTERS, &row);
}

int snapshot_builder__probe(struct snapshot_builder *b, const struct snap_probe *probe)
{
	if (!is_row(b, SNAP_OBJECTS, probe->object) || !is_string(b, probe->function) ||
	    !is_string(b, probe->instruction))
		return -EINVAL;
	return builder_append(b, SNAP_PROBES, probe, 1) ?:
	       builder_append(b, SNAP_PROBE_DOMAIN, &(uint32_t){ 0 }, 1);
}

int snapshot_builder__probe_domain(struct snapshot_builder *b, uint32_t domain)
{
	struct snap_table *t = &b->table[SNAP_PROBE_DOMAIN];

	if (!t->nr)
		return -EINVAL;
	((uint32_t *)t->row)[t->nr - 1] = domain;
	return 0;
}

int snapshot_builder__gap(struct snapshot_builder *b, uint64_t start_ns, uint64_t end_ns)
{
	const struct snap_table *t = &b->table[SNAP_GAPS];
	const struct snap_gap *gap = t->row;
	struct snap_gap row = { start_ns, end_ns };

	if (start_ns >= end_ns || (t->nr && start_ns < gap[t->nr - 1].end_ns))
		return -EINVAL;
	return builder_append(b, SNAP_GAPS, &row, 1);
}

int snapshot_builder__domain_name(struct snapshot_builder *b, uint32_t domain, const char *name)
{
	char key[SNAP_DOMAIN_KEY_MAX];

	return snapshot_builder__metadata(b, snap_domain_key(key, domain), name);
}

static struct snap_rows rows_of(const struct snapshot_builder *b, uint32_t type)
{
	static const uint64_t none; /* the address of a section that is recorded but has no rows */
	const void *row = b->table[type].row;
	uint64_t nr = b->table[type].nr;

	if (type == SNAP_STRING_START) {
		row = b->string.start;
		nr = b->string.start_nr;
	} else if (type == SNAP_STRING_BYTES) {
		row = b->string.bytes;
		nr = b->string.bytes_nr;
	}
	return (struct snap_rows){ row ?: &none, nr };
}

/*
 * A requested column is recorded even if it is empty. Domains and first lines are recorded only if
 * one is not 0, gaps only if there are any.
 */
static bool is_recorded(const struct snapshot_builder *b, uint32_t type)
{
	if (type == SNAP_TRACE_DOMAIN && !b->domains)
		return false;
	if (type == SNAP_FRAME_FIRST_LINE && !b->has_first_lines)
		return false;
	if (type == SNAP_GAPS && !b->table[type].nr)
		return false;
	return has_column(b, type);
}

void snap_view(const struct snapshot_builder *b, struct snapshot *view)
{
	*view = (struct snapshot){ 0 };
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		if (is_recorded(b, type))
			view->rows[type] = rows_of(b, type);
	snap_fill_tables(view);
}

static void take_memory(void **from, struct snap_memory *memory)
{
	*memory = (struct snap_memory){ .bytes = *from };
	*from = NULL;
}

int snapshot_builder__finish(struct snapshot_builder *b, struct snapshot **ret)
{
	struct snapshot *snapshot = malloc(sizeof(*snapshot));

	if (snapshot) {
		snap_view(b, snapshot);
		for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
			take_memory(&b->table[type].row, &snapshot->memory[type]);
		take_memory((void **)&b->string.start, &snapshot->memory[SNAP_STRING_START]);
		take_memory((void **)&b->string.bytes, &snapshot->memory[SNAP_STRING_BYTES]);
		*ret = snapshot;
	}
	snapshot_builder__free(b);
	return snapshot ? 0 : -ENOMEM;
}
