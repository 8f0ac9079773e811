// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "census/census_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"

/*
 * One table for both directions: the keys of numbers, and where they are in their struct. A number that is 0 is written,
 * too, except in classes.
 */
struct number {
	const char *key;
	size_t offset;
};

static const struct number census_numbers[] = {
	{ "pid", offsetof(struct census, pid) },
	{ "time_ns", offsetof(struct census, time_ns) },
	{ "read_ns", offsetof(struct census, read_ns) },
	{ "resident_bytes", offsetof(struct census, resident_bytes) },
	{},
};

static const struct number arena_numbers[] = {
	{ "address", offsetof(struct census_arena, address) },
	{ "system_bytes", offsetof(struct census_arena, system_bytes) },
	{ "overhead_bytes", offsetof(struct census_arena, overhead_bytes) },
	{ "unwalked_bytes", offsetof(struct census_arena, unwalked_bytes) },
	{ "resident_bytes", offsetof(struct census_arena, resident_bytes) },
	{ "absent_bytes", offsetof(struct census_arena, absent_bytes) },
	{ "trimmable_bytes", offsetof(struct census_arena, trimmable_bytes) },
	{},
};

static const struct number count_numbers[] = {
	{ "count", offsetof(struct census_count, count) },
	{ "bytes", offsetof(struct census_count, bytes) },
	{},
};

static const struct number python_numbers[] = {
	{ "arenas", offsetof(struct census_python, arena_nr) },
	{ "used_pools", offsetof(struct census_python, used_pools) },
	{ "system_bytes", offsetof(struct census_python, system_bytes) },
	{ "overhead_bytes", offsetof(struct census_python, overhead_bytes) },
	{ "free_pool_bytes", offsetof(struct census_python, free_pool_bytes) },
	{ "unwalked_bytes", offsetof(struct census_python, unwalked_bytes) },
	{ "resident_bytes", offsetof(struct census_python, resident_bytes) },
	{},
};

#define PYTHON_CLASS_BYTES 16

static const struct class_part {
	const char *key;
	size_t offset;
} class_parts[] = {
	{ "in_use", offsetof(struct census_class, in_use) },
	{ "cached", offsetof(struct census_class, cached) },
	{ "free", offsetof(struct census_class, free) },
};

/* ---- writing ---- */

static void emit_numbers(struct emitter *out, const struct number *number, const void *from)
{
	for (; number->key; number++) {
		uint64_t value;

		memcpy(&value, (const char *)from + number->offset, sizeof(value));
		emit_uint(out, number->key, value);
	}
}

static void emit_count(struct emitter *out, const char *key, const struct census_count *count)
{
	emit_object(out, key);
	emit_numbers(out, count_numbers, count);
	emit_end(out);
}

static void emit_class(struct emitter *out, size_t class, const struct census_class *counts)
{
	emit_object(out, NULL);
	emit_uint(out, "chunk_bytes", census_class_most(class));
	for (size_t i = 0; i < ARRAY_SIZE(class_parts); i++) {
		const struct census_count *count = (const void *)((const char *)counts + class_parts[i].offset);

		if (count->count)
			emit_count(out, class_parts[i].key, count);
	}
	emit_end(out);
}

static void emit_classes(struct emitter *out, const struct census_class class[CENSUS_CLASS_NR])
{
	emit_list(out, "classes");
	for (size_t i = 0; i < CENSUS_CLASS_NR; i++)
		if (class[i].in_use.count || class[i].cached.count || class[i].free.count)
			emit_class(out, i, &class[i]);
	emit_end(out);
}

static void emit_arena(struct emitter *out, const struct census_arena *arena)
{
	emit_object(out, NULL);
	emit_bool(out, "main", arena->is_main);
	emit_uint(out, "heaps", arena->heap_nr);
	emit_numbers(out, arena_numbers, arena);
	emit_object(out, "states");
	for (enum census_state s = 0; s < CENSUS_STATE_NR; s++)
		emit_count(out, census_state_names[s], &arena->state[s]);
	emit_end(out);
	emit_classes(out, arena->class);
	emit_end(out);
}

static void emit_mmapped(struct emitter *out, const struct census_mmapped *mmapped)
{
	struct census_class class[CENSUS_CLASS_NR] = {};

	emit_object(out, "mmapped");
	emit_count(out, "in_use", &mmapped->told);
	emit_count(out, "found", &mmapped->found);
	for (size_t i = 0; i < CENSUS_CLASS_NR; i++)
		class[i].in_use = mmapped->class[i];
	emit_classes(out, class);
	emit_end(out);
}

