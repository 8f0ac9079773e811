// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/progress.h"

#define OBJECT_TEXT_MAX (64u << 20) /* bytes of names of one object; no real program has more */

struct kept_frame {
	uint32_t function, filename; /* ids in text; 0: not known */
	uint32_t lineno, first_line;
};

struct result {
	uint64_t return_offset;
	size_t first; /* of its frames */
	uint32_t frame_nr;
};

struct known_object {
	char *path, *key; /* NULL: the index is free */
	int fd; /* -1: no file, no names */
	char *unreadable; /* the reason, else NULL */
	bool is_told;
	struct result *result;
	size_t result_nr, result_alloc;
	struct idmap result_ids; /* by return offset */
	struct kept_frame *frame; /* of the results, one after another */
	size_t frame_nr, frame_alloc;
	struct strpool text;
};

struct symbols {
	const struct symbol_source *source;
	const struct progress *progress; /* NULL: none */
	uint64_t done; /* when the current look-up began */
	struct known_object *object;
	size_t object_nr, object_alloc;
};

struct symbols *symbols__new(const struct symbol_source *source)
{
	struct symbols *symbols = calloc(1, sizeof(*symbols));

	if (symbols)
		symbols->source = source;
	return symbols;
}

static void release_object(struct known_object *known)
{
	free(known->path);
	free(known->key);
	free(known->unreadable);
	free(known->result);
	free(known->frame);
	idmap_release(&known->result_ids);
	strpool_release(&known->text);
	*known = (struct known_object){ .fd = -1 };
}

void symbols__free(struct symbols *symbols)
{
	if (!symbols)
		return;
	for (size_t i = 0; i < symbols->object_nr; i++)
		release_object(&symbols->object[i]);
	free(symbols->object);
	free(symbols);
}

/* ---- objects ---- */

static int set_unreadable(struct known_object *known, const char *why)
{
	known->unreadable = strdup(why);
	return known->unreadable ? 0 : -ENOMEM;
}

static size_t free_index(const struct symbols *symbols)
{
	size_t i = 0;

	while (i < symbols->object_nr && symbols->object[i].path)
		i++;
	return i;
}

static int symbols_open_object(struct symbols *symbols, const char *path, const char *key, int fd,
			       uint32_t *ret_object)
{
	struct known_object known = { .path = strdup(path), .key = strdup(key), .fd = fd };
	size_t i = free_index(symbols);
	int err = known.path && known.key ? 0 : -ENOMEM;

	if (!err && i == symbols->object_nr)
		err = array_push(symbols, object, known);
	if (err) {
		release_object(&known);
		return err;
	}
	symbols->object[i] = known;
	*ret_object = i;
	return 0;
}

uint32_t symbols__find(const struct symbols *symbols, const char *path, const char *key)
{
	for (size_t i = 0; i < symbols->object_nr; i++)
		if (symbols->object[i].path && !strcmp(symbols->object[i].path, path) &&
		    !strcmp(symbols->object[i].key, key))
			return i;
	return SYMBOLS_NONE;
}

int symbols__object(struct symbols *symbols, const char *path, const char *key, int fd,
		    uint32_t *ret_object)
{
	*ret_object = symbols__find(symbols, path, key);
	return *ret_object == SYMBOLS_NONE ? symbols_open_object(symbols, path, key, fd, ret_object) : 0;
}

void symbols__set_file(struct symbols *symbols, uint32_t object, int fd)
{
	symbols->object[object].fd = fd;
}

size_t symbols__object_nr(const struct symbols *symbols)
{
	return symbols->object_nr;
}

const char *symbols__unreadable(const struct symbols *symbols, uint32_t object)
{
	return symbols->object[object].unreadable;
}

bool symbols__next_unreadable(struct symbols *symbols, const char **ret_path, const char **ret_why)
{
	for (size_t i = 0; i < symbols->object_nr; i++) {
		struct known_object *known = &symbols->object[i];

		if (!known->unreadable || known->is_told)
			continue;
		known->is_told = true;
		*ret_path = known->path;
		*ret_why = known->unreadable;
		return true;
	}
	return false;
}

/* ---- what was looked up ---- */

static const struct result *find_result(const struct known_object *known, uint64_t return_offset)
{
	uint32_t id = idmap_find_key(&known->result_ids, &return_offset, sizeof(return_offset), known->result,
				     sizeof(*known->result));

	return id == IDMAP_NONE ? NULL : &known->result[id];
}

/* 0, -ENOMEM, or -EFBIG. */
static int keep_text(struct known_object *known, const char *text, uint32_t *ret)
{
	int err = strpool_add(&known->text, text ?: "", text ? strlen(text) : 0, ret);

	return !err && known->text.bytes_nr > OBJECT_TEXT_MAX ? -EFBIG : err;
}

