// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/user_allocators.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/allocators.h"
#include "elf/user_function.h"

/* The state of parsing one SPEC. */
struct spec {
	struct user_allocators *custom;
	struct user_allocator allocator;
	size_t first; /* the index of its first function */
	struct reason *why;
};

/* ---- items ---- */

static bool is_named(const struct spec *spec, const char *symbol)
{
	for (size_t i = spec->first; i < spec->custom->function_nr; i++)
		if (!strcmp(spec->custom->function[i].symbol, symbol))
			return true;
	return false;
}

static int spec_add_function(struct spec *spec, const char *item, struct user_function *function)
{
	if (is_named(spec, function->symbol))
		return reason_set(spec->why, -EINVAL, "%s: the function is there twice", item);
	if (spec->custom->function_nr == CUSTOM_CALLS_MAX)
		return reason_set(spec->why, -EINVAL, "more than %d functions", CUSTOM_CALLS_MAX);
	function->allocator = spec->custom->allocator_nr;
	return array_push(spec->custom, function, *function);
}

static int spec_set_allocator_function(struct spec *spec, char *item)
{
	struct user_function function;
	int err = user_function_read(item, &function, spec->why);

	if (err)
		return err;
	err = spec_add_function(spec, item, &function);
	if (err)
		free(function.symbol);
	return err;
}

static int set_text(struct spec *spec, const char *item, const char *value, char **field)
{
	if (*field)
		return reason_set(spec->why, -EINVAL, "%.100s: it is there twice", item);
	if (!*value)
		return reason_set(spec->why, -EINVAL, "%s is empty", item);
	*field = strdup(value);
	return *field ? 0 : -ENOMEM;
}

static bool is_domain_name(const char *text)
{
	static const char name_bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789._-";

	return !text[strspn(text, name_bytes)] && text[strspn(text, "0123456789")] &&
	       strlen(text) <= CUSTOM_NAME_MAX;
}

static bool is_taken(const struct spec *spec, const char *name)
{
	for (size_t i = 0; i < spec->custom->allocator_nr; i++)
		if (!strcmp(spec->custom->allocator[i].name, name))
			return true;
	return allocator_is_named(name);
}

static int spec_set_allocator_name(struct spec *spec, const char *item, const char *value)
{
	int err = set_text(spec, item, value, &spec->allocator.name);

	if (err)
		return err;
	if (!is_domain_name(value))
		return reason_set(spec->why, -EINVAL,
				  "name=%.40s: a name is up to %d letters, digits, '.', '_' and '-', and no number",
				  value, CUSTOM_NAME_MAX);
	if (is_taken(spec, value))
		return reason_set(spec->why, -EINVAL, "name=%s: that is another allocator's name",
				  value);
	return 0;
}

static int spec_set_allocator_object(struct spec *spec, const char *item, const char *value)
{
	return set_text(spec, item, value, &spec->allocator.object);
}

static const struct item_key {
	const char *name; /* including the = */
	int (*set)(struct spec *spec, const char *item, const char *value);
} item_keys[] = {
	{ "name=", spec_set_allocator_name },
	{ "object=", spec_set_allocator_object },
};

static int set_item(struct spec *spec, char *item)
{
	for (size_t i = 0; i < ARRAY_SIZE(item_keys); i++)
		if (!strncmp(item, item_keys[i].name, strlen(item_keys[i].name)))
			return item_keys[i].set(spec, item, item + strlen(item_keys[i].name));
	if (user_function_is_item(item))
		return spec_set_allocator_function(spec, item);
	if (!strcmp(item, "wraps"))
		spec->allocator.wraps = true;
	else if (!strcmp(item, "throws"))
		spec->allocator.throws = true;
	else
		return reason_set(spec->why, -EINVAL,
				  "'%.100s' is none of name=, object=, alloc=, realloc=, free=, throws and wraps",
				  item);
	return 0;
}

/* ---- the whole ---- */

/*
 * Ends the item that begins at text, at a comma outside of parentheses. Returns the next item, or
 * NULL.
 */
static char *cut_item(char *text)
{
	bool is_inside = false;

	for (; *text && (*text != ',' || is_inside); text++)
		is_inside = *text == '(' || (is_inside && *text != ')');
	if (!*text)
		return NULL;
	*text = '\0';
	return text + 1;
}

