// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/idmap.h"
#include "symbols/debug_file.h"
#include "symbols/guard.h"
#include "symbols/names.h"
#include "symbols/object.h"
#include "symbols/symbols_below.h"

struct known_object {
	char *path, *build_id;
	struct object *object;
};

struct result {
	uint32_t object;
	uint32_t frame_nr;
	uint64_t return_offset;
	struct symbol *frame;
};

/* What a raw name reads as; each is worked out once and keeps its address. */
struct name {
	const char *directory; /* of a source file; the DWARF's string, NULL for a function */
	char *raw, *readable;
	bool is_function;
};

struct symbols {
	int debug_root_fd; /* -1: there is no such directory */
	uint64_t cut_short_nr;
	struct known_object *object;
	size_t object_nr, object_alloc;
	struct result *result;
	size_t result_nr, result_alloc;
	struct idmap result_ids;
	struct name *name;
	size_t name_nr, name_alloc;
	struct idmap name_ids;
};

struct symbols *symbols__new_below(const char *debug_root)
{
	struct symbols *symbols = calloc(1, sizeof(*symbols));

	elf_version(EV_CURRENT);
	if (symbols)
		symbols->debug_root_fd = open(debug_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return symbols;
}

struct symbols *symbols__new(void)
{
	return symbols__new_below(DEBUG_FILE_ROOT);
}

static void release_object(struct known_object *known)
{
	object__close(known->object);
	free(known->path);
	free(known->build_id);
}

void symbols__free(struct symbols *symbols)
{
	if (!symbols)
		return;
	for (size_t i = 0; i < symbols->object_nr; i++)
		release_object(&symbols->object[i]);
	for (size_t i = 0; i < symbols->result_nr; i++)
		free(symbols->result[i].frame);
	for (size_t i = 0; i < symbols->name_nr; i++) {
		free(symbols->name[i].raw);
		free(symbols->name[i].readable);
	}
	idmap_release(&symbols->result_ids);
	idmap_release(&symbols->name_ids);
	free(symbols->object);
	free(symbols->result);
	free(symbols->name);
	if (symbols->debug_root_fd >= 0)
		close(symbols->debug_root_fd);
	free(symbols);
}

uint64_t symbols__cut_short_nr(const struct symbols *symbols)
{
	return symbols->cut_short_nr;
}

/* ---- objects ---- */

struct open_job {
	int fd, debug_root_fd;
	const char *path;
	struct object *object;
};

static void open_object(void *job)
{
	struct open_job *open = job;

	open->object = object__open(open->fd, open->path, open->debug_root_fd);
}

/* fd -1 is no file: an object without names. */
static struct object *open_guarded(struct symbols *symbols, const char *path, int fd)
{
	struct open_job job = { .fd = fd, .debug_root_fd = symbols->debug_root_fd, .path = path };