static void emit_glibc(struct emitter *out, const struct census *census)
{
	struct census_sum sum;

	census_add_up(census, &sum);
	emit_object(out, "glibc");
	emit_count(out, "in_use", &sum.in_use);
	emit_count(out, "free", &sum.free);
	emit_list(out, "arenas");
	for (size_t i = 0; i < census->arena_nr; i++)
		emit_arena(out, &census->arena[i]);
	emit_end(out);
	if (census->has_mmapped)
		emit_mmapped(out, &census->mmapped);
	emit_text(out, "why", *census->no_heap ? census->no_heap : NULL);
	emit_end(out);
}

static void emit_python_class(struct emitter *out, size_t class, const struct census_python_class *counts)
{
	if (!counts->in_use.count && !counts->free.count)
		return;
	emit_object(out, NULL);
	emit_uint(out, "block_bytes", (class + 1) * PYTHON_CLASS_BYTES);
	emit_count(out, "in_use", &counts->in_use);
	emit_count(out, "free", &counts->free);
	emit_end(out);
}

static void emit_python(struct emitter *out, const struct census_python *python)
{
	emit_object(out, "python");
	emit_text(out, "version", python->version);
	emit_numbers(out, python_numbers, python);
	emit_text(out, "why", *python->why ? python->why : NULL);
	emit_count(out, "in_use", &python->in_use);
	emit_count(out, "free", &python->free);
	emit_list(out, "classes");
	for (size_t i = 0; i < CENSUS_PYTHON_CLASSES; i++)
		emit_python_class(out, i, &python->class[i]);
	emit_end(out);
	emit_list(out, "types");
	for (size_t i = 0; i < python->type_nr; i++) {
		emit_object(out, NULL);
		emit_text(out, "name", *python->type[i].name ? python->type[i].name : NULL);
		emit_numbers(out, count_numbers, &python->type[i].blocks);
		emit_end(out);
	}
	emit_end(out);
	emit_end(out);
}

void emit_census(struct emitter *out, const struct census *census)
{
	emit_text(out, "schema", CENSUS_SCHEMA);
	emit_text(out, "name", census->name);
	emit_numbers(out, census_numbers, census);
	emit_glibc(out, census);
	if (*census->python.version)
		emit_python(out, &census->python);
	emit_object(out, "losses");
	for (enum census_loss i = 0; i < CENSUS_LOSS_NR; i++)
		if (census->loss[i])
			emit_uint(out, census_loss_names[i], census->loss[i]);
	emit_end(out);
}

json_t *census_to_json(const struct census *census)
{
	struct emitter out = emit_to(NULL, true);
	json_t *json;

	emit_census(&out, census);
	emit_value_of(&out, &json);
	return json;
}

/* ---- reading ---- */

/* Sums of plausible numbers do not overflow. */
#define NUMBER_MOST (UINT64_C(1) << 50)

static int get_number(const json_t *object, const char *key, uint64_t *ret, struct reason *why)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return reason_set(why, -EINVAL, "this is no census: '%s' is missing, or no number", key);
	*ret = json_integer_value(value);
	return 0;
}

static int get_numbers(const json_t *object, const struct number *number, void *to, struct reason *why)
{
	int err = 0;

	for (; number->key && !err; number++) {
		uint64_t value = 0;

		err = get_number(object, number->key, &value, why);
		memcpy((char *)to + number->offset, &value, sizeof(value));
	}
	return err;
}

static int get_count(const json_t *object, const char *key, struct census_count *ret, struct reason *why)
{
	int err = get_numbers(json_object_get(object, key), count_numbers, ret, why);

	if (!err && (ret->bytes > NUMBER_MOST || ret->count > NUMBER_MOST))
		err = reason_set(why, -EINVAL, "this is no census: '%s' is too large", key);
	return err;
}

static int get_class(const json_t *object, struct census_class class[CENSUS_CLASS_NR], struct reason *why)
{
	uint64_t most = 0;
	int err = get_number(object, "chunk_bytes", &most, why);
	size_t at = census_class_of(most);

	for (size_t i = 0; i < ARRAY_SIZE(class_parts) && !err; i++)
		if (json_object_get(object, class_parts[i].key))
			err = get_count(object, class_parts[i].key, (void *)((char *)&class[at] + class_parts[i].offset), why);
	return err;
}

static int get_classes(const json_t *list, struct census_class class[CENSUS_CLASS_NR], struct reason *why)
{
	int err = json_is_array(list) ? 0 : reason_set(why, -EINVAL, "this is no census: 'classes' is missing");

	for (size_t i = 0; i < json_array_size(list) && !err; i++)
		err = get_class(json_array_get(list, i), class, why);
	return err;
}