static bool spec_has_shape(const struct spec *spec, bool (*is_wanted)(enum call_shape shape))
{
	for (size_t i = spec->first; i < spec->custom->function_nr; i++)
		if (is_wanted(spec->custom->function[i].shape))
			return true;
	return false;
}

static int check_allocator_spec(const struct spec *spec)
{
	static const char missing[] = "%s is missing";

	if (!spec->allocator.name)
		return reason_set(spec->why, -EINVAL, missing, "name=");
	if (!spec->allocator.object)
		return reason_set(spec->why, -EINVAL, missing, "object=");
	if (!spec_has_shape(spec, shape_gives))
		return reason_set(spec->why, -EINVAL, missing, "alloc= (or realloc=)");
	if (!spec_has_shape(spec, shape_takes))
		return reason_set(spec->why, -EINVAL, missing, "free= (or realloc=)");
	return 0;
}

static int read_items(struct spec *spec, char *text)
{
	int err = 0;

	while (text && !err) {
		char *next = cut_item(text);

		err = set_item(spec, text);
		text = next;
	}
	return err ?: check_allocator_spec(spec);
}

static unsigned int user_allocators_argument_nr(const struct user_arguments *call)
{
	unsigned int most = call->size > call->count ? call->size : call->count;

	return most > call->pointer ? most : call->pointer;
}

_Static_assert((int)FUNCTIONS_WANTED_MAX >= CUSTOM_CALLS_MAX, "there is room for each");

/* Two files may have functions of the same name. */
static void want(struct functions_wanted *wanted, struct user_function *function)
{
	unsigned int nr = user_allocators_argument_nr(&function->call);
	struct function_wanted *row;

	function->wanted = 0;
	while (function->wanted < wanted->nr &&
	       strcmp(wanted->function[function->wanted].name, function->symbol))
		function->wanted++;
	row = &wanted->function[function->wanted];
	if (function->wanted == wanted->nr) {
		wanted->nr++;
		strcpy(row->name, function->symbol);
	}
	if (row->argument_nr < nr)
		row->argument_nr = nr;
}

static void allocator_release(struct user_allocator *allocator)
{
	free(allocator->name);
	free(allocator->object);
}

static void drop_functions(struct user_allocators *custom, size_t first)
{
	while (custom->function_nr > first)
		free(custom->function[--custom->function_nr].symbol);
}

int user_allocators_add(struct user_allocators *custom, const char *text, struct reason *why)
{
	struct spec spec = { .custom = custom, .first = custom->function_nr, .why = why };
	char *items = strdup(text);
	int err = items ? read_items(&spec, items) : -ENOMEM;

	if (!err && custom->allocator_nr == CUSTOM_ALLOCATORS_MAX)
		err = reason_set(why, -EINVAL, "more than %d allocators", CUSTOM_ALLOCATORS_MAX);
	if (!err)
		err = array_push(custom, allocator, spec.allocator);
	for (size_t i = spec.first; i < custom->function_nr && !err; i++)
		want(&custom->wanted, &custom->function[i]);
	free(items);
	if (err) {
		allocator_release(&spec.allocator);
		drop_functions(custom, spec.first);
	}
	return err;
}

void user_allocators_release(struct user_allocators *custom)
{
	for (size_t i = 0; i < custom->allocator_nr; i++)
		allocator_release(&custom->allocator[i]);
	drop_functions(custom, 0);
	free(custom->allocator);
	free(custom->function);
	memset(custom, 0, sizeof(*custom));
}

/* ---- questions ---- */

bool user_allocator_is_in(const struct user_allocator *allocator, const char *path, bool is_exe)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *object = allocator->object;

	if (!strcmp(object, "exe"))
		return is_exe;
	return !strcmp(object, path) || !strcmp(object, name) || !fnmatch(object, path, 0) ||
	       !fnmatch(object, name, 0);
}

bool user_function_throws(const struct user_allocators *custom, size_t i)
{
	const struct user_function *function = &custom->function[i];

	return shape_gives(function->shape) && (custom->allocator[function->allocator].throws ||
						!strncmp(function->symbol, "_Z", 2));
}

bool user_allocators_may_be_in(const struct user_allocators *custom, const char *path)
{
	for (size_t i = 0; i < custom->allocator_nr; i++)
		if (user_allocator_is_in(&custom->allocator[i], path, true))
			return true;
	return false;
}
