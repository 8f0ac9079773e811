// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/user_allocators.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "elf/allocators.h"
#include "elf/argument_source.h"

enum argument_id {
	ARGUMENT_SIZE = 1 << 0,
	ARGUMENT_COUNT = 1 << 1,
	ARGUMENT_PTR = 1 << 2,
	ARGUMENT_OUT = 1 << 3,
	ARGUMENT_BYTES = 1 << 4,
};

static const struct argument_key {
	const char *name;
	enum argument_id id;
	enum narrow_argument narrow; /* given by ":32"; 0: no width */
} argument_keys[] = {
	{ "size", ARGUMENT_SIZE, NARROW_SIZE }, { "count", ARGUMENT_COUNT, NARROW_COUNT },
	{ "ptr", ARGUMENT_PTR },		{ "out", ARGUMENT_OUT },
	{ "bytes", ARGUMENT_BYTES },
};

static const struct function_kind {
	const char *name; /* including the = */
	enum call_shape shape;
	unsigned int takes, needs; /* sets of enum argument_id */
	const char *taken;
} function_kinds[] = {
	{ "alloc=usdt:", SHAPE_REPORTED, ARGUMENT_SIZE | ARGUMENT_COUNT | ARGUMENT_PTR | ARGUMENT_BYTES, ARGUMENT_PTR,
	  "ptr=, size=, count= and bytes=" },
	{ "free=usdt:", SHAPE_REPORTED_FREE, ARGUMENT_PTR, ARGUMENT_PTR, "ptr=" },
	{ "alloc=", SHAPE_USER_ALLOC,
	  ARGUMENT_SIZE | ARGUMENT_COUNT | ARGUMENT_OUT | ARGUMENT_BYTES, 0,
	  "size=, count=, bytes= and out=" },
	{ "realloc=", SHAPE_USER_REALLOC, ARGUMENT_SIZE | ARGUMENT_COUNT | ARGUMENT_PTR,
	  ARGUMENT_SIZE | ARGUMENT_PTR, "ptr=, size= and count=" },
	{ "free=", SHAPE_USER_FREE, ARGUMENT_PTR, ARGUMENT_PTR, "ptr=" },
};

static bool is_usdt(const struct user_function *function)
{
	return shape_is_reported(function->shape);
}

/* A function while it is parsed. Messages call it by the text before its arguments. */
struct reading {
	const struct function_kind *kind;
	const char *name;
	unsigned int seen;
	struct user_function function;
	struct reason *why;
};

static const struct argument_key *argument_key_at(const char *text, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(argument_keys); i++)
		if (strlen(argument_keys[i].name) == len && !strncmp(argument_keys[i].name, text, len))
			return &argument_keys[i];
	return NULL;
}

/* "2:32" is the lower half of the second argument's register. Cuts off the width. */
static int take_width(struct reading *reading, const struct argument_key *key, char *value)
{
	char *width = strchr(value, ':');

	if (!width)
		return 0;
	if (is_usdt(&reading->function))
		return reason_set(reading->why, -EINVAL, "%s: %s=%.40s: the program itself says how wide arguments of a USDT probe are",
				  reading->name, key->name, value);
	if (!key->narrow || strcmp(width, ":32"))
		return reason_set(reading->why, -EINVAL,
				  "%s: %s=%.40s: ':32' may follow the position of a size or a count, and nothing else",
				  reading->name, key->name, value);
	reading->function.call.narrow |= key->narrow;
	*width = '\0';
	return 0;
}

