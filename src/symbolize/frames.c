// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbolize/frames.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/progress.h"
#include "snapshot.h"
#include "symbols/symbols.h"

/* ---- frames --------------------------------------------------------------------------------- */

int frame_place_names(const struct frame_place *place, struct symbols *symbols,
		      struct symbol *ret_symbol)
{
	bool is_exact = place->flags & SNAP_FRAME_EXACT;

	if (place->names == NAMES_NONE) {
		*ret_symbol = (struct symbol){};
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
	int err = snapshot_builder__string(builder,
					   symbol->lineno ? symbol->filename : place->path,
					   &frame.filename);

	if (!err)
		err = snapshot_builder__string(builder, symbol->function, &frame.function);
	if (!err)
		err = snapshot_builder__frame_declared(builder, &frame, symbol->first_line, &id);
	return err ?: array_push(list, frame, id);
}

int frames_add_symbols(struct frame_list *list, struct snapshot_builder *builder,
		       const struct frame_place *place, const struct symbol *symbol, int nr)
{
	int err = 0;

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
