// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbolize/frames.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/progress.h"
#include "snapshot.h"

/* ---- frames --------------------------------------------------------------------------------- */

int frame_place_names(const struct frame_place *place, struct symbols *symbols,
		      struct symbol *ret_symbol)
{
	bool is_exact = place->flags & SNAP_FRAME_EXACT;

	if (place->names == NAMES_NONE) {
		*ret_symbol = (struct symbol){ .function = place->function };
		return 1;
	}
	return symbols__lookup(symbols, place->names, frame_return_offset(place->offset, is_exact),
			       ret_symbol);
}

static int frame_list_add(struct frame_list *list, struct snapshot_builder *builder,
			  const struct frame_place *place, const struct symbol *symbol, bool is_inline)
{
	struct snap_frame frame = {
		.lineno = symbol->lineno,
		.object = place->object,
		.offset = place->offset,
		.flags = place->flags | (is_inline ? SNAP_FRAME_INLINE : 0),
	};
	uint32_t id;

	return snapshot_builder__string(builder, symbol->lineno ? symbol->filename : place->path, &frame.filename) ?:
	       snapshot_builder__string(builder, symbol->function, &frame.function) ?:
	       snapshot_builder__frame_declared(builder, &frame, symbol->first_line, &id) ?:
	       array_push(list, frame, id);
}

/* Adds a frame for each of the symbols to the builder and to the list. 0 or a negative errno. */
static int frames_add_symbols(struct frame_list *list, struct snapshot_builder *builder,
			      const struct frame_place *place, const struct symbol *symbol, int nr)
{
	int err = 0;

	if (place->flags & SNAP_FRAME_LOGICAL)
		nr = 1;
	for (int i = 0; i < nr && !err; i++)
		err = frame_list_add(list, builder, place, &symbol[i], i + 1 < nr);
	return err;
}

int frames_add_place(struct frame_list *list, struct snapshot_builder *builder,
		     struct symbols *symbols, const struct frame_place *place)
{
	struct symbol symbol[SYMBOL_INLINE_MAX];
	int nr = frame_place_names(place, symbols, symbol);

	return nr < 0 ? nr : frames_add_symbols(list, builder, place, symbol, nr);
}

/* ---- looking up in advance ---------------------------------------------------------------------- */

struct questions {
	name_question_fn ask;
	const void *who;
	size_t nr;
	size_t *end; /* by object: the end of its offsets */
	size_t end_nr;
	uint64_t *offset;
};

/* Collects the offsets of all places, sorted by object. */
static void sort_offsets(const struct questions *questions)
{
	uint64_t offset;
	uint32_t names;
	size_t sum = 0;

	for (size_t i = 0; i < questions->nr; i++)
		if (questions->ask(questions->who, i, &names, &offset))
			questions->end[names]++;
	for (size_t i = 0; i < questions->end_nr; i++) {
		size_t nr = questions->end[i];

		questions->end[i] = sum;
		sum += nr;
	}
	for (size_t i = 0; i < questions->nr; i++)
		if (questions->ask(questions->who, i, &names, &offset))
			questions->offset[questions->end[names]++] = offset;
}

int frames_look_ahead(struct symbols *symbols, size_t nr, name_question_fn question,
		      const void *who)
{
	size_t end_nr = symbols__object_nr(symbols), first = 0;
	struct questions questions = {
		.ask = question, .who = who, .nr = nr,
		.end = calloc(end_nr + 1, sizeof(*questions.end)), .end_nr = end_nr,
		.offset = calloc(nr + 1, sizeof(*questions.offset)),
	};
	struct progress progress;
	int err = questions.end && questions.offset ? 0 : -ENOMEM;

	if (!err)
		sort_offsets(&questions);
	progress = progress_begin("naming", "addresses", !err && end_nr ? questions.end[end_nr - 1] : 0);
	for (size_t i = 0; i < end_nr && !err; i++) {
		symbols__set_progress(symbols, &progress, first);
		err = symbols__look_ahead(symbols, i, questions.offset + first,
					  questions.end[i] - first);
		first = questions.end[i];
	}
	symbols__set_progress(symbols, NULL, 0);
	progress_end(&progress);
	free(questions.end);
	free(questions.offset);
	return err;
}

/*
 * Puts all rows into a new builder, in their order. A renamed frame may become several. Its
 * traceback, and the total number of frames that the traceback had, then grow by as many, within
 * limits.
 */

#define AT_ONCE 256 /* traces */
#define BY_PATH "frames_named_by_path"

struct copy {
	const struct renaming *renaming;
	const struct snapshot *from;
	const struct snapshot_tables *t;
	struct snapshot_builder *builder;
	uint32_t *object, *traceback; /* by old id: the new id */
	struct frame_list frames;     /* the new ids of all old frames, in their order */
	size_t *frames_end;	      /* by old id: the end of its new ids */
	uint32_t *joined;	      /* the frames of the current traceback */
};

static int copy_string(struct copy *c, uint32_t id, uint32_t *ret_id)
{
	return snapshot_builder__string(c->builder, snapshot__string(c->from, id), ret_id);
}