static int set_position(struct reading *reading, const struct argument_key *key, char *value)
{
	struct user_arguments *call = &reading->function.call;
	uint32_t *field = key->id == ARGUMENT_SIZE ? &call->size :
			  key->id == ARGUMENT_COUNT ? &call->count : &call->pointer;
	uint64_t position, most = is_usdt(&reading->function) ? USDT_POSITION_MAX : USER_ARGUMENT_MAX;
	int err = take_width(reading, key, value);

	if (err)
		return err;
	if (parse_count(value, 1, most, &position))
		return reason_set(reading->why, -EINVAL,
				  "%s: %s=%.40s: an argument's position is 1 to %d", reading->name,
				  key->name, value, (int)most);
	if (position == call->size || position == call->count || position == call->pointer)
		return reason_set(reading->why, -EINVAL, "%s: argument %u has two meanings",
				  reading->name, (unsigned int)position);
	*field = position;
	if (key->id == ARGUMENT_OUT)
		reading->function.shape = SHAPE_USER_OUT;
	return 0;
}

static int set_bytes(struct reading *reading, const char *value)
{
	if (!parse_count(value, 1, INT64_MAX, &reading->function.call.bytes))
		return 0;
	return reason_set(reading->why, -EINVAL, "%s: bytes=%.40s is no number of bytes",
			  reading->name, value);
}

static int set_argument(struct reading *reading, char *text)
{
	size_t len = strcspn(text, "=");
	const struct argument_key *key = text[len] ? argument_key_at(text, len) : NULL;

	if (!key || !(reading->kind->takes & key->id))
		return reason_set(reading->why, -EINVAL, "%s: '%.40s' is none of %s", reading->name,
				  text, reading->kind->taken);
	if (reading->seen & key->id)
		return reason_set(reading->why, -EINVAL, "%s: %s= is there twice", reading->name,
				  key->name);
	reading->seen |= key->id;
	return key->id == ARGUMENT_BYTES ? set_bytes(reading, text + len + 1) :
					   set_position(reading, key, text + len + 1);
}

static int check_arguments(const struct reading *reading)
{
	const unsigned int sizes = ARGUMENT_SIZE | ARGUMENT_BYTES;

	for (size_t i = 0; i < ARRAY_SIZE(argument_keys); i++)
		if (reading->kind->needs & ~reading->seen & argument_keys[i].id)
			return reason_set(reading->why, -EINVAL, "%s: %s= is missing",
					  reading->name, argument_keys[i].name);
	if (reading->kind->takes & ARGUMENT_BYTES && !(reading->seen & sizes))
		return reason_set(reading->why, -EINVAL, "%s: size= (or bytes=) is missing",
				  reading->name);
	if ((reading->seen & sizes) == sizes)
		return reason_set(reading->why, -EINVAL, "%s: size= and bytes= exclude each other",
				  reading->name);
	return 0;
}

static int set_arguments(struct reading *reading, char *text)
{
	int err = 0;

	if (!*text)
		text = NULL; /* "()" */
	while (text && !err)
		err = set_argument(reading, strsep(&text, ","));
	return err ?: check_arguments(reading);
}

static const struct function_kind *find_function_kind(const char *item)
{
	for (size_t i = 0; i < ARRAY_SIZE(function_kinds); i++)
		if (!strncmp(item, function_kinds[i].name, strlen(function_kinds[i].name)))
			return &function_kinds[i];
	return NULL;
}

/* Whether the item begins like a function. */
static bool user_function_is_item(const char *item)
{
	return find_function_kind(item);
}

static bool is_usdt_name(const char *name)
{
	const char *colon = strchr(name, ':');

	return colon && colon > name && colon[1] && !strchr(colon + 1, ':');
}

static int take_symbol(struct reading *reading, const char *symbol)
{
	if (!*symbol)
		return reason_set(reading->why, -EINVAL, "%s: the function's name is missing",
				  reading->name);
	if (is_usdt(&reading->function) && !is_usdt_name(symbol))
		return reason_set(reading->why, -EINVAL, "%.100s: a USDT probe is called PROVIDER:NAME", reading->name);
	if (!strncmp(symbol, "usdt:", strlen("usdt:")))
		return reason_set(reading->why, -EINVAL, "%.100s: USDT probes report what is allocated and what is freed: "
				  "alloc=usdt:… and free=usdt:…", reading->name);
	if (strlen(symbol) >= FUNCTION_NAME_MAX)
		return reason_set(reading->why, -EINVAL, "%.40s…: the function's name is too long",
				  reading->name);
	reading->function.symbol = strdup(symbol);
	return reading->function.symbol ? 0 : -ENOMEM;
}

