// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/user_function.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/user.h>

#include "base/array.h"
#include "base/units.h"
#include "elf/allocators.h"

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
	{ "alloc=", SHAPE_CUSTOM_ALLOC,
	  ARGUMENT_SIZE | ARGUMENT_COUNT | ARGUMENT_OUT | ARGUMENT_BYTES, 0,
	  "size=, count=, bytes= and out=" },
	{ "realloc=", SHAPE_CUSTOM_REALLOC, ARGUMENT_SIZE | ARGUMENT_COUNT | ARGUMENT_PTR,
	  ARGUMENT_SIZE | ARGUMENT_PTR, "ptr=, size= and count=" },
	{ "free=", SHAPE_CUSTOM_FREE, ARGUMENT_PTR, ARGUMENT_PTR, "ptr=" },
};

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
	uint64_t position;
	int err = take_width(reading, key, value);

	if (err)
		return err;
	if (parse_count(value, 1, CUSTOM_ARGUMENT_MAX, &position))
		return reason_set(reading->why, -EINVAL,
				  "%s: %s=%.40s: an argument's position is 1 to %d", reading->name,
				  key->name, value, CUSTOM_ARGUMENT_MAX);
	if (position == call->size || position == call->count || position == call->pointer)
		return reason_set(reading->why, -EINVAL, "%s: argument %u has two meanings",
				  reading->name, (unsigned int)position);
	*field = position;
	if (key->id == ARGUMENT_OUT)
		reading->function.shape = SHAPE_CUSTOM_OUT;
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

bool user_function_is_item(const char *item)
{
	return find_function_kind(item);
}

static int take_symbol(struct reading *reading, const char *symbol)
{
	if (!*symbol)
		return reason_set(reading->why, -EINVAL, "%s: the function's name is missing",
				  reading->name);
	if (strlen(symbol) >= FUNCTION_NAME_MAX)
		return reason_set(reading->why, -EINVAL, "%.40s…: the function's name is too long",
				  reading->name);
	reading->function.symbol = strdup(symbol);
	return reading->function.symbol ? 0 : -ENOMEM;
}

int user_function_read(char *item, struct user_function *ret, struct reason *why)
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

static struct argument_source constant_source(uint64_t value)
{
	return (struct argument_source){ .kind = ARGUMENT_CONSTANT, .value = value, .bytes = 8,
					 .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER };
}

/* x86-64 psABI, 3.2.3: integer arguments 1 to 6. */
static struct argument_source position_source(uint32_t position, bool is_narrow)
{
	static const uint16_t registers[CUSTOM_ARGUMENT_MAX] = {
		offsetof(struct user_regs_struct, rdi), offsetof(struct user_regs_struct, rsi),
		offsetof(struct user_regs_struct, rdx), offsetof(struct user_regs_struct, rcx),
		offsetof(struct user_regs_struct, r8),	offsetof(struct user_regs_struct, r9),
	};

	return (struct argument_source){ .kind = ARGUMENT_REGISTER, .bytes = is_narrow ? 4 : 8, .scale = 1,
					 .base = registers[position - 1], .index = ARGUMENT_NO_REGISTER };
}

struct user_call user_call_of(const struct user_arguments *at)
{
	return (struct user_call){
		.size = at->size ? position_source(at->size, at->narrow & NARROW_SIZE) : constant_source(at->bytes),
		.count = at->count ? position_source(at->count, at->narrow & NARROW_COUNT) : constant_source(1),
		.pointer = at->pointer ? position_source(at->pointer, false) : constant_source(0),
	};
}
