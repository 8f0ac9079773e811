// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "census/census_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"

/*
 * One walk writes a census or reads it: each function names a member of the JSON once. A number that is 0 is written, too,
 * except in classes and losses.
 */
struct walk {
	struct emitter *out;  /* NULL: the walk reads */
	const json_t *object; /* a walk that reads is in it */
	struct reason *why;
	int err; /* the first one of reading; items of lists are not read any more */
};

#define PYTHON_CLASS_BYTES 16
#define NUMBER_MOST (UINT64_C(1) << 50) /* sums of plausible numbers do not overflow */

/* ---- members -------------------------------------------------------------------------------------------------- */

static void refuse_member(struct walk *w, const char *key, const char *what)
{
	if (!w->err)
		w->err = reason_set(w->why, -EINVAL, "this is no census: '%s' is %s", key, what);
}

/* Whether an optional member is to be written, or is there. */
static bool walk_has_member(const struct walk *w, const char *key, bool is_wanted)
{
	return w->out ? is_wanted : json_object_get(w->object, key) != NULL;
}

static void walk_number(struct walk *w, const char *key, uint64_t *number)
{
	const json_t *value = json_object_get(w->object, key);

	if (w->out)
		emit_uint(w->out, key, *number);
	else if (!json_is_integer(value) || json_integer_value(value) < 0)
		refuse_member(w, key, "missing, or no number");
	else
		*number = json_integer_value(value);
}

static void walk_flag(struct walk *w, const char *key, uint64_t *flag)
{
	if (w->out)
		emit_bool(w->out, key, *flag);
	else
		*flag = json_is_true(json_object_get(w->object, key));
}

static void walk_text(struct walk *w, const char *key, char *text, size_t room)
{
	if (w->out)
		emit_text(w->out, key, text);
	else
		clean_text(text, room, json_string_value(json_object_get(w->object, key)) ?: "");
}

/* Enters an object; without a key (NULL) an item of a list. Returns the outer object, for walk_leave(). */
static const json_t *walk_enter(struct walk *w, const char *key)
{
	const json_t *outer = w->object;

	if (w->out)
		emit_object(w->out, key);
	else if (key)
		w->object = json_object_get(outer, key);
	return outer;
}

static void walk_leave(struct walk *w, const json_t *outer)
{
	if (w->out)
		emit_end(w->out);
	w->object = outer;
}

/* Calls item() for each index below nr; a walk that reads calls it for each item of the list. */
static void walk_list(struct walk *w, const char *key, size_t nr, void (*item)(struct walk *w, void *of, size_t i), void *of)
{
	const json_t *outer = w->object, *list = json_object_get(outer, key);

	if (w->out)
		emit_list(w->out, key);
	else if (!json_is_array(list))
		refuse_member(w, key, "missing");
	for (size_t i = 0; i < (w->out ? nr : json_array_size(list)) && !w->err; i++) {
		w->object = json_array_get(list, i);
		item(w, of, i);
	}
	if (w->out)
		emit_end(w->out);
	w->object = outer;
}

static void walk_count(struct walk *w, const char *key, struct census_count *count)
{
	const json_t *outer = walk_enter(w, key);

	walk_number(w, "count", &count->count);
	walk_number(w, "bytes", &count->bytes);
	walk_leave(w, outer);
	if (!w->out && (count->bytes > NUMBER_MOST || count->count > NUMBER_MOST))
		refuse_member(w, key, "too large");
}

/* ---- glibc ---------------------------------------------------------------------------------------------------- */

static void walk_counted(struct walk *w, const char *key, struct census_count *count)
{
	if (walk_has_member(w, key, count->count))
		walk_count(w, key, count);
}

static void walk_class(struct walk *w, void *classes, size_t i)
{
	struct census_class *class = classes;
	uint64_t most = w->out ? census_class_most(i) : 0;
	const json_t *outer;

	if (w->out && !class[i].in_use.count && !class[i].cached.count && !class[i].free.count)
		return;
	outer = walk_enter(w, NULL);
	walk_number(w, "chunk_bytes", &most);
	class += census_class_of(most);
	walk_counted(w, "in_use", &class->in_use);
	walk_counted(w, "cached", &class->cached);
	walk_counted(w, "free", &class->free);
	walk_leave(w, outer);
}