/* ---- metadata, counters, objects, probes ---- */

static int copy_names(struct copy *c)
{
	const struct snapshot_tables *t = c->t;
	int err = 0;

	for (uint32_t i = 0; i < t->metadata_nr && !err; i++)
		err = snapshot_builder__metadata(c->builder,
						 snapshot__string(c->from, t->metadata[i].key),
						 snapshot__string(c->from, t->metadata[i].value));
	for (uint32_t i = 0; i < t->counter_nr && !err; i++)
		err = snapshot_builder__counter(c->builder, t->counter[i].kind,
						snapshot__string(c->from, t->counter[i].name),
						t->counter[i].value);
	if (!err && c->renaming->by_path_nr)
		err = snapshot_builder__counter(c->builder, SNAP_LOST, BY_PATH, c->renaming->by_path_nr +
						snapshot__counter(c->from, BY_PATH));
	for (uint32_t i = 0; i < t->gap_nr && !err; i++)
		err = snapshot_builder__gap(c->builder, t->gap[i].start_ns, t->gap[i].end_ns);
	return err;
}

static int rename_copy_objects(struct copy *c)
{
	int err = 0;

	for (uint32_t i = 0; i < c->t->object_nr && !err; i++) {
		struct snap_object row;

		err = copy_string(c, c->t->object[i].path, &row.path) ?:
		      copy_string(c, c->t->object[i].build_id, &row.build_id) ?:
		      snapshot_builder__object(c->builder, &row, &c->object[i]);
	}
	return err;
}

static int copy_probes(struct copy *c)
{
	int err = 0;

	for (uint32_t i = 0; i < c->t->probe_nr && !err; i++) {
		struct snap_probe row = c->t->probe[i];

		row.object = c->object[row.object];
		err = copy_string(c, row.function, &row.function) ?:
		      copy_string(c, row.instruction, &row.instruction) ?: snapshot_builder__probe(c->builder, &row);
		if (!err && c->t->probe_domain)
			err = snapshot_builder__probe_domain(c->builder, c->t->probe_domain[i]);
	}
	return err;
}

/* ---- frames ---- */

static int add_renamed(struct copy *c, uint32_t at)
{
	const struct snap_frame *frame = &c->t->frame[at];
	const struct frame_place place = {
		.object = c->object[frame->object],
		.names = NAMES_NONE,
		.offset = frame->offset,
		.flags = frame->flags,
		.path = snapshot__string(c->from, frame->filename),
	};
	struct symbol symbol[SYMBOL_INLINE_MAX];
	int nr = c->renaming->names_of(c->renaming->who, at, symbol);

	return nr < 0 ? nr : frames_add_symbols(&c->frames, c->builder, &place, symbol, nr);
}

static int copy_frame(struct copy *c, uint32_t at, uint32_t *ret_id)
{
	struct snap_frame frame = c->t->frame[at];
	uint32_t first_line = c->t->frame_first_line ? c->t->frame_first_line[at] : 0;
	int err = copy_string(c, frame.filename, &frame.filename) ?:
		  copy_string(c, frame.function, &frame.function);

	frame.object = c->object[frame.object];
	return err ?: snapshot_builder__frame_declared(c->builder, &frame, first_line, ret_id);
}

static int add_as_it_is(struct copy *c, uint32_t at)
{
	uint32_t id;

	return copy_frame(c, at, &id) ?: array_push(&c->frames, frame, id);
}

/* A snapshot that was readable stays readable: rows_max does not limit the rows that it had before. */
static int check_rows(const struct copy *c, uint64_t nr, uint64_t old_nr)
{
	return nr > c->renaming->rows_max && nr > old_nr ? -EFBIG : 0;
}

/* Frame 0 stands for no frame. */
static int rename_copy_frames(struct copy *c)
{
	int err = 0;

	c->frames_end[0] = 0;
	for (uint32_t i = 1; i < c->t->frame_nr && !err; i++) {
		err = c->renaming->is_renamed[i] ? add_renamed(c, i) : add_as_it_is(c, i);
		c->frames_end[i] = c->frames.frame_nr;
		err = err ?: check_rows(c, c->frames.frame_nr, c->t->frame_nr);
	}
	return err;
}

/* ---- tracebacks ---- */

static uint64_t nframe_of(const struct copy *c, const struct snap_traceback *row)
{
	uint64_t nr = 0;

	for (uint32_t k = 0; k < row->nframe; k++) {
		uint32_t old = c->t->traceback_frame[row->first + k];

		nr += c->frames_end[old] - c->frames_end[old - 1];
	}
	return nr;
}

/* A few frames in many tracebacks can make many rows from few. So this checks before it makes any. */
static int check_growth(struct copy *c)
{
	uint64_t sum = 0;
	int err = 0;

	for (uint32_t i = 0; i < c->t->traceback_nr && !err; i++) {
		uint64_t nframe = nframe_of(c, &c->t->traceback[i]);

		sum += nframe > SNAP_TRACEBACK_MAX ? c->t->traceback[i].nframe : nframe;
		err = check_rows(c, sum, c->t->traceback_frame_nr);
	}
	return err;
}

