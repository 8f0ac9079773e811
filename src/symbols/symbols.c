// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "symbols/source.h"

#define OBJECT_TEXT_MAX (64u << 20) /* bytes of names of one object; no real program has more */

struct known_object {
	char *path, *key; /* NULL: the index is free */
	int fd; /* -1: no file, no names */
	uint64_t text_bytes;
	char *unreadable; /* the reason, else NULL */
	bool is_told;
};

struct result {
	uint32_t object;
	uint32_t frame_nr;
	uint64_t return_offset;
	struct symbol *frame;
};

struct symbols {
	const struct symbol_source *source;
	struct known_object *object;
	size_t object_nr, object_alloc;
	struct result *result;
	size_t result_nr, result_alloc;
	struct idmap result_ids;
	char **text; /* each string once */
	size_t text_nr, text_alloc;
	struct idmap text_ids;
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
	*known = (struct known_object){ .fd = -1 };
}

void symbols__free(struct symbols *symbols)
{
	if (!symbols)
		return;
	for (size_t i = 0; i < symbols->object_nr; i++)
		release_object(&symbols->object[i]);
	for (size_t i = 0; i < symbols->result_nr; i++)
		free(symbols->result[i].frame);
	for (size_t i = 0; i < symbols->text_nr; i++)
		free(symbols->text[i]);
	idmap_release(&symbols->result_ids);
	idmap_release(&symbols->text_ids);
	free(symbols->object);
	free(symbols->result);
	free(symbols->text);
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

/* ---- texts ---- */

static bool same_object_key(uint32_t id, const void *key, const void *table)
{
	return !strcmp(((const struct symbols *)table)->text[id], key);
}

/* Replaces *text, unless it is NULL, by an interned copy. 0, -ENOMEM, or -EFBIG. */
static int keep_text(struct symbols *symbols, struct known_object *known, const char **text)
{
	size_t len = *text ? strlen(*text) : 0;
	uint64_t hash;
	uint32_t id;
	char *copy;
	int err;

	if (!*text)
		return 0;
	hash = hash_bytes(*text, len, 0);
	id = idmap_find(&symbols->text_ids, hash, same_object_key, *text, symbols);
	if (id != IDMAP_NONE) {
		*text = symbols->text[id];
		return 0;
	}
	known->text_bytes += len;
	if (known->text_bytes > OBJECT_TEXT_MAX)
		return -EFBIG;
	copy = strdup(*text);
	err = copy ? idmap_add(&symbols->text_ids, hash, symbols->text_nr) : -ENOMEM;
	if (!err)
		err = array_push(symbols, text, copy);
	if (err)
		free(copy);
	else
		*text = copy;
	return err;
}

/* ---- lookup ---- */

static bool same_result(uint32_t id, const void *key, const void *table)
{
	const struct result *result = &((const struct symbols *)table)->result[id], *want = key;

	return result->object == want->object && result->return_offset == want->return_offset;
}

static uint64_t hash_symbol_key(uint32_t object, uint64_t return_offset)
{
	return hash_bytes(&return_offset, sizeof(return_offset), object);
}

static const struct result *find_result(const struct symbols *symbols, uint32_t object,
					uint64_t return_offset)
{
	struct result key = { .object = object, .return_offset = return_offset };
	uint32_t id = idmap_find(&symbols->result_ids, hash_symbol_key(object, return_offset), same_result,
				 &key, symbols);

	return id == IDMAP_NONE ? NULL : &symbols->result[id];
}

struct questions {
	struct symbols *symbols;
	uint32_t object;
	uint64_t *return_offset;
};

static int take_result(void *taker, size_t i, const struct symbol *frame, int frame_nr)
{
	struct questions *questions = taker;
	struct symbols *symbols = questions->symbols;
	struct result result = {
		.object = questions->object,
		.return_offset = questions->return_offset[i],
		.frame_nr = frame_nr,
		.frame = calloc(frame_nr, sizeof(*frame)),
	};
	int err = result.frame ? 0 : -ENOMEM;

	for (int f = 0; f < frame_nr && !err; f++) {
		struct known_object *known = &symbols->object[result.object];

		result.frame[f] = frame[f];
		err = keep_text(symbols, known, &result.frame[f].function);
		if (!err)
			err = keep_text(symbols, known, &result.frame[f].filename);
	}
	if (!err)
		err = array_reserve(&symbols->result, &symbols->result_alloc,
				    symbols->result_nr + 1);
	if (!err)
		err = idmap_add(&symbols->result_ids, hash_symbol_key(result.object, result.return_offset),
				symbols->result_nr);
	if (err)
		free(result.frame);
	else
		symbols->result[symbols->result_nr++] = result;
	return err;
}

static int look_up_missing(struct symbols *symbols, uint32_t object, uint64_t *return_offset, size_t nr)
{
	struct questions questions = { symbols, object, return_offset };
	struct known_object *known = &symbols->object[object];
	struct source_object of = { .id = object, .fd = known->fd, .path = known->path };
	struct reason why = {};
	int err = symbols->source->look_up(symbols->source->self, &of, return_offset, nr,
					   take_result, &questions, &why);

	if (err == -EFBIG)
		return set_unreadable(known, "its names take more than 64 MiB");
	return err == -EIO ? set_unreadable(known, why.text) : err;
}

static int compare_offsets(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/*
 * Stores the offsets without a cached result, each once, in *ret; the caller frees it. Returns
 * their number or -ENOMEM.
 */
static ssize_t choose_new(const struct symbols *symbols, uint32_t object,
			  const uint64_t *return_offset, size_t nr, uint64_t **ret)
{
	struct { uint64_t *offset; size_t offset_nr, offset_alloc; } new = {};
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		if (!find_result(symbols, object, return_offset[i]))
			err = array_push(&new, offset, return_offset[i]);
	if (err) {
		free(new.offset);
		return err;
	}
	if (new.offset_nr)
		qsort(new.offset, new.offset_nr, sizeof(*new.offset), compare_offsets);
	for (size_t i = 0; i < new.offset_nr; i++)
		if (!kept || new.offset[i] != new.offset[kept - 1])
			new.offset[kept++] = new.offset[i];
	*ret = new.offset;
	return kept;
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
	new_nr = choose_new(symbols, object, return_offset, nr, &new);
	if (new_nr < 0)
		return new_nr;
	if (new_nr)
		err = look_up_missing(symbols, object, new, new_nr);
	free(new);
	return err;
}

int symbols__lookup(struct symbols *symbols, uint32_t object, uint64_t return_offset,
		    struct symbol ret_frame[SYMBOL_INLINE_MAX])
{
	const struct result *result = find_result(symbols, object, return_offset);
	int err;

	if (!result) {
		err = symbols__look_ahead(symbols, object, &return_offset, 1);
		if (err)
			return err;
		result = find_result(symbols, object, return_offset);
	}
	if (!result) {
		ret_frame[0] = (struct symbol){};
		return 1;
	}
	memcpy(ret_frame, result->frame, result->frame_nr * sizeof(*ret_frame));
	return result->frame_nr;
}

/* ---- forgetting ---- */

/* A result that cannot be indexed for lack of memory is dropped, and looked up again when needed. */
static void keep_results(struct symbols *symbols)
{
	size_t nr = symbols->result_nr;

	idmap_release(&symbols->result_ids);
	symbols->result_nr = 0;
	for (size_t i = 0; i < nr; i++) {
		const struct result result = symbols->result[i];

		if (!symbols->object[result.object].path ||
		    idmap_add(&symbols->result_ids, hash_symbol_key(result.object, result.return_offset),
			      symbols->result_nr))
			free(result.frame);
		else
			symbols->result[symbols->result_nr++] = result;
	}
}

static void mark_text(const struct symbols *symbols, const char *text, bool *is_used)
{
	uint32_t id = text ? idmap_find(&symbols->text_ids, hash_bytes(text, strlen(text), 0), same_object_key,
					text, symbols) : IDMAP_NONE;

	if (id != IDMAP_NONE)
		is_used[id] = true;
}

static void mark_texts(const struct symbols *symbols, bool *is_used)
{
	for (size_t i = 0; i < symbols->result_nr; i++)
		for (uint32_t f = 0; f < symbols->result[i].frame_nr; f++) {
			mark_text(symbols, symbols->result[i].frame[f].function, is_used);
			mark_text(symbols, symbols->result[i].frame[f].filename, is_used);
		}
}

static void keep_texts(struct symbols *symbols)
{
	bool *is_used = calloc(symbols->text_nr + 1, sizeof(*is_used));
	size_t nr = symbols->text_nr;

	if (!is_used)
		return;
	mark_texts(symbols, is_used);
	idmap_release(&symbols->text_ids);
	symbols->text_nr = 0;
	for (size_t i = 0; i < nr; i++) {
		char *text = symbols->text[i];

		if (!is_used[i]) {
			free(text);
			continue;
		}
		/*
		 * If this fails, the text stays anyway, and a later equal text is stored a second
		 * time.
		 */
		(void)!idmap_add(&symbols->text_ids, hash_bytes(text, strlen(text), 0), symbols->text_nr);
		symbols->text[symbols->text_nr++] = text;
	}
	free(is_used);
}

void symbols__forget(struct symbols *symbols, const bool *is_needed)
{
	bool is_any = false;

	for (size_t i = 0; i < symbols->object_nr; i++) {
		if (is_needed[i] || !symbols->object[i].path)
			continue;
		is_any = true;
		release_object(&symbols->object[i]);
		if (symbols->source->forget)
			symbols->source->forget(symbols->source->self, i);
	}
	if (!is_any)
		return;
	keep_results(symbols);
	keep_texts(symbols);
}