static void walk_classes(struct walk *w, struct census_class class[CENSUS_CLASS_NR])
{
	walk_list(w, "classes", CENSUS_CLASS_NR, walk_class, class);
}

static void walk_arena_object(struct walk *w, void *census_, size_t i)
{
	struct census *census = census_;
	struct census_arena *arena;
	const json_t *outer, *around;

	if (!w->out)
		w->err = array_push(census, arena, (struct census_arena){});
	if (w->err)
		return;
	arena = &census->arena[i];
	outer = walk_enter(w, NULL);
	walk_flag(w, "main", &arena->is_main);
	walk_number(w, "heaps", &arena->heap_nr);
	walk_number(w, "address", &arena->address);
	walk_number(w, "system_bytes", &arena->system_bytes);
	walk_number(w, "overhead_bytes", &arena->overhead_bytes);
	walk_number(w, "unwalked_bytes", &arena->unwalked_bytes);
	walk_number(w, "resident_bytes", &arena->resident_bytes);
	walk_number(w, "absent_bytes", &arena->absent_bytes);
	walk_number(w, "trimmable_bytes", &arena->trimmable_bytes);
	around = walk_enter(w, "states");
	for (enum census_state s = 0; s < CENSUS_STATE_NR; s++)
		walk_count(w, census_state_names[s], &arena->state[s]);
	walk_leave(w, around);
	walk_classes(w, arena->class);
	walk_leave(w, outer);
}

static void walk_mmapped(struct walk *w, struct census_mmapped *mmapped)
{
	struct census_class class[CENSUS_CLASS_NR] = {};
	const json_t *outer = walk_enter(w, "mmapped");

	walk_count(w, "in_use", &mmapped->told);
	walk_count(w, "found", &mmapped->found);
	for (size_t i = 0; i < CENSUS_CLASS_NR; i++)
		class[i].in_use = mmapped->class[i];
	walk_classes(w, class);
	for (size_t i = 0; i < CENSUS_CLASS_NR; i++)
		mmapped->class[i] = class[i].in_use;
	walk_leave(w, outer);
}

static void walk_glibc(struct walk *w, struct census *census)
{
	const json_t *outer = walk_enter(w, "glibc");
	struct census_sum sum;

	if (w->out) {
		census_add_up(census, &sum);
		walk_count(w, "in_use", &sum.in_use);
		walk_count(w, "free", &sum.free);
	} else if (json_array_size(json_object_get(w->object, "arenas")) > CENSUS_ARENAS_MAX) {
		refuse_member(w, "arenas", "too long");
	}
	walk_list(w, "arenas", census->arena_nr, walk_arena_object, census);
	if (walk_has_member(w, "mmapped", census->has_mmapped)) {
		census->has_mmapped = true;
		walk_mmapped(w, &census->mmapped);
	}
	if (walk_has_member(w, "why", *census->no_heap))
		walk_text(w, "why", census->no_heap, sizeof(census->no_heap));
	walk_leave(w, outer);
}

/* ---- Python --------------------------------------------------------------------------------------------------- */

static void walk_python_class(struct walk *w, void *classes, size_t i)
{
	struct census_python_class *class = classes;
	uint64_t bytes = (i + 1) * PYTHON_CLASS_BYTES;
	const json_t *outer;

	if (w->out && !class[i].in_use.count && !class[i].free.count)
		return;
	outer = walk_enter(w, NULL);
	walk_number(w, "block_bytes", &bytes);
	if (bytes / PYTHON_CLASS_BYTES - 1 >= CENSUS_PYTHON_CLASSES)
		return refuse_member(w, "block_bytes", "too large");
	class += bytes / PYTHON_CLASS_BYTES - 1;
	walk_count(w, "in_use", &class->in_use);
	walk_count(w, "free", &class->free);
	walk_leave(w, outer);
}

static void walk_python_type(struct walk *w, void *python_, size_t i)
{
	struct census_python *python = python_;
	struct census_type *type;
	const json_t *outer;

	if (!w->out)
		w->err = array_push(python, type, (struct census_type){});
	if (w->err)
		return;
	type = &python->type[i];
	outer = walk_enter(w, NULL);
	if (walk_has_member(w, "name", *type->name))
		walk_text(w, "name", type->name, sizeof(type->name));
	walk_number(w, "count", &type->blocks.count);
	walk_number(w, "bytes", &type->blocks.bytes);
	walk_leave(w, outer);
}