static int keep_frame(struct known_object *known, const struct symbol *symbol)
{
	struct kept_frame frame = { .lineno = symbol->lineno, .first_line = symbol->first_line };
	int err = keep_text(known, symbol->function, &frame.function) ?:
		  keep_text(known, symbol->filename, &frame.filename);

	return err ?: array_push(known, frame, frame);
}

struct questions {
	const struct symbols *symbols;
	struct known_object *known;
	const uint64_t *return_offset;
};

static int take_result(void *taker, size_t i, const struct symbol *frame, int frame_nr)
{
	const struct questions *questions = taker;
	struct known_object *known = questions->known;
	uint64_t return_offset = questions->return_offset[i];
	struct result result = { return_offset, known->frame_nr, frame_nr };
	int err = 0;

	if (questions->symbols->progress)
		progress_show(questions->symbols->progress, questions->symbols->done + i);
	for (int f = 0; f < frame_nr && !err; f++)
		err = keep_frame(known, &frame[f]);
	return err ?: idmap_push(&known->result_ids, known, result, return_offset, result);
}

/* ---- lookup ---- */

static int look_up_missing(struct symbols *symbols, uint32_t object, uint64_t *return_offset, size_t nr)
{
	struct known_object *known = &symbols->object[object];
	struct questions questions = { symbols, known, return_offset };
	struct source_object of = { .id = object, .fd = known->fd, .path = known->path };
	struct reason why = {};
	int err = symbols->source->look_up(symbols->source->self, &of, return_offset, nr,
					   take_result, &questions, &why);

	if (err == -EFBIG)
		return set_unreadable(known, "its names take more than 64 MiB");
	return err == -EIO ? set_unreadable(known, why.text) : err;
}

/*
 * Stores the offsets without a cached result, each once, in *ret; the caller frees it. Returns
 * their number or -ENOMEM.
 */
static ssize_t choose_new(const struct known_object *known, const uint64_t *return_offset, size_t nr,
			  uint64_t **ret)
{
	struct { uint64_t *offset; size_t offset_nr, offset_alloc; } new = {};
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		if (!find_result(known, return_offset[i]))
			err = array_push(&new, offset, return_offset[i]);
	if (err) {
		free(new.offset);
		return err;
	}
	if (new.offset_nr)
		qsort(new.offset, new.offset_nr, sizeof(*new.offset), array_by_number);
	for (size_t i = 0; i < new.offset_nr; i++)
		if (!kept || new.offset[i] != new.offset[kept - 1])
			new.offset[kept++] = new.offset[i];
	*ret = new.offset;
	return kept;
}

void symbols__set_progress(struct symbols *symbols, const struct progress *progress, uint64_t done)
{
	symbols->progress = progress;
	symbols->done = done;
}

int symbols__look_ahead(struct symbols *symbols, uint32_t object, const uint64_t *return_offset,
			size_t nr)
{
	const struct known_object *known = &symbols->object[object];
	uint64_t *new = NULL;
	ssize_t new_nr;
	int err = 0;

	if (known->fd < 0 || known->unreadable || !nr)
		return 0;
	new_nr = choose_new(known, return_offset, nr, &new);
	if (new_nr < 0)
		return new_nr;
	if (new_nr)
		err = look_up_missing(symbols, object, new, new_nr);
	free(new);
	return err;
}

static const char *kept_text(const struct known_object *known, uint32_t id)
{
	return id ? strpool_get(&known->text, id) : NULL;
}

int symbols__lookup(struct symbols *symbols, uint32_t object, uint64_t return_offset,
		    struct symbol ret_frame[SYMBOL_INLINE_MAX])
{
	const struct known_object *known = &symbols->object[object];
	const struct result *result;
	int err = find_result(known, return_offset) ? 0 : symbols__look_ahead(symbols, object, &return_offset, 1);

	if (err)
		return err;
	result = find_result(known, return_offset);
	ret_frame[0] = (struct symbol){};
	for (uint32_t i = 0; result && i < result->frame_nr; i++) {
		const struct kept_frame *frame = &known->frame[result->first + i];

		ret_frame[i] = (struct symbol){
			.function = kept_text(known, frame->function),
			.filename = kept_text(known, frame->filename),
			.lineno = frame->filename ? frame->lineno : 0,
			.first_line = frame->filename ? frame->first_line : 0,
		};
	}
	return result ? result->frame_nr : 1;
}

void symbols__forget(struct symbols *symbols, const bool *is_needed)
{
	for (size_t i = 0; i < symbols->object_nr; i++) {
		if (is_needed[i] || !symbols->object[i].path)
			continue;
		release_object(&symbols->object[i]);
		if (symbols->source->forget)
			symbols->source->forget(symbols->source->self, i);
	}
}