static int join_renamed(struct copy *c, const struct snap_traceback *row)
{
	uint32_t nr = 0;

	for (uint32_t k = 0; k < row->nframe; k++) {
		uint32_t old = c->t->traceback_frame[row->first + k];

		for (size_t i = c->frames_end[old - 1]; i < c->frames_end[old]; i++)
			c->joined[nr++] = c->frames.frame[i];
	}
	return 0;
}

static int join_as_it_is(struct copy *c, const struct snap_traceback *row)
{
	int err = 0;

	for (uint32_t k = 0; k < row->nframe && !err; k++)
		err = copy_frame(c, c->t->traceback_frame[row->first + k], &c->joined[k]);
	return err;
}

/*
 * Stores the traceback's frames in joined[]. A traceback that would exceed the limit stays as it
 * is, so that no frame is lost for a name.
 */
static int join_traceback(struct copy *c, const struct snap_traceback *row, uint32_t *ret_nr)
{
	uint64_t nr = nframe_of(c, row);
	bool fits = nr <= SNAP_TRACEBACK_MAX;

	*ret_nr = fits ? nr : row->nframe;
	return fits ? join_renamed(c, row) : join_as_it_is(c, row);
}

static uint32_t total_of(const struct snap_traceback *row, uint32_t nframe)
{
	uint32_t added = nframe > row->nframe ? nframe - row->nframe : 0;

	if (!row->total_nframe || row->total_nframe > UINT32_MAX - added)
		return row->total_nframe;
	return row->total_nframe + added;
}

static int copy_traceback(struct copy *c, uint32_t i)
{
	const struct snap_traceback *row = &c->t->traceback[i];
	uint32_t nframe;
	int err = join_traceback(c, row, &nframe) ?:
		  snapshot_builder__traceback(c->builder, c->joined, nframe, total_of(row, nframe), row->flags,
					      &c->traceback[i]);

	if (!err && c->t->churn)
		err = snapshot_builder__churn(c->builder, c->traceback[i], &c->t->churn[i]);
	return err;
}

static int rename_copy_tracebacks(struct copy *c)
{
	int err = check_growth(c);

	for (uint32_t i = 0; i < c->t->traceback_nr && !err; i++)
		err = copy_traceback(c, i);
	return err;
}

/* ---- traces ---- */

static int rename_copy_traces(struct copy *c)
{
	struct snap_trace trace[AT_ONCE];
	uint64_t first, nr;
	int err = snapshot_builder__add_traces(c->builder, c->t->trace_nr, &first);

	for (uint64_t at = 0; at < c->t->trace_nr && !err; at += nr) {
		nr = c->t->trace_nr - at < AT_ONCE ? c->t->trace_nr - at : AT_ONCE;
		for (uint64_t i = 0; i < nr; i++) {
			trace[i] = snapshot__trace(c->from, at + i);
			trace[i].traceback = c->traceback[trace[i].traceback];
		}
		err = snapshot_builder__set_traces(c->builder, first + at, trace, nr);
	}
	return err;
}

/* ---- all of it ---- */

static unsigned int columns_of(const struct snapshot_tables *t)
{
	return (t->trace_domain ? SNAP_WITH_DOMAIN : 0) | (t->trace_birth_ns ? SNAP_WITH_BIRTH : 0) |
	       (t->trace_address ? SNAP_WITH_ADDRESS : 0) | (t->trace_thread ? SNAP_WITH_THREAD : 0) |
	       (t->churn ? SNAP_WITH_CHURN : 0) | (t->trace_weight ? SNAP_WITH_WEIGHT : 0) |
	       (t->probe_domain ? SNAP_WITH_PROBE_DOMAIN : 0) | SNAP_WITH_FIRST_LINE;
}

static int fill_renamed(struct copy *c)
{
	c->object = calloc(c->t->object_nr + 1, sizeof(*c->object));
	c->traceback = calloc(c->t->traceback_nr + 1, sizeof(*c->traceback));
	c->frames_end = calloc(c->t->frame_nr + 1, sizeof(*c->frames_end));
	c->joined = calloc(SNAP_TRACEBACK_MAX, sizeof(*c->joined));
	if (!c->object || !c->traceback || !c->frames_end || !c->joined)
		return -ENOMEM;
	return copy_names(c) ?: rename_copy_objects(c) ?: copy_probes(c) ?: rename_copy_frames(c) ?:
	       rename_copy_tracebacks(c) ?: rename_copy_traces(c);
}

int rename_frames(const struct renaming *renaming, struct snapshot **ret)
{
	struct copy copy = {
		.renaming = renaming,
		.from = renaming->from,
		.t = snapshot__tables(renaming->from),
	};
	int err;

	copy.builder = snapshot_builder__new(columns_of(copy.t));
	err = copy.builder ? fill_renamed(&copy) : -ENOMEM;
	free(copy.object);
	free(copy.traceback);
	free(copy.frames_end);
	free(copy.frames.frame);
	free(copy.joined);
	if (!err)
		return snapshot_builder__finish(copy.builder, ret);
	snapshot_builder__free(copy.builder);
	return err;
}