	if (!guard_run(open_object, &job)) {
		symbols->cut_short_nr++;
		job.object = object__open(-1, path, symbols->debug_root_fd);
	}
	return job.object;
}

static int add_object(struct symbols *symbols, const char *path, const char *build_id, int fd)
{
	struct known_object known = {
		.path = strdup(path),
		.build_id = strdup(build_id),
		.object = open_guarded(symbols, path, fd),
	};
	int err = -ENOMEM;

	if (known.path && known.build_id && known.object)
		err = array_push(symbols, object, known);
	if (err)
		release_object(&known);
	return err;
}

int symbols__object(struct symbols *symbols, const char *path, const char *build_id, int fd,
		    uint32_t *ret_object)
{
	size_t i;
	int err;

	for (i = 0; i < symbols->object_nr; i++)
		if (!strcmp(symbols->object[i].path, path) &&
		    !strcmp(symbols->object[i].build_id, build_id))
			break;
	if (i == symbols->object_nr) {
		err = add_object(symbols, path, build_id, fd);
		if (err)
			return err;
	}
	*ret_object = i;
	return 0;
}

/* ---- names ---- */

static bool same_name(uint32_t id, const void *key, const void *table)
{
	const struct name *name = &((const struct symbols *)table)->name[id], *want = key;

	return name->is_function == want->is_function && name->directory == want->directory &&
	       !strcmp(name->raw, want->raw);
}

static int add_name(struct symbols *symbols, const struct name *key, uint64_t hash)
{
	struct name name = *key;
	int err = -ENOMEM;

	name.raw = strdup(key->raw);
	name.readable = key->is_function ? function_name(key->raw) :
					   source_name(key->directory, key->raw);
	if (name.raw && name.readable)
		err = array_reserve(&symbols->name, &symbols->name_alloc, symbols->name_nr + 1);
	if (!err)
		err = idmap_add(&symbols->name_ids, hash, symbols->name_nr);
	if (err) {
		free(name.raw);
		free(name.readable);
		return err;
	}
	symbols->name[symbols->name_nr++] = name;
	return 0;
}

/* The readable form in *ret, or NULL there if there is no name. 0 or -ENOMEM. */
static int read_name(struct symbols *symbols, const struct name *key, const char **ret)
{
	uint64_t hash;
	uint32_t id;
	int err;

	*ret = NULL;
	if (!key->raw || !*key->raw)
		return 0;
	hash = hash_bytes(key->raw, strlen(key->raw), key->is_function);
	id = idmap_find(&symbols->name_ids, hash, same_name, key, symbols);
	if (id == IDMAP_NONE) {
		id = symbols->name_nr;
		err = add_name(symbols, key, hash);
		if (err)
			return err;
	}
	*ret = symbols->name[id].readable;
	return 0;
}

static int read_place(struct symbols *symbols, const struct place *place, struct symbol *ret)
{
	struct name function = {
		.raw = (char *)(place->linkage_name ? place->linkage_name : place->name),
		.is_function = true,
	};
	struct name source = { .raw = (char *)place->filename, .directory = place->directory };
	int err = read_name(symbols, &function, &ret->function);

	if (err)
		return err;
	ret->lineno = place->lineno;
	return read_name(symbols, &source, &ret->filename);
}

/* ---- lookup ---- */

static bool same_result(uint32_t id, const void *key, const void *table)
{
	const struct result *result = &((const struct symbols *)table)->result[id], *want = key;

	return result->object == want->object && result->return_offset == want->return_offset;
}

static int look_up(struct symbols *symbols, struct result *result)
{
	struct place place[SYMBOL_INLINE_MAX];
	int nr, err = 0;

	nr = object__lookup(symbols->object[result->object].object, result->return_offset, place);
	if (nr < 0)
		return nr;
	result->frame = calloc(nr, sizeof(*result->frame));
	if (!result->frame)
		return -ENOMEM;
	result->frame_nr = nr;
	for (int i = 0; i < nr && !err; i++)
		err = read_place(symbols, &place[i], &result->frame[i]);
	return err;
}

struct lookup_job {
	struct symbols *symbols;
	struct result *result;
	int err;
};

static void run_lookup(void *job)
{
	struct lookup_job *lookup = job;

	lookup->err = look_up(lookup->symbols, lookup->result);
}

/* An object that was cut short goes on without names; what libdw made of it is lost with it. */
static int look_up_guarded(struct symbols *symbols, struct result *result)
{
	struct lookup_job job = { .symbols = symbols, .result = result };
	struct known_object *known = &symbols->object[result->object];

	if (guard_run(run_lookup, &job))
		return job.err;
	symbols->cut_short_nr++;
	known->object = object__open(-1, known->path, symbols->debug_root_fd);
	result->frame = calloc(1, sizeof(*result->frame));
	result->frame_nr = 1;
	return known->object && result->frame ? 0 : -ENOMEM;
}

static int add_result(struct symbols *symbols, const struct result *key, uint64_t hash)
{
	struct result result = *key;
	int err = look_up_guarded(symbols, &result);

	if (!err)
		err = array_reserve(&symbols->result, &symbols->result_alloc,
				    symbols->result_nr + 1);
	if (!err)
		err = idmap_add(&symbols->result_ids, hash, symbols->result_nr);
	if (err) {
		free(result.frame);
		return err;
	}
	symbols->result[symbols->result_nr++] = result;
	return 0;
}

int symbols__lookup(struct symbols *symbols, uint32_t object, uint64_t return_offset,
		    struct symbol ret_frame[SYMBOL_INLINE_MAX])
{
	struct result key = { .object = object, .return_offset = return_offset };
	uint64_t hash = hash_bytes(&return_offset, sizeof(return_offset), object);
	uint32_t id;
	int err;

	id = idmap_find(&symbols->result_ids, hash, same_result, &key, symbols);
	if (id == IDMAP_NONE) {
		id = symbols->result_nr;
		err = add_result(symbols, &key, hash);
		if (err)
			return err;
	}
	memcpy(ret_frame, symbols->result[id].frame,
	       symbols->result[id].frame_nr * sizeof(*ret_frame));
	return symbols->result[id].frame_nr;
}