/*
 * Parses a function. Cuts the item after SYM, so that it is the function's name in messages. The
 * caller frees ret->symbol. 0, -ENOMEM, or -EINVAL with a line in *why.
 */
static int user_function_read(char *item, struct user_function *ret, struct reason *why)
{
	const struct function_kind *kind = find_function_kind(item);
	struct reading reading = {
		.kind = kind, .name = item, .function = { .shape = kind->shape }, .why = why,
	};
	char *arguments = strchr(item, '('), *end = strchr(item, ')');
	int err;

	if (arguments && (!end || end < arguments))
		return reason_set(why, -EINVAL, "%.100s: ')' is missing", item);
	if (end && (!arguments || end[1]))
		return reason_set(why, -EINVAL, "%.100s: nothing belongs behind ')'", item);
	if (arguments)
		*arguments++ = *end = '\0';
	err = set_arguments(&reading, arguments ?: (char[]){ "" }) ?:
	      take_symbol(&reading, item + strlen(kind->name));
	if (!err)
		*ret = reading.function;
	return err;
}

/* ---- for the kernel side ---- */

struct user_call user_call_of(const struct user_arguments *at)
{
	return (struct user_call){
		.size = at->size ? argument_at(at->size, at->narrow & NARROW_SIZE) : argument_constant(at->bytes),
		.count = at->count ? argument_at(at->count, at->narrow & NARROW_COUNT) : argument_constant(1),
		.pointer = at->pointer ? argument_at(at->pointer, false) : argument_constant(0),
	};
}

/* The state of parsing one SPEC. */
struct spec {
	struct user_allocators *user_allocators;
	struct user_allocator allocator;
	size_t first; /* the index of its first function */
	struct reason *why;
};

/* ---- items ---- */

static bool is_named(const struct spec *spec, const char *symbol)
{
	for (size_t i = spec->first; i < spec->user_allocators->function_nr; i++)
		if (!strcmp(spec->user_allocators->function[i].symbol, symbol))
			return true;
	return false;
}

static int spec_add_function(struct spec *spec, const char *item, struct user_function *function)
{
	if (is_named(spec, function->symbol))
		return reason_set(spec->why, -EINVAL, "%s: the function is there twice", item);
	if (spec->user_allocators->function_nr == USER_CALLS_MAX)
		return reason_set(spec->why, -EINVAL, "more than %d functions", USER_CALLS_MAX);
	function->allocator = spec->user_allocators->allocator_nr;
	return array_push(spec->user_allocators, function, *function);
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
	       strlen(text) <= USER_ALLOCATOR_NAME_MAX;
}

static bool is_taken(const struct spec *spec, const char *name)
{
	for (size_t i = 0; i < spec->user_allocators->allocator_nr; i++)
		if (!strcmp(spec->user_allocators->allocator[i].name, name))
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
				  value, USER_ALLOCATOR_NAME_MAX);
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
	for (size_t i = spec->first; i < spec->user_allocators->function_nr; i++)
		if (is_wanted(spec->user_allocators->function[i].shape))
			return true;
	return false;
}

static bool shape_has_report(enum call_shape shape)
{
	return shape_is_reported(shape);
}