static void walk_python(struct walk *w, struct census_python *python)
{
	const json_t *outer = walk_enter(w, "python");

	walk_text(w, "version", python->version, sizeof(python->version));
	walk_number(w, "arenas", &python->arena_nr);
	walk_number(w, "used_pools", &python->used_pools);
	walk_number(w, "system_bytes", &python->system_bytes);
	walk_number(w, "overhead_bytes", &python->overhead_bytes);
	walk_number(w, "free_pool_bytes", &python->free_pool_bytes);
	walk_number(w, "unwalked_bytes", &python->unwalked_bytes);
	walk_number(w, "resident_bytes", &python->resident_bytes);
	if (walk_has_member(w, "why", *python->why))
		walk_text(w, "why", python->why, sizeof(python->why));
	walk_count(w, "in_use", &python->in_use);
	walk_count(w, "free", &python->free);
	walk_list(w, "classes", CENSUS_PYTHON_CLASSES, walk_python_class, python->class);
	walk_list(w, "types", python->type_nr, walk_python_type, python);
	if (!*python->version)
		strcpy(python->version, "?"); /* "" means that there is no Python */
	walk_leave(w, outer);
}

/* ---- a census -------------------------------------------------------------------------------------------------- */

static void walk_census(struct walk *w, struct census *census)
{
	const json_t *outer;

	walk_text(w, "name", census->name, sizeof(census->name));
	walk_number(w, "pid", &census->pid);
	walk_number(w, "time_ns", &census->time_ns);
	walk_number(w, "read_ns", &census->read_ns);
	walk_number(w, "resident_bytes", &census->resident_bytes);
	walk_glibc(w, census);
	if (walk_has_member(w, "python", *census->python.version))
		walk_python(w, &census->python);
	outer = walk_enter(w, "losses");
	for (enum census_loss i = 0; i < CENSUS_LOSS_NR; i++)
		if (walk_has_member(w, census_loss_names[i], census->loss[i]))
			walk_number(w, census_loss_names[i], &census->loss[i]);
	walk_leave(w, outer);
}

/* A walk that writes changes nothing. */
void emit_census(struct emitter *out, const struct census *census)
{
	emit_text(out, "schema", CENSUS_SCHEMA);
	walk_census(&(struct walk){ .out = out }, (struct census *)census);
}

json_t *census_to_json(const struct census *census)
{
	struct emitter out = emit_to(NULL, true);
	json_t *json;

	emit_census(&out, census);
	emit_value_of(&out, &json);
	return json;
}

/* 0, -EINVAL with a line in *why, -ENOMEM. The caller releases *ret, which is zeroed after a failure. */
static int census_from_json(const json_t *json, struct census *ret, struct reason *why)
{
	const char *schema = json_string_value(json_object_get(json, "schema"));
	struct walk walk = { .object = json, .why = why };

	if (!schema || strcmp(schema, CENSUS_SCHEMA))
		return reason_set(why, -EINVAL, "this is no census: its schema is %s, not " CENSUS_SCHEMA, schema ?: "missing");
	walk_census(&walk, ret);
	if (walk.err)
		census_release(ret);
	return walk.err;
}

int census_from_text(const char *text, size_t bytes, struct census *ret, struct reason *why)
{
	json_error_t error;
	json_t *json = json_loadb(text, bytes, 0, &error);
	int err;

	*ret = (struct census){};
	if (!json)
		return reason_set(why, -EINVAL, "this is no JSON: %s", error.text);
	err = census_from_json(json, ret, why);
	json_decref(json);
	return err;
}

int census_from_file(const char *path, struct census *ret, struct reason *why)
{
	FILE *file = fopen(path, "re");
	size_t bytes = 0, alloc = 0;
	char *text = NULL;
	int err = file ? 0 : -errno;

	*ret = (struct census){};
	while (!err) {
		size_t some;

		err = bytes > CENSUS_JSON_MOST ? -EFBIG : array_reserve(&text, &alloc, bytes + 65536);
		some = err ? 0 : fread(text + bytes, 1, 65536, file);
		bytes += some;
		if (!err && ferror(file))
			err = -errno;
		if (!some)
			break;
	}
	if (file)
		fclose(file);
	if (err)
		reason_set(why, err, "%s", strerror(-err));
	else
		err = census_from_text(text, bytes, ret, why);
	free(text);
	return err;
}