static int get_arena(const json_t *object, struct census *census, struct reason *why)
{
	struct census_arena arena = { .is_main = json_is_true(json_object_get(object, "main")) };
	const json_t *states = json_object_get(object, "states");
	uint64_t heaps = 0;
	int err = get_numbers(object, arena_numbers, &arena, why) ?: get_number(object, "heaps", &heaps, why);

	arena.heap_nr = heaps;
	for (enum census_state s = 0; s < CENSUS_STATE_NR && !err; s++)
		err = get_count(states, census_state_names[s], &arena.state[s], why);
	err = err ?: get_classes(json_object_get(object, "classes"), arena.class, why);
	return err ?: array_push(census, arena, arena);
}

static int get_mmapped(const json_t *object, struct census *census, struct reason *why)
{
	struct census_class class[CENSUS_CLASS_NR] = {};
	int err;

	if (!object)
		return 0;
	err = get_count(object, "in_use", &census->mmapped.told, why) ?: get_count(object, "found", &census->mmapped.found, why);
	err = err ?: get_classes(json_object_get(object, "classes"), class, why);
	for (size_t i = 0; i < CENSUS_CLASS_NR; i++)
		census->mmapped.class[i] = class[i].in_use;
	census->has_mmapped = true;
	return err;
}

static int get_glibc(const json_t *object, struct census *census, struct reason *why)
{
	const json_t *arenas = json_object_get(object, "arenas"), *no_heap = json_object_get(object, "why");
	size_t nr = json_array_size(arenas);
	int err = json_is_array(arenas) && nr <= CENSUS_ARENAS_MAX ?
			  get_mmapped(json_object_get(object, "mmapped"), census, why) :
			  reason_set(why, -EINVAL, "this is no census: 'arenas' is missing, or too long");

	for (size_t i = 0; i < nr && !err; i++)
		err = get_arena(json_array_get(arenas, i), census, why);
	snprintf(census->no_heap, sizeof(census->no_heap), "%s", json_string_value(no_heap) ?: "");
	return err;
}

static int get_python_class(const json_t *object, struct census_python *python, struct reason *why)
{
	uint64_t bytes = 0, class;
	int err = get_number(object, "block_bytes", &bytes, why);

	class = bytes / PYTHON_CLASS_BYTES - 1;
	if (!err && class >= CENSUS_PYTHON_CLASSES)
		return reason_set(why, -EINVAL, "this is no census: 'block_bytes' is too large");
	err = err ?: get_count(object, "in_use", &python->class[class].in_use, why);
	return err ?: get_count(object, "free", &python->class[class].free, why);
}

static int get_python_type(const json_t *object, struct census_python *python, struct reason *why)
{
	struct census_type type = {};
	int err = get_numbers(object, count_numbers, &type.blocks, why);

	clean_text(type.name, sizeof(type.name), json_string_value(json_object_get(object, "name")) ?: "");
	return err ?: array_push(python, type, type);
}

static int get_python(const json_t *object, struct census_python *python, struct reason *why)
{
	const json_t *classes = json_object_get(object, "classes"), *types = json_object_get(object, "types");
	int err = object ? get_numbers(object, python_numbers, python, why) : 0;

	if (!object || err)
		return err;
	clean_text(python->version, sizeof(python->version), json_string_value(json_object_get(object, "version")) ?: "?");
	clean_text(python->why, sizeof(python->why), json_string_value(json_object_get(object, "why")) ?: "");
	err = get_count(object, "in_use", &python->in_use, why) ?: get_count(object, "free", &python->free, why);
	for (size_t i = 0; i < json_array_size(classes) && !err; i++)
		err = get_python_class(json_array_get(classes, i), python, why);
	for (size_t i = 0; i < json_array_size(types) && !err; i++)
		err = get_python_type(json_array_get(types, i), python, why);
	return err;
}

/* 0, -EINVAL with a line in *why, -ENOMEM. The caller releases *ret, which is zeroed after a failure. */
static int census_from_json(const json_t *json, struct census *ret, struct reason *why)
{
	const char *schema = json_string_value(json_object_get(json, "schema"));
	const json_t *losses = json_object_get(json, "losses");
	struct census census = {};
	int err;

	*ret = census;
	if (!schema || strcmp(schema, CENSUS_SCHEMA))
		return reason_set(why, -EINVAL, "this is no census: its schema is %s, not " CENSUS_SCHEMA, schema ?: "missing");
	snprintf(census.name, sizeof(census.name), "%s", json_string_value(json_object_get(json, "name")) ?: "");
	err = get_numbers(json, census_numbers, &census, why) ?: get_glibc(json_object_get(json, "glibc"), &census, why);
	err = err ?: get_python(json_object_get(json, "python"), &census.python, why);
	for (enum census_loss i = 0; i < CENSUS_LOSS_NR && !err; i++)
		if (json_object_get(losses, census_loss_names[i]))
			err = get_number(losses, census_loss_names[i], &census.loss[i], why);
	if (err)
		census_release(&census);
	*ret = census;
	return err;
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