static int check_allocator_spec(const struct spec *spec)
{
	static const char missing[] = "%s is missing";

	if (!spec->allocator.name)
		return reason_set(spec->why, -EINVAL, missing, "name=");
	if (!spec->allocator.object)
		return reason_set(spec->why, -EINVAL, missing, "object=");
	if (spec->allocator.wraps && spec_has_shape(spec, shape_has_report))
		return reason_set(spec->why, -EINVAL,
				  "wraps: a USDT probe shows no call whose malloc could be left out");
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

_Static_assert((int)FUNCTIONS_WANTED_MAX >= USER_CALLS_MAX, "there is room for each");

static struct function_wanted wanted_of(const struct user_function *function)
{
	const struct user_arguments *call = &function->call;
	struct function_wanted row = { .is_usdt = is_usdt(function) };

	strcpy(row.name, function->symbol);
	if (row.is_usdt) { /* in the order of struct usdt_call */
		memcpy(row.position, (uint32_t[]){ call->pointer, call->size, call->count }, sizeof(row.position));
		memcpy(row.constant, (uint64_t[]){ 0, call->bytes, 1 }, sizeof(row.constant));
	}
	return row;
}

static bool is_wanted_row(const struct function_wanted *a, const struct function_wanted *b)
{
	return a->is_usdt == b->is_usdt && !strcmp(a->name, b->name) &&
	       !memcmp(a->position, b->position, sizeof(a->position)) && !memcmp(a->constant, b->constant, sizeof(a->constant));
}

/* Two files may have functions of the same name. */
static void want(struct functions_wanted *wanted, struct user_function *function)
{
	unsigned int nr = user_allocators_argument_nr(&function->call);
	const struct function_wanted row = wanted_of(function);

	function->wanted = 0;
	while (function->wanted < wanted->nr && !is_wanted_row(&wanted->function[function->wanted], &row))
		function->wanted++;
	if (function->wanted == wanted->nr)
		wanted->function[wanted->nr++] = row;
	if (wanted->function[function->wanted].argument_nr < nr)
		wanted->function[function->wanted].argument_nr = nr;
}

static void allocator_release(struct user_allocator *allocator)
{
	free(allocator->name);
	free(allocator->object);
}

static void drop_functions(struct user_allocators *user_allocators, size_t first)
{
	while (user_allocators->function_nr > first)
		free(user_allocators->function[--user_allocators->function_nr].symbol);
}

int user_allocators_add(struct user_allocators *user_allocators, const char *text, struct reason *why)
{
	struct spec spec = { .user_allocators = user_allocators, .first = user_allocators->function_nr, .why = why };
	char *items = strdup(text);
	int err = items ? read_items(&spec, items) : -ENOMEM;

	if (!err && user_allocators->allocator_nr == USER_ALLOCATORS_MAX)
		err = reason_set(why, -EINVAL, "more than %d allocators", USER_ALLOCATORS_MAX);
	if (!err)
		err = array_push(user_allocators, allocator, spec.allocator);
	for (size_t i = spec.first; i < user_allocators->function_nr && !err; i++)
		want(&user_allocators->wanted, &user_allocators->function[i]);
	free(items);
	if (err) {
		allocator_release(&spec.allocator);
		drop_functions(user_allocators, spec.first);
	}
	return err;
}

void user_allocators_release(struct user_allocators *user_allocators)
{
	for (size_t i = 0; i < user_allocators->allocator_nr; i++)
		allocator_release(&user_allocators->allocator[i]);
	drop_functions(user_allocators, 0);
	free(user_allocators->allocator);
	free(user_allocators->function);
	memset(user_allocators, 0, sizeof(*user_allocators));
}

/* ---- questions ---- */

bool user_allocator_is_in(const struct user_allocator *allocator, const char *path, bool is_exe)
{
	const char *object = allocator->object, *name = path_name(path);

	if (!strcmp(object, "exe"))
		return is_exe;
	return !strcmp(object, path) || !strcmp(object, name) || !fnmatch(object, path, 0) ||
	       !fnmatch(object, name, 0);
}

bool user_function_throws(const struct user_allocators *user_allocators, size_t i)
{
	const struct user_function *function = &user_allocators->function[i];

	return shape_gives(function->shape) && (user_allocators->allocator[function->allocator].throws ||
						!strncmp(function->symbol, "_Z", 2));
}

bool user_allocators_may_be_in(const struct user_allocators *user_allocators, const char *path)
{
	for (size_t i = 0; i < user_allocators->allocator_nr; i++)
		if (user_allocator_is_in(&user_allocators->allocator[i], path, true))
			return true;
	return false;
}
